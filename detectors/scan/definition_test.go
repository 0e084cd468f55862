package scan

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// families are all families, by name.
var families = []struct {
	name string
	Family
}{{"Poisson", Poisson{}}, {"Bernoulli", Bernoulli{}}, {"normal", Normal{Variance: 3}}, {"exponential", Exponential{}}}

// newGrid fills a grid by cell.
func newGrid(rows, cols int, cell func(y, x int) (c, b int64)) *Grid {
	g := &Grid{rows, cols, make([]int64, rows*cols), make([]int64, rows*cols)}
	for i := range g.Count {
		g.Count[i], g.Baseline[i] = cell(i/cols, i%cols)
	}
	return g
}

// draw returns a count of a family for a baseline b, about rate for each unit.
func draw(rng *rand.Rand, f Family, b int64, rate float64) int64 {
	if b == 0 {
		return 0
	}
	switch f.(type) {
	case Normal:
		return int64(math.Round(rng.NormFloat64() * 2 * math.Sqrt(float64(b))))
	case Exponential:
		sum := 1.0
		for range b {
			sum += rng.ExpFloat64() * rate * 20
		}
		return int64(sum)
	case Bernoulli:
		n := int64(0)
		for range b {
			if rng.Float64() < rate/2 {
				n++
			}
		}
		return n
	}
	n := int64(0)
	for limit, p := math.Exp(-rate*float64(b)), rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// grids returns usual and difficult grids of a family, by name.
func grids(rng *rand.Rand, f Family, rows, cols int) map[string]*Grid {
	baseline := func() int64 { return 1 + rng.Int64N(9) }
	usual := func() (int64, int64) {
		b := baseline()
		return draw(rng, f, b, 0.4), b
	}
	zeros := func(int, int) (int64, int64) {
		if rng.IntN(3) == 0 {
			return 0, 0
		}
		return usual()
	}
	inside := func(y, x int) bool { return y >= rows/4 && y <= rows/2 && x >= cols/3 && x <= cols/2 }
	all := map[string]*Grid{
		"null":           newGrid(rows, cols, func(int, int) (int64, int64) { return usual() }),
		"zero baselines": newGrid(rows, cols, zeros),
		"zero rows": newGrid(rows, cols, func(y, x int) (int64, int64) {
			if y%3 == 0 || x%4 == 1 {
				return 0, 0
			}
			return usual()
		}),
		"cluster": newGrid(rows, cols, func(y, x int) (int64, int64) {
			b := baseline()
			if inside(y, x) {
				return draw(rng, f, b, 0.9), b
			}
			return draw(rng, f, b, 0.2), b
		}),
		"strong cluster": newGrid(rows, cols, func(y, x int) (int64, int64) {
			b := baseline()
			if _, ok := f.(Bernoulli); ok && inside(y, x) {
				return b, b
			} else if inside(y, x) {
				return 200 * b, b
			}
			return draw(rng, f, b, 0.05), b
		}),
		"all equal": newGrid(rows, cols, func(int, int) (int64, int64) { return 1, 1 }),
		"proportional": newGrid(rows, cols, func(int, int) (int64, int64) {
			b := baseline()
			return b, b
		}),
		"two values": newGrid(rows, cols, func(int, int) (int64, int64) { return 1 + rng.Int64N(2), 2 }),
	}
	if f.Check(0, 1) == nil {
		all["all zero"] = newGrid(rows, cols, func(int, int) (int64, int64) { return 0, baseline() })
		one := rng.IntN(rows * cols)
		all["one count"] = newGrid(rows, cols, func(y, x int) (int64, int64) {
			if y*cols+x == one {
				return 1, 2
			}
			return 0, 2
		})
		all["no baseline but one"] = newGrid(rows, cols, func(y, x int) (int64, int64) {
			if y*cols+x == one {
				return 1, 2
			}
			return 0, 0
		})
	}
	if _, ok := f.(Bernoulli); !ok {
		all["large"] = newGrid(rows, cols, func(int, int) (int64, int64) {
			return 1 + rng.Int64N(1<<53/int64(rows*cols)), 1 + rng.Int64N(1<<53/int64(rows*cols))
		})
		all["large and almost equal"] = newGrid(rows, cols, func(int, int) (int64, int64) {
			return 1<<43/int64(rows*cols) + rng.Int64N(1000), 1 << 40 / int64(rows*cols)
		})
	}
	return all
}

// defined is a second definition, from the log-likelihoods of the papers, which are its only common
// part with Define.
func defined(g *Grid, f Family, direction Direction, r Rectangle) float64 {
	var in, out [2]float64
	for i := range g.Count {
		y, x := i/g.Cols, i%g.Cols
		to := &out
		if y >= r.Y1 && y <= r.Y2 && x >= r.X1 && x <= r.X2 {
			to = &in
		}
		to[0], to[1] = to[0]+float64(g.Count[i]), to[1]+float64(g.Baseline[i])
	}
	c, b, C, B := in[0], in[1], in[0]+out[0], in[1]+out[1]
	if !(c*B > C*b && direction != Below || c*B < C*b && direction != Above) {
		return 0
	}
	return f.LogLikelihood(c, b) + f.LogLikelihood(C-c, B-b) - f.LogLikelihood(C, B)
}

func describe(found []Region) string {
	var s strings.Builder
	for _, r := range found {
		fmt.Fprintf(&s, " %v %v %v %x", r.Rectangle, r.Sums, r.Expected, r.Ratio)
	}
	return s.String()
}

func randomOptions(rng *rand.Rand, rows, cols int) Options {
	o := Options{Top: rng.IntN(4), Direction: Direction(rng.IntN(3))}
	if rng.IntN(2) == 0 {
		o.MaxRows, o.MaxCols = rng.IntN(rows+2), rng.IntN(cols+2)
	}
	return o
}

// TestDefinition compares the definition with every rectangle's likelihoods.
func TestDefinition(t *testing.T) {
	rng := seedtest.New(t)
	for _, f := range families {
		rows, cols := 1+rng.IntN(7), 1+rng.IntN(7)
		for name, g := range grids(rng, f.Family, rows, cols) {
			if err := g.Check(f); err != nil {
				t.Fatalf("%s, %s: %v", f.name, name, err)
			}
			direction := Direction(rng.IntN(3))
			found := Define(g, f, Options{Top: rows * cols, Direction: direction})
			var size float64 // of what cancels in the likelihoods
			for i, c := range g.Count {
				size += math.Abs(f.LogLikelihood(float64(c), max(1, float64(g.Baseline[i]))))
			}
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+b)+1e-12*size }
			for i, r := range found {
				if want := defined(g, f, direction, r.Rectangle); !near(r.Ratio, want) {
					t.Errorf("%s, %s: %v has the ratio %v, want %v", f.name, name, r, r.Ratio, want)
				}
				eachRectangle(g, Options{}, func(o Rectangle) {
					if slices.ContainsFunc(found[:i], func(f Region) bool { return f.Overlaps(o) }) {
						if o == r.Rectangle {
							t.Errorf("%s, %s: %v overlaps one before", f.name, name, o)
						}
						return
					}
					want := defined(g, f, direction, o)
					if want > r.Ratio && !near(want, r.Ratio) {
						t.Errorf("%s, %s: %v has the ratio %v, the region that was found, %v, %v", f.name, name, o, want, r.Rectangle, r.Ratio)
					}
				})
			}
			if len(found) == 0 && !proportional(g) {
				t.Errorf("%s, %s: %v: no region", f.name, name, g)
			}
		}
	}
}

func proportional(g *Grid) bool {
	total := g.total()
	for i, c := range g.Count {
		if (Sums{c, g.Baseline[i]}).excess(total) != 0 {
			return false
		}
	}
	return true
}

// TestTies requires: of equal ratios the smallest area counts, then the lowest corner.
func TestTies(t *testing.T) {
	g := newGrid(5, 6, func(y, x int) (int64, int64) {
		switch {
		case y == 1 && (x == 4 || x == 1) || y == 3 && x == 0:
			return 5, 1
		case y == 1 && x > 1 && x < 4:
			return 0, 0 // a rectangle over both adds nothing
		}
		return 0, 1
	})
	want := []Rectangle{{1, 1, 1, 4}, {3, 0, 3, 0}}
	for way, search := range ways {
		found, _ := search(g, Poisson{}, Options{Top: 5})
		if len(found) != 2 || found[0].Rectangle != want[0] || found[1].Rectangle != want[1] {
			t.Errorf("%s: %v, want %v", way, found, want)
		}
		found, _ = search(g, Poisson{}, Options{Top: 5, MaxRows: 1, MaxCols: 3})
		want := []Rectangle{{1, 1, 1, 1}, {1, 4, 1, 4}, {3, 0, 3, 0}}
		for i, r := range found {
			if len(found) != 3 || r.Rectangle != want[i] {
				t.Errorf("%s: %v, want %v", way, found, want)
				break
			}
		}
	}
}

var ways = map[string]func(*Grid, Family, Options) ([]Region, Work){
	"BF": BruteForce, "DM": DeMorgan, "AX": Approximate,
}

// TestAlgorithms requires that all algorithms have one result, to the bit, and that AX computes fewer
// ratios.
func TestAlgorithms(t *testing.T) {
	rng := seedtest.New(t)
	for _, f := range families {
		for name, g := range grids(rng, f.Family, 1+rng.IntN(9), 1+rng.IntN(9)) {
			o := randomOptions(rng, g.Rows, g.Cols)
			want := describe(Define(g, f, o))
			for way, search := range ways {
				if found, _ := search(g, f, o); describe(found) != want {
					t.Errorf("%s, %s, %d x %d, %+v: %s finds%s, want%s", f.name, name, g.Rows, g.Cols, o, way, describe(found), want)
				}
			}
		}
		g := grids(rng, f.Family, 16, 16)["strong cluster"]
		_, bf := BruteForce(g, f, Options{})
		_, dm := DeMorgan(g, f, Options{})
		_, ax := Approximate(g, f, Options{})
		t.Logf("%s, strong cluster, 16 x 16: BF %+v, DM %+v, AX %+v", f.name, bf, dm, ax)
		if dm.Cells >= bf.Cells || ax.Ratios >= dm.Ratios/2 {
			t.Errorf("%s: BF %+v, DM %+v, AX %+v", f.name, bf, dm, ax)
		}
	}
}

func TestCheck(t *testing.T) {
	cells := func(c, b int64) *Grid { return newGrid(2, 3, func(int, int) (int64, int64) { return c, b }) }
	for _, c := range []struct {
		g    *Grid
		f    Family
		want string
	}{
		{&Grid{Rows: 0, Cols: 3}, Poisson{}, "use at least 1 x 1"},
		{&Grid{Rows: 1 << 40, Cols: 1 << 40}, Poisson{}, "use at least 1 x 1"},
		{&Grid{2, 3, make([]int64, 5), make([]int64, 6)}, Poisson{}, "5 counts and 6 baselines for 2 x 3 cells"},
		{cells(-1, 4), Poisson{}, "cell (y 0, x 0): the count is negative"},
		{cells(-1, 4), Bernoulli{}, "cell (y 1, x 2): the count is negative"},
		{cells(5, 4), Bernoulli{}, "5 cases among 4"},
		{cells(0, 4), Exponential{}, "the sum of times is 0"},
		{cells(1, 0), Poisson{}, "the count 1 has a baseline of 0"},
		{cells(1, 0), Normal{1}, "the count 1 has a baseline of 0"},
		{cells(1, -1), Poisson{}, "the baseline -1 is negative"},
		{cells(math.MinInt64, 1), Normal{1}, "2^53"},
		{cells(1, 1<<53), Poisson{}, "2^53"},
		{cells(1<<52, 1), Poisson{}, "2^53"},
		{cells(0, 0), Poisson{}, ""},
		{cells(0, 0), Exponential{}, ""},
		{cells(-7, 1), Normal{1}, ""},
	} {
		err := c.g.Check(c.f)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.g, err, c.want)
		}
	}
}

// TestExcess compares the difference with exact fractions, near the largest totals, where the low
// words of its products need a borrow.
func TestExcess(t *testing.T) {
	rng := seedtest.New(t)
	borrows := 0
	for range 20000 {
		total := Sums{MaxTotal - rng.Int64N(1<<rng.IntN(50)), MaxTotal - rng.Int64N(1<<rng.IntN(50))}
		s := Sums{Baseline: 1 + rng.Int64N(total.Baseline)}
		s.Count = min(total.Count, int64(total.expected(float64(s.Baseline)))+rng.Int64N(1<<rng.IntN(53)))
		if rng.IntN(2) == 0 {
			s.Count = rng.Int64N(total.Count) - rng.Int64N(2)*total.Count
		}
		mul := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
		more, less := mul(s.Count, total.Baseline), mul(s.Baseline, total.Count)
		difference := new(big.Int).Sub(more, less)
		want, _ := new(big.Rat).SetFrac(difference, big.NewInt(total.Baseline)).Float64()
		if difference.Sign() > 0 {
			if low := big.NewInt(0).SetUint64(math.MaxUint64); new(big.Int).And(more, low).Cmp(new(big.Int).And(less, low)) < 0 {
				borrows++
			}
		}
		if got := s.excess(total); math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Fatalf("%v of %v: %v, want %v", s, total, got, want)
		}
	}
	if borrows < 1000 {
		t.Errorf("only %d differences need the borrow", borrows)
	}
}
