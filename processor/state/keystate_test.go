package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
)

// compareRows finds the first difference.
func compareRows(t *testing.T, got, want []flat) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("row %d is\n%+v, undisturbed\n%+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, undisturbed %d", len(got), len(want))
	}
}

// compareEvents is compareRows for changes of anomalies.
func compareEvents(t *testing.T, got, want []flatEvent) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("change %d is\n%+v, undisturbed\n%+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d changes of anomalies, undisturbed %d", len(got), len(want))
	}
}

// TestScoresAreAFunctionOfTheLog: for any chunks, batches, snapshots, aborts
// and crashes, rows and state are as after one undisturbed fold.
func TestScoresAreAFunctionOfTheLog(t *testing.T) {
	r := seedtest.New(t)
	worlds, schedules := 16, 6
	if testing.Short() {
		worlds = 9
	}
	aborts, crashes, rows, changes, early, segments := 0, 0, 0, 0, int64(0), 0
	for i := range worlds {
		w := newTrimmedWorld(t, r, 300+r.IntN(1500))
		if i < 2 { // a key holds more than a held segment, and MaxHeld releases
			cfg := randomConfig(r)
			cfg.Reading.Lateness, cfg.Reading.MaxHeld, cfg.MaxRecord = 1e6, 100, 400
			w = newWorldOf(t, r, cfg, 300+r.IntN(1500))
		}
		for range schedules {
			x := newRun(t, rand.New(rand.NewPCG(r.Uint64(), 2)), w)
			x.mandatory = r.IntN(4) == 0
			x.all([]int{0, 2, 10}[r.IntN(3)])
			compareRows(t, x.rows, w.rows)
			compareEvents(t, x.events, w.events)
			if !slices.EqualFunc(x.refused, w.refused, func(a, b Refusal) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
				t.Fatalf("refused %v, undisturbed %v", x.refused, w.refused)
			}
			for _, u := range x.refused {
				if u.Record != u.Offset {
					t.Fatalf("the suspect at %d is refused with the record of %v", u.Offset, u.Record)
				}
			}
			changes += len(x.events)
			x.check("end", x.s)
			if x.counts != w.count || x.early != w.early || x.s.Held() != w.held {
				t.Fatalf("counted %v, %d early and %d held, undisturbed %v, %d and %d", x.counts, x.early, x.s.Held(), w.count, w.early, w.held)
			}
			early += x.early
			for _, r := range x.changelog {
				if r.key[0] == changelog.Held && r.value != nil {
					segments++
				}
			}
			aborts, crashes, rows = aborts+x.aborts, crashes+x.crashes, rows+len(x.rows)
		}
	}
	t.Logf("%d schedules, %d rows, %d changes of anomalies, %d aborts, %d crashes, %d samples released early, %d segments of held ones",
		worlds*schedules, rows, changes, aborts, crashes, early, segments)
}
