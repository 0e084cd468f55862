package state

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
)

// TestBackfill: behind the backfill the rows are as in a group that published everything, to the bit,
// and below it there are none. Without anomalies the states are the same bytes, too.
func TestBackfill(t *testing.T) {
	r := seedtest.New(t)
	rows, changes, same := 0, 0, 0
	for range 40 {
		cfg := randomConfig(r)
		quiet := r.IntN(2) == 0
		if quiet {
			cfg.Silence = 0
			for i := range cfg.Detectors {
				cfg.Detectors[i].Events = nil
			}
		}
		all := newWorldOf(t, r, cfg, 200+r.IntN(800))
		w := *all
		w.state, w.backfill = map[int64]reference{}, all.log[r.IntN(len(all.log))].Offset+r.Int64N(2)
		w.fill(t)
		compareRows(t, w.rows, slices.DeleteFunc(slices.Clone(all.rows), func(f flat) bool { return f.offset < w.backfill }))
		open := map[string]bool{}
		for _, c := range w.events {
			id := c.key + "\x00" + c.name
			switch {
			case c.kind == anomaly.Open && c.offset < w.backfill:
				t.Fatalf("an anomaly opens in the backfill below %d: %+v", w.backfill, c)
			case open[id] == (c.kind == anomaly.Open):
				t.Fatalf("an anomaly is changed before it opens, or opens twice: %+v", c)
			}
			open[id] = c.kind != anomaly.Close
		}
		for _, u := range w.refused {
			if u.Offset < w.backfill {
				t.Fatalf("a suspect of the backfill below %d is refused: %+v", w.backfill, u)
			}
		}
		if quiet {
			if !bytes.Equal(w.at(w.end).export, all.at(w.end).export) {
				t.Fatal("the state differs from a group's that published everything")
			}
			same++
		}
		rows, changes = rows+len(w.rows), changes+len(w.events)
	}
	t.Logf("%d rows and %d changes of anomalies behind backfills, %d equal states", rows, changes, same)
}

// TestLostBackfillIsNoticed is the negative control: a restore in the middle of a backfill that does not know
// of it publishes some of it.
func TestLostBackfillIsNoticed(t *testing.T) {
	r := seedtest.New(t)
	noticed := 0
	for range 10 {
		w := newWorld(t, r, 400)
		w.backfill = w.end
		w.fill(t)
		if len(w.rows)+len(w.events) > 0 {
			t.Fatalf("%d rows of a log that is all backfill", len(w.rows))
		}
		run := func(forget bool) int {
			x := newRun(t, rand.New(rand.NewPCG(1, 3)), w)
			commit := func() bool {
				if !x.chunk(20, true) {
					return false
				}
				c := x.cycle
				x.flight, x.cycle = &c, part{}
				x.land()
				x.tell()
				return true
			}
			for x.committed < w.end/2 && commit() {
			}
			if forget {
				x.breakIt = func(f *Floor) { f.Backfill = 0 }
			}
			x.crash()
			for commit() {
			}
			return len(x.rows) + len(x.events) + len(x.refused)
		}
		if n := run(false); n != 0 {
			t.Errorf("%d rows, changes and refusals of a backfill", n)
		}
		if run(true) > 0 {
			noticed++
		}
	}
	if noticed == 0 {
		t.Error("restores without the backfill publish nothing of it")
	}
}

// TestSilentAfterBackfill: a series that is silent at the end of the backfill is so with the next sample, and not
// before.
func TestSilentAfterBackfill(t *testing.T) {
	for i := range 4 {
		restored, passed := i&1 != 0, int64(i>>1) // offsets behind the end that are no samples
		cfg := twoWindows()
		cfg.Silence = 10
		log := []Sample{{Key: []byte("a"), Time: 0, Offset: 0}, {Key: []byte("b"), Time: 100, Offset: 1},
			{Key: []byte("b"), Time: 101, Offset: 5}}
		for i := range log {
			log[i].Values = []float64{1, 2}
		}
		w := &world{cfg: cfg, log: log, end: 6, backfill: 2, state: map[int64]reference{}}
		w.fill(t)
		x := newRun(t, rand.New(rand.NewPCG(1, 1)), w)
		x.chunk(2, false)
		x.flush()
		x.position = w.backfill + passed
		x.s.Mark(x.position)
		if err := x.s.Snapshot(0, 0, x.emit); err != nil {
			t.Fatal(err)
		}
		x.cycle.next, x.cycle.floor = x.position, x.s.Floor().String()
		c := x.cycle
		x.flight, x.cycle = &c, part{}
		x.land()
		x.tell()
		if restored {
			x.crash()
		}
		x.chunk(1, true)
		if len(x.cycle.events) != 1 || x.cycle.events[0].key != "a" || x.cycle.events[0].offset != 5 {
			t.Errorf("restored %v, %d offsets passed: changes %+v", restored, passed, x.cycle.events)
		}
		compareEvents(t, x.cycle.events, w.events)
	}
}
