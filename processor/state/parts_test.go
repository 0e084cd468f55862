package state

import (
	"math"
	"reflect"
	"testing"

	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

func TestPosition(t *testing.T) {
	for _, c := range []struct{ maxTime, lateness, want int64 }{
		{NoTime, 0, NoTime},
		{NoTime, 10, NoTime},
		{100, 0, 100},
		{100, 30, 70},
		{-100, 30, -130},
		{math.MinInt64 + 5, 30, math.MinInt64 + 1}, // a time, not the lack of one
	} {
		p := State{next: 8, maxTime: c.maxTime, order: rules.Order{Lateness: c.lateness}, released: NoTime}
		if got := p.watermark(); got != c.want {
			t.Errorf("the watermark at %d with lateness %d is %d, not %d", c.maxTime, c.lateness, got, c.want)
		}
		if p.MaxTime() != c.maxTime || p.turn() != 7 {
			t.Errorf("the largest time is %d, the turn %d", p.MaxTime(), p.turn())
		}
	}
}

// TestHeldSamples: samples are taken in the order of their times, and the journal's operations take both
// back; the memory of the list goes with the last sample.
func TestHeldSamples(t *testing.T) {
	cfg := benchConfig(4, 1)
	cfg.Dim = 2
	s := New(cfg)
	s.Mark(0)
	k := series.NewKey([]byte("k"), series.None)
	s.Keys.insert(k)
	empty := s.Keys.Bytes
	for i, time := range []int64{30, 10, 20} {
		s.hold(k, &Sample{Time: time, Offset: int64(i), Values: []float64{float64(time), float64(-i)}})
	}
	if s.Keys.Bytes <= empty || s.Keys.Bytes != empty+k.Held.Bytes() || s.held.N != 3 {
		t.Fatalf("%d samples are held in %d bytes", s.held.N, s.Keys.Bytes-empty)
	}
	s.journal.Mark(Floor{Offset: 3})
	for _, want := range []int64{10, 20, 30} {
		due, ok := s.held.Due(30)
		if !ok || due != k {
			t.Fatalf("no sample is due at 30, the one of %d is", want)
		}
		if sm := s.popHeld(k, want != 20); sm.Time != want || sm.Values[0] != float64(want) || sm.Values[1] != -float64(sm.Offset) {
			t.Errorf("taken is time %d, offset %d, %v, not time %d", sm.Time, sm.Offset, sm.Values, want)
		}
	}
	if k.Held != nil || s.Keys.Bytes != empty || s.held.N != 0 {
		t.Errorf("%d samples are held in %d bytes when all are taken", s.held.N, s.Keys.Bytes-empty)
	}
	s.journal.Rollback(3)
	s.rebuildHeld()
	s.recountHeld()
	if k.Held.Len() != 3 || s.held.N != 3 || k.Held.First() != 10 || s.Keys.Bytes != empty+k.Held.Bytes() {
		t.Errorf("%d samples are held in %d bytes after a rollback", s.held.N, s.Keys.Bytes-empty)
	}
	s.journal.Rollback(0)
	if k.Held != nil || s.Keys.Bytes != empty {
		t.Errorf("held is %v in %d bytes after a rollback of all", k.Held, s.Keys.Bytes-empty)
	}
}

// TestReverter: what is saved at a mark is restored.
func TestReverter(t *testing.T) {
	s := New(benchConfig(4, 1))
	s.maxTime, s.held.N, s.Tally.Counts[Late], s.Tally.Early, s.Tally.EvictedKeys, s.Suspects.Counts.Accepted = 5, 2, 3, 4, 6, 1
	s.Tally.count(7, 1, 2, 3)
	saved, tally := s.saveUndo(), s.Tally
	tally.Fields = map[uint64]FieldCount{7: {1, 2, 3}}
	s.Tally.count(7, 1, 0, 0)
	s.undoRestore(saved)
	s.Tally.count(8, 0, 0, 1)
	s.maxTime, s.held.N, s.Tally.EvictedKeys, s.Suspects.Counts = 9, 9, 9, SuspectCounts{9, 9}
	s.undoRestore(saved)
	if s.maxTime != 5 || s.held.N != 2 || !reflect.DeepEqual(s.Tally, tally) || s.Suspects.Counts != (SuspectCounts{Accepted: 1}) {
		t.Errorf("restored are %d, %d, %+v and %+v", s.maxTime, s.held.N, s.Tally, s.Suspects.Counts)
	}
	k := series.NewKey([]byte("k"), s.sets.For([]byte("k")))
	s.Keys.insert(k)
	k.Unit, k.Progress[0].Unit = 7, 7
	if s.undoRenew(); k.Unit != 0 || k.Progress[0].Unit != 0 {
		t.Errorf("units %d and %d of a key after their numbers begin anew", k.Unit, k.Progress[0].Unit)
	}
}

// TestGate: what a batch has no room for waits in the gate, with a copy of the sample, until
// Fits has found room for all, or a rollback has dropped it.
func TestGate(t *testing.T) {
	cfg := benchConfig(1, 1)
	cfg.Reading.Lateness = 100
	for _, back := range []bool{false, true} {
		s, b := New(cfg), &detectors.Batch{MaxTasks: 1}
		fold := func(sm Sample) {
			for !s.Fits(b) {
				s.Apply(b)
				b.Reset()
			}
			s.Fold(&sm, b)
		}
		s.Mark(0)
		for i := range int64(5) {
			fold(Sample{Key: []byte("k"), Time: i, Offset: i, Values: []float64{1}})
		}
		key := []byte("late")
		fold(Sample{Key: key, Time: 1000, Offset: 5, Values: []float64{2}})
		copy(key, "gone")
		if s.gate.idle() {
			t.Fatal("five samples were released into a batch of one task")
		}
		if back {
			if err := s.Rollback(0); err != nil || !s.gate.idle() || s.Held() != 0 {
				t.Errorf("%v, %d samples are held after a rollback", err, s.Held())
			}
			continue
		}
		for !s.Fits(b) {
			s.Apply(b)
			b.Reset()
		}
		if !s.gate.idle() || s.Tally.Counts[Scored] != 5 || s.Held() != 1 || s.Keys.Get([]byte("late")) == nil {
			t.Errorf("%v, %d samples are held, %d keys", s.Tally.Counts, s.Held(), s.Keys.Len())
		}
	}
}

// TestOrphans finds the keys with anomalies that nothing continues.
func TestOrphans(t *testing.T) {
	s := New(benchConfig(4, 1))
	s.Mark(0)
	list := map[string]*Key{}
	for _, name := range []string{"a", "b", "c"} {
		k := series.NewKey([]byte(name), series.None)
		k.Alerts = series.NewAlerts(0)
		if name != "b" {
			k.Alerts.Orphans = []series.Orphan{{Name: "gone"}}
		}
		s.Keys.insert(k)
		list[name] = k
	}
	s.rebuildOrphans()
	s.evict(list["a"], 0, anomaly.Expired)
	if _, has := s.orphans.orphaned[list["c"]]; !has || len(s.orphans.orphaned) != 1 {
		t.Errorf("orphans %v, not just c", s.orphans.orphaned)
	}
	if got := s.cfg.detectorOf(&list["c"].Alerts.Orphans[0]); got != RemovedDetector {
		t.Errorf("the detector of an orphan is %d", got)
	}
}
