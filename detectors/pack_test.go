package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// floatBits are values by their bits.
func floatBits(values ...float64) []uint64 {
	out := make([]uint64, len(values))
	for i, v := range values {
		out[i] = math.Float64bits(v)
	}
	return out
}

func TestCenter(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		dim, c int
		rows   []float64
		want   float64
	}{
		{"one row", 1, 0, []float64{7}, 7},
		{"the median of first, middle and last", 1, 0, []float64{3, 100, 1, 100, 2}, 2},
		{"a spike in the middle", 1, 0, []float64{3, 3, 1e9, 3, 4}, 4},
		{"a spike at the end", 1, 0, []float64{3, 3, 5, 3, 1e9}, 5},
		{"a column of two", 2, 1, []float64{1, 10, 2, 30, 3, 20}, 20},
		{"the first is missing", 2, 0, []float64{nan, 0, 5, 0, 9, 0}, 5},
		{"first and middle are missing", 2, 0, []float64{nan, 0, nan, 0, 9, 0}, 9},
		{"all three are missing", 2, 0, []float64{nan, 0, 4, 0, nan, 0, 6, 0, nan, 0}, 4},
		{"nothing is there", 2, 0, []float64{nan, 0, nan, 0, nan, 0}, 0},
	} {
		rows := floatBits(c.rows...)
		for cut := 0; cut <= len(rows); cut += c.dim {
			if got := Center(rows[:cut], rows[cut:], c.dim, c.c); got != c.want {
				t.Errorf("%s, cut at %d: %v, want %v", c.name, cut, got, c.want)
			}
		}
	}
}

// TestPack: X is the rows' values less their column's center, rounded once, however
// the ring is cut.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	for dim := 1; dim <= 4; dim++ {
		for n := 1; n < 40; n++ {
			values := make([]float64, n*dim)
			for i := range values {
				values[i] = 1e9 + 0.001*r.NormFloat64()
				if dim > 1 && r.IntN(5) == 0 {
					values[i] = math.NaN()
				}
			}
			rows := floatBits(values...)
			cut := (1 + r.IntN(n)) * dim
			dst := make([]float32, n*dim+1)
			dst[n*dim] = 7
			Pack(dst, rows[:cut], rows[cut:], dim)
			for i, v := range values {
				want := float32(v - Center(rows, nil, dim, i%dim))
				if math.Float32bits(dst[i]) != math.Float32bits(want) {
					t.Fatalf("%d rows of %d, cut at %d: number %d is %v, want %v", n, dim, cut, i, dst[i], want)
				}
			}
			if dst[n*dim] != 7 {
				t.Fatalf("%d rows of %d: written past the end", n, dim)
			}
		}
	}
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want int64
	}{{0, 0}, {2.5, 2}, {3.5, 4}, {-1.4, -1}, {1 << 61, 1 << 61}, {1e300, 1 << 62}, {-1e300, -1 << 62}, {math.Inf(1), 1 << 62}} {
		if got := Count(c.v); got != c.want {
			t.Errorf("%v: %d, want %d", c.v, got, c.want)
		}
	}
}

// BenchmarkPack packs windows as they lie in a ring, in two runs.
func BenchmarkPack(b *testing.B) {
	for _, c := range []struct{ rows, dim int }{{8, 1}, {406, 1}, {1024, 1}, {1024, 8}} {
		b.Run(fmt.Sprintf("rows=%d/dim=%d", c.rows, c.dim), func(b *testing.B) {
			rows := make([]float64, c.rows*c.dim)
			for i := range rows {
				rows[i] = float64(i)
			}
			x := floatBits(rows...)
			cut := c.rows / 3 * c.dim
			dst := make([]float32, len(rows))
			b.SetBytes(int64(8 * len(rows)))
			for b.Loop() {
				Pack(dst, x[:cut], x[cut:], c.dim)
			}
		})
	}
}
