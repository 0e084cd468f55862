package lof

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestLargeWindow requires that scores among more than 65,536 points are the definition's, which
// is computed only where they depend on it.
func TestLargeWindow(t *testing.T) {
	rng := seedtest.New(t)
	const n, k, fresh = 70_001, 4, 2
	for _, dim := range []int{1, 3} {
		d := detectors.Must(New(OpParams{Window: n, K: k}))
		r := detectors.Rows{Dim: dim, Fresh: fresh, Params: d.Params(), Scores: make([]float32, fresh)}
		for range n * dim {
			r.X = append(r.X, float32(rng.NormFloat64()))
		}
		opCPU(context.Background(), &r, detectors.Sequential)
		type neighbour struct {
			at       int
			distance float64
		}
		known := map[int][]neighbour{}
		nearest := func(i int) []neighbour {
			if known[i] == nil {
				list := make([]neighbour, 0, k+1)
				for j := range n {
					sum := 0.0
					for c := range dim {
						e := float64(r.X[i*dim+c]) - float64(r.X[j*dim+c])
						sum += e * e
					}
					if j == i || len(list) == k && math.Sqrt(sum) >= list[k-1].distance {
						continue
					}
					list = append(list, neighbour{j, math.Sqrt(sum)})
					slices.SortStableFunc(list, func(a, b neighbour) int { return cmp.Compare(a.distance, b.distance) })
					list = list[:min(k, len(list))]
				}
				known[i] = list
			}
			return known[i]
		}
		density := func(i int) float64 {
			sum := 0.0
			for _, o := range nearest(i) {
				sum += max(nearest(o.at)[k-1].distance, o.distance)
			}
			return 1 / (sum/k + 1e-10)
		}
		for f, got := range r.Scores {
			i, sum := n-fresh+f, 0.0
			for _, o := range nearest(i) {
				sum += density(o.at)
			}
			if want := sum / k / density(i); !(math.Abs(float64(got)-want) <= 1e-6*want) {
				t.Errorf("%d values: score %v, want %v", dim, got, want)
			}
		}
	}
}
