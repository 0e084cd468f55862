package vec

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestMaxRuns: the sums are the largest over all runs, in assembly and in Go.
func TestMaxRuns(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		n := rng.IntN(40)
		var rows [4][]float64
		for i := range rows {
			rows[i] = make([]float64, n)
			for j := range rows[i] {
				rows[i][j] = float64(rng.IntN(100))
				if rng.IntN(10) == 0 && i == 0 {
					rows[i][j] = -1e300
				}
			}
		}
		var slope, got, twin [RunLines]float64
		for k := range slope {
			slope[k] = rng.NormFloat64()
		}
		MaxRuns(&got, &slope, rows[0], rows[1], rows[2], rows[3])
		maxRunsGo(&twin, &slope, rows[0], rows[1], rows[2], rows[3])
		for k, a := range slope {
			most := math.Inf(-1)
			for i := range n {
				sum := 0.0
				for j := i; j < n; j++ {
					sum += rows[0][j] - rows[1][j] - a*(rows[2][j]-rows[3][j])
					most = max(most, sum)
				}
			}
			for _, got := range []float64{got[k], twin[k]} {
				if !(math.Abs(got-most) <= 1e-9*(1+math.Abs(most))) && got != most {
					t.Fatalf("n %d, slope %v: %v, want %v", n, a, got, most)
				}
			}
		}
	}
}

func BenchmarkMaxRuns(b *testing.B) {
	const n = 128
	var rows [4][]float64
	for i := range rows {
		rows[i] = make([]float64, n)
		for j := range rows[i] {
			rows[i][j] = float64(i * j)
		}
	}
	var slope, most [RunLines]float64
	for _, f := range []struct {
		name string
		run  func(most, slope *[RunLines]float64, c, c0, b, b0 []float64)
	}{{"MaxRuns", MaxRuns}, {"Go", maxRunsGo}} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				f.run(&most, &slope, rows[0], rows[1], rows[2], rows[3])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/column")
		})
	}
}
