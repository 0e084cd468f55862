package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestRecursOfASeries: a fault of an hour at two each night, but for the sixth, is shown as what recurs from the third night on, with the
// severity that the policy says; one at random times besides it is not counted with it. A worker that goes back and restarts at any
// sample says the same.
func TestRecursOfASeries(t *testing.T) {
	const minute, day, nights = int64(60e6), int64(86400e6), 10
	r := seedtest.New(t)
	cfg := watched()
	cfg.Detectors[0].Events.Recurring = 30
	x, y := newRig(t, cfg), newRig(t, cfg)
	value, worst := 0, uint8(0)
	said := map[int64]string{} // by the start of an anomaly, what its last record says
	others := []int64{day + 600*minute, 3*day + 1200*minute, 7*day + 900*minute}
	for now := int64(0); now < nights*day; now += 5 * minute {
		night := now / day
		switch at := now % day; {
		case at >= 120*minute && at < 180*minute && night != 5:
			value += 20
		case slices.ContainsFunc(others, func(from int64) bool { return now >= from && now < from+15*minute }):
			value += 300
		default:
			value = 0
		}
		sample := fmt.Sprintf("a %d %d", now, value)
		var events [2][]flatEvent
		for i, s := range []*rig{x, y} {
			if s == x && r.IntN(8) == 0 {
				s.foldRaw(sample)
				if s.offset--; s.s.Rollback(s.offset) != nil {
					t.Fatal("no rollback")
				}
			}
			s.foldRaw(sample)
			events[i] = flattenEvents(s.s.Events)
			for _, e := range s.s.Events {
				a := &e.Change.Anomaly
				if said[a.Start] = "-"; a.Recurs != nil {
					said[a.Start] = fmt.Sprintf("every %d min, %d", a.Recurs.Period/minute, a.Recurs.Count)
				}
				if a.Recurs != nil && a.Severity > 30 {
					t.Errorf("at %d min: severity %d", a.Start/minute, a.Severity)
				}
				worst = max(worst, a.Severity)
			}
			s.s.Events = s.s.Events[:0]
			s.commit()
			s.all()
			if s == x && r.IntN(20) == 0 {
				s.restart(cfg)
			}
		}
		if !slices.Equal(events[0], events[1]) {
			t.Fatalf("events %v and %v", events[0], events[1])
		}
	}
	if !bytes.Equal(x.s.Export(nil), y.s.Export(nil)) {
		t.Fatal("another state")
	}
	count := 0
	for night := range int64(nights) {
		if night == 5 {
			continue
		}
		want := "-"
		if count++; count > 2 {
			want = fmt.Sprintf("every 1440 min, %d", count)
		}
		start := night*day + 120*minute
		if got := said[start]; got != want {
			t.Errorf("night %d: %s, want %s", night, got, want)
		}
		delete(said, start)
	}
	for start, text := range said {
		if text != "-" {
			t.Errorf("at %d min: %s", start/minute, text)
		}
	}
	if len(said) != len(others) || worst < 50 {
		t.Errorf("of the other faults %d are found, with a severity of at most %d", len(said), worst)
	}
}
