package state

import (
	"bytes"
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// TestActualIsExact: an anomaly says what was measured, to the bit of the float64
// that came in, wherever the rows of its task were centred, also after a restore.
func TestActualIsExact(t *testing.T) {
	for _, c := range []struct{ usual, other, fault float64 }{
		{-5, -5.25, 1e8}, {0.1, 0.3, 1e8}, {1e8, 1e8 + 1, 1e8 + 35}, {1e8 + 0.001, 1e8 + 0.002, 1e8 + 7.3},
		{-5, -4, math.Pi * 1e15}, {1e8, 1e8 + 1, 0.1},
	} {
		z, err := simple.NewZScore(5)
		if err != nil {
			t.Fatal(err)
		}
		for _, dim := range []int{1, 3} {
			for _, stride := range []int{1, 4} {
				cfg := watched()
				cfg.Dim, cfg.Windows[0].Columns = dim, []int{0, 1, 2}[:dim]
				cfg.Detectors[0].Detector, cfg.Detectors[0].Stride = z, stride
				s, b := New(cfg), &detectors.Batch{}
				s.SetSource("in", 3)
				s.Mark(0)
				for i := range int64(12) {
					row := []float64{c.usual, 1 / 3.0, 7e9 + 0.1}[:dim]
					if i%2 == 1 {
						row[0] = c.other
					}
					if i == 9 {
						row[0] = c.fault
					}
					s.Fold(&Sample{Key: []byte("a"), Time: i, Offset: i, Values: row}, b)
				}
				for i := range b.Tasks {
					r := b.Rows(i)
					z.Op().Spec().CPU(t.Context(), &r, detectors.Sequential)
				}
				s.Apply(b)
				if len(s.Events) == 0 || s.Events[0].Change.Kind != anomaly.Open {
					t.Fatalf("%+v: changes %+v", c, s.Events)
				}
				a := &s.Events[0].Change.Anomaly
				for i, want := range []float64{c.fault, 1 / 3.0, 7e9 + 0.1}[:dim] {
					if got := a.Actual[i]; got != want {
						t.Errorf("%+v, %d values, stride %d: value %d is %.17g, measured was %.17g", c, dim, stride, i, got, want)
					}
				}
				low, high := min(c.usual, c.other), max(c.usual, c.other)
				if e := a.Expected[0]; e < low || e > high {
					t.Errorf("%+v: expected %.17g, all before were %v or %v", c, e, low, high)
				}
				d := changelog.Decoder{B: a.Append(nil)}
				if back := anomaly.DecodeAnomaly(&d); d.Bad || !bytes.Equal(back.Append(nil), a.Append(nil)) || back.Actual[0] != a.Actual[0] {
					t.Errorf("%+v, restored %+v: %v", a, back, d.Err())
				}
			}
		}
	}
}
