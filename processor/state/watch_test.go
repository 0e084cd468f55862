package state

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
)

// TestWatch: each judged score is watched once, with its task and what was expected, and the results are those without.
func TestWatch(t *testing.T) {
	z := detectors.Must(simple.NewZScore(5))
	var seen []Watched
	fold := func(watch func(*Watched)) (*State, []Row) {
		cfg := watched()
		cfg.Detectors[0].Detector, cfg.Detectors[0].Stride = z, 3
		cfg.Watch = watch
		s, b := New(cfg), &detectors.Batch{}
		s.SetSource("in", 3)
		s.Mark(0)
		for i := range int64(40) {
			s.Fold(&Sample{Key: []byte("a"), Time: i, Offset: i, Values: []float64{math.Sin(float64(i)) + float64(i/20*9)}}, b)
			for b.MaxTasks = 4; !s.Fits(b) || i == 39 && len(b.Tasks) > 0; b.Reset() {
				for k := range b.Tasks {
					r := b.Rows(k)
					z.Op().Spec().CPU(t.Context(), &r, detectors.Sequential)
				}
				s.Apply(b)
			}
		}
		return s, s.Rows
	}
	s, rows := fold(func(w *Watched) {
		if got := w.Task.Scores[w.Fresh]; got != w.Score {
			t.Errorf("offset %d: score %v, its task's is %v", w.Offset, w.Score, got)
		}
		if len(w.Expected) != 1 || len(w.Actual) != 1 {
			t.Errorf("offset %d: expected %v, actual %v", w.Offset, w.Expected, w.Actual)
		}
		c := *w
		c.Task = detectors.Rows{}
		seen = append(seen, c)
	})
	still, want := fold(nil)
	if !bytes.Equal(s.Export(nil), still.Export(nil)) || len(rows) != len(want) {
		t.Error("the state is another one than without Watch")
	}
	var judged []Row
	for i := range rows {
		rows[i].Key, want[i].Key = nil, nil
		if !reflect.DeepEqual(rows[i], want[i]) && rows[i].Score == rows[i].Score {
			t.Errorf("row %d is %+v, without Watch %+v", i, rows[i], want[i])
		}
		if rows[i].Score == rows[i].Score {
			judged = append(judged, rows[i])
		}
	}
	if len(seen) != len(judged) || len(seen) < 20 {
		t.Fatalf("%d scores were watched of %d", len(seen), len(judged))
	}
	for i := range seen {
		if r := seen[i].Row; r.Offset != judged[i].Offset || r.Score != judged[i].Score || r.Threshold != judged[i].Threshold {
			t.Errorf("watched %+v, the row is %+v", r, judged[i])
		}
	}
}
