package state

import (
	"context"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// TestFaultsAfterAFault: a change of level raises the scores of a whole embedding and
// of as many neighbours. Were they all ranks of the history, a few changes would use
// up what the rate allows, and the next ones would not exceed.
func TestFaultsAfterAFault(t *testing.T) {
	for _, c := range []struct{ decluster, least, most int }{{0, 29, 29}, {1, 5, 20}} {
		if found := jumpsFound(t, c.decluster); found < c.least || found > c.most {
			t.Errorf("decluster %d: %d of 29 changes of level found, want %d to %d", c.decluster, found, c.least, c.most)
		}
	}
}

// jumpsFound returns how many of 29 changes of level by 4 to 8 standard deviations, 400
// to 1200 samples apart, open an anomaly.
func jumpsFound(t *testing.T, decluster int) int {
	const jumps, first = 29, 2500
	det, err := knn.New(knn.Params{Window: 1024, K: 10, Embed: 19})
	if err != nil {
		t.Fatal(err)
	}
	params := threshold.New(threshold.Conformal, 0.002)
	params.History, params.Decluster = 2048, decluster
	cfg := &Config{
		Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{
			Name: "near", Detector: det, Stride: 1, Fingerprint: 1, Threshold: &params,
			Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 100, Release: 1},
		}},
	}
	r := rand.New(rand.NewPCG(1, 2))
	var values []float64
	jump := map[int]int{} // by sample of its first 60
	for level, next := 0.0, first; len(jump) < 60*jumps || len(values) < next; {
		if i := len(values); i == next {
			level += (4 + 4*r.Float64()) * float64(1-2*r.IntN(2))
			for k := range 60 {
				jump[i+k] = len(jump) / 60
			}
			next = i + 400 + r.IntN(800)
		}
		values = append(values, level+r.NormFloat64())
	}
	s, e := New(cfg), detectors.NewCPU(1)
	b := e.Batch()
	found := map[int]bool{}
	for i, v := range values {
		s.Fold(&Sample{Key: []byte("a"), Time: int64(i), Offset: int64(i), Values: []float64{v}}, b)
		if i%64 < 63 && i < len(values)-1 {
			continue
		}
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
		for _, ev := range s.Events {
			if j, ok := jump[int(ev.Change.Offset)]; ok && ev.Change.Kind == anomaly.Open {
				found[j] = true
			}
		}
		s.Rows, s.Events = s.Rows[:0], s.Events[:0]
	}
	return len(found)
}
