package admin

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// TestNewInputTopic: a start goes on once brokers know an input topic that none of them knew, and does not wait for one
// where another fault is permanent.
func TestNewInputTopic(t *testing.T) {
	absent := Finding{Level: LevelFault, What: "topic in", Detail: "does not exist", err: missingError{"in"}}
	denied := Finding{Level: LevelFault, What: "topic other", Detail: "may not be described"}
	log := slog.New(slog.DiscardHandler)
	tries := 0
	err := Retry(t.Context(), log, time.Now().Add(time.Minute), func(context.Context) error {
		if tries++; tries < 3 {
			return (&Report{Findings: []Finding{absent}}).startFault()
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	err = Retry(t.Context(), log, time.Now().Add(time.Minute), func(context.Context) error {
		tries++
		return (&Report{Findings: []Finding{absent, denied}}).startFault()
	})
	if !errors.As(err, new(PermanentError)) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}
