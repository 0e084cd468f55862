package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// floatBits returns the bits of values.
func floatBits(values ...float64) []uint64 {
	out := make([]uint64, len(values))
	for i, v := range values {
		out[i] = math.Float64bits(v)
	}
	return out
}

func TestCenterRun(t *testing.T) {
	for rows, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 7: 2, 8: 4, 30: 8, 31: 8, 32: 16, 255: 64, 256: 128, 406: 128, 1 << 20: 128} {
		if got := CenterRun(rows); got != want {
			t.Errorf("%d rows: runs of %d, want %d", rows, got, want)
		}
	}
}

// TestCenterRows requires that windows of one run are centred on the same rows of the series, that
// these are all rows common to the windows, and that the first window of a run ends with them.
func TestCenterRows(t *testing.T) {
	for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 100, 406, 1024} {
		run := int64(CenterRun(rows))
		for first := (int64(rows) + run - 1) / run * run; first < int64(rows)+5*run; first += run {
			for count := first; count < first+run; count++ {
				from, n := CenterRows(CenterRun(rows), rows, count)
				oldest := count - int64(rows) + 1 // of the window, by number
				if oldest+int64(from) != first+run-int64(rows) || oldest+int64(from+n)-1 != first {
					t.Fatalf("%d rows, the newest is number %d: rows %d to %d are common, want %d to %d", rows, count,
						oldest+int64(from), oldest+int64(from+n)-1, first+run-int64(rows), first)
				}
				if from < 0 || from+n > rows || n < rows/2 {
					t.Fatalf("%d rows, the newest is number %d: %d rows from %d on", rows, count, n, from)
				}
			}
		}
	}
}

func TestCenters(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		from, n int
		rows    [][]float64
		want    []float64
		none    bool
	}{
		{"one row", 0, 1, [][]float64{{7}}, []float64{7}, false},
		{"the median of first, middle and last", 0, 5, [][]float64{{3}, {100}, {1}, {100}, {2}}, []float64{2}, false},
		{"a spike in the middle", 0, 5, [][]float64{{3}, {3}, {1e9}, {3}, {4}}, []float64{4}, false},
		{"a spike at the end", 0, 5, [][]float64{{3}, {3}, {5}, {3}, {1e9}}, []float64{5}, false},
		{"rows within", 1, 3, [][]float64{{8}, {3}, {5}, {4}, {9}}, []float64{4}, false},
		{"of an even number", 1, 4, [][]float64{{8}, {3}, {7}, {5}, {9}}, []float64{5}, false},
		{"columns", 0, 3, [][]float64{{1, 10}, {2, 30}, {3, 20}}, []float64{2, 20}, false},
		{"the first is missing", 0, 3, [][]float64{{nan, 0}, {5, 0}, {9, 0}}, []float64{5, 0}, false},
		{"first and middle are missing", 0, 3, [][]float64{{nan, 0}, {nan, 0}, {9, 0}}, []float64{9, 0}, false},
		{"all three are missing", 1, 5, [][]float64{{1, 0}, {nan, 0}, {4, 0}, {nan, 0}, {6, 0}, {nan, 0}}, []float64{4, 0}, false},
		{"nothing is there", 1, 2, [][]float64{{1, 0}, {nan, 1}, {nan, 2}, {3, 0}}, []float64{0, 2}, true},
		{"nothing, and something after it", 0, 2, [][]float64{{nan, 1}, {nan, nan}}, []float64{0, 1}, true},
	} {
		var values []float64
		for _, r := range c.rows {
			values = append(values, r...)
		}
		rows, dim := floatBits(values...), len(c.want)
		for cut := dim; cut <= len(rows); cut += dim {
			got, ok := Centers([]float64{-1}, rows[:cut], rows[cut:], dim, c.from, c.n)
			if !slices.Equal(got[1:], c.want) || ok == c.none {
				t.Errorf("%s, cut at %d: %v, %t; want %v", c.name, cut, got[1:], ok, c.want)
			}
		}
	}
}

// TestPack requires that X is the rows' values less their column's center, rounded once, wherever the
// ring is cut.
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
			centers, _ := Centers(nil, rows, nil, dim, 0, n)
			Pack(dst, rows[:cut], rows[cut:], centers)
			for i, v := range values {
				want := float32(v - centers[i%dim])
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
			var centers []float64
			dst := make([]float32, len(rows))
			b.SetBytes(int64(8 * len(rows)))
			for b.Loop() {
				centers, _ = Centers(centers[:0], x[:cut], x[cut:], c.dim, 0, c.rows)
				Pack(dst, x[:cut], x[cut:], centers)
			}
		})
	}
}

// TestPackOne compares PackOne with Centers and Pack, with missing values and wherever the rows are cut
// in two.
func TestPackOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	none := 0
	for range 20000 {
		values := make([]float64, 1+r.IntN(40))
		missing := r.IntN(4)
		for i := range values {
			if values[i] = 1e6 + r.NormFloat64(); r.IntN(3) < missing {
				values[i] = math.NaN()
			}
		}
		from := r.IntN(len(values))
		n, cut := 1+r.IntN(len(values)-from), r.IntN(len(values)+1)
		x, y := floatBits(values[:cut]...), floatBits(values[cut:]...)
		got, want := make([]float32, len(values)), make([]float32, len(values))
		centers, wantOK := Centers(nil, x, y, 1, from, n)
		Pack(want, x, y, centers)
		center, ok := PackOne(got, x, y, from, n)
		if center != centers[0] || ok != wantOK || !slices.Equal(WordsOf(got), WordsOf(want)) {
			t.Fatalf("%v cut at %d, rows %d to %d: %v around %v (%v), want %v around %v (%v)", values, cut, from, from+n-1,
				got, center, ok, want, centers[0], wantOK)
		}
		if !ok {
			none++
		}
	}
	if none < 100 {
		t.Errorf("%d windows without a value", none)
	}
}
