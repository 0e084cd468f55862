package state

import (
	"context"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/state/series"
)

// TestLearner: samples before the MIN_POINTS of op AR are warming up, regardless of the stride and the
// threshold, and nothing of them is in the threshold's history.
func TestLearner(t *testing.T) {
	r := seedtest.New(t)
	for _, judged := range []bool{false, true} {
		for _, stride := range []int{1, 3} {
			const order, least, n = 4, 20, 90
			det, err := ar.New(ar.OpParams{Order: order, Memory: 100, MinPoints: least})
			if err != nil {
				t.Fatal(err)
			}
			cfg := &Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
				Detectors: []series.DetectorConfig{{Name: "ar", Detector: det, Stride: stride, Fingerprint: 1}}}
			if judged {
				cfg.Detectors[0].Threshold = thresholdOf(threshold.MAD, 5, 64, 0)
			}
			s, e := New(cfg), detectors.NewCPU(1)
			b := e.Batch()
			for i := range int64(n) {
				s.Fold(&Sample{Key: []byte("a"), Time: i, Offset: i, Values: []float64{r.NormFloat64()}}, b)
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				s.Apply(b)
				b.Reset()
			}
			for _, row := range s.Rows {
				warming := row.Offset < order+least
				if (row.Score != row.Score) != warming || (row.State == RowWarmingUp) != warming {
					t.Fatalf("stride %d: sample %d has the score %v and the state %d", stride, row.Offset, row.Score, row.State)
				}
				if want := int32(max(0, order+least-row.Offset)); row.Remaining != want {
					t.Fatalf("stride %d: after sample %d remain %d, want %d", stride, row.Offset, row.Remaining, want)
				}
			}
			if s.Tally.Counts[WarmingUp] != order+least || s.Tally.Counts[Scored] != n-order-least {
				t.Fatalf("stride %d: %v", stride, s.Tally.Counts)
			}
			if judged {
				a := &s.Keys.Get([]byte("a")).Alerts.Detectors[0]
				if got := threshold.Count(a.History); got < 1 || got > n-order-least {
					t.Fatalf("stride %d: a history of %d scores", stride, got)
				}
			}
		}
	}
}
