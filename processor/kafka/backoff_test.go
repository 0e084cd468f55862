package kafka

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestDelay: a delay doubles up to its largest, each time between half of it and all of
// it, and begins anew after Reset.
func TestDelay(t *testing.T) {
	d := newBackoff(10*time.Millisecond, 65*time.Millisecond)
	for range 20 {
		for i, ms := range []int{10, 20, 40, 65, 65} {
			most := time.Duration(ms) * time.Millisecond
			if got := d.Next(); got < most/2 || got > most {
				t.Fatalf("attempt %d waits %v, want %v to %v", i, got, most/2, most)
			}
		}
		d.Reset()
	}
}

// TestWaitEnds: a wait ends with its context, and says why that has ended.
func TestWaitEnds(t *testing.T) {
	why := errors.New("closed")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	d := newBackoff(time.Hour, time.Hour)
	if err := d.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	if err := sleep(context.Background(), time.Nanosecond); err != nil {
		t.Error(err)
	}
}
