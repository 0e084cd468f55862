package state

import (
	"testing"

	"odradek/detectors"
)

// TestSampleOfClosedInterval: a sample that its series would hold, of an interval that an advance has closed, is late when it comes, so
// that its record is sent to the topic of late records.
func TestSampleOfClosedInterval(t *testing.T) {
	cfg := benchConfig(2, 1)
	cfg.Reading.Every, cfg.Reading.Aggregates, cfg.Reading.Fields = 10, []string{"max"}, []string{"v"}
	cfg.Reading.Lateness, cfg.Reading.BySeries = 100, true
	s, b := New(cfg), &detectors.Batch{}
	apply := func() {
		for more := true; more; {
			more = !s.Fits(b)
			levels(b)
			s.Apply(b)
			b.Reset()
		}
	}
	s.Mark(0)
	s.Committed(0)
	fold := func(offset, at int64) Outcome {
		return s.Fold(&Sample{Key: []byte("k"), Time: at, Offset: offset, Values: []float64{1}}, b)
	}
	for i, at := range []int64{1000, 1005, 1012} {
		if got := fold(int64(i), at); got != Held {
			t.Fatalf("sample %d: outcome %v", i, got)
		}
	}
	apply()
	s.Mark(3)
	if err := s.Snapshot(0, 1<<20, func(_, _ []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.Committed(3)
	if !s.DecideAdvance(1130) {
		t.Fatal("no advance")
	}
	apply()
	if s.Intervals != 2 {
		t.Fatalf("%d intervals are closed", s.Intervals)
	}
	for i, c := range []struct {
		at   int64
		want Outcome
	}{{1015, Late}, {1020, Held}} {
		if got := fold(int64(3+i), c.at); got != c.want {
			t.Errorf("a sample at %d: outcome %v, want %v", c.at, got, c.want)
		}
	}
	if s.Counts[Late] != 1 {
		t.Errorf("%d late samples", s.Counts[Late])
	}
}
