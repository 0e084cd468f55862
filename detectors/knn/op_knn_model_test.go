package knn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/vec"
)

// byModel scores points, relative to nothing, by a detector's model.
func byModel(t *testing.T, d *ModelDetector, x []float64, dim int) []float32 {
	t.Helper()
	e := detectors.NewCPU(2)
	defer e.Close()
	b := e.Batch()
	defer e.Release(b)
	n := len(x) / dim
	task := detectors.Task{
		Op:     Op,
		Dim:    uint32(dim),
		Fresh:  uint32(n - d.Window() + 1),
		Params: b.Put(d.Params()),
		Model:  b.Model(d.Model()),
	}
	if d.Wide() == detectors.AlwaysWide {
		b.PackWide(&task, bitsOf(x), nil)
	} else {
		var rows []float32
		task.X, rows = b.GrowF32(len(x))
		for i, v := range x {
			rows[i] = float32(v - d.Origin()[i%len(d.Origin())])
		}
	}
	size, ok := d.Size(detectors.View{Dim: dim, Rows: n, Fresh: int(task.Fresh)})
	if !ok {
		t.Fatal("too few rows")
	}
	b.GrowOutputs(&task, size)
	b.Tasks = append(b.Tasks, task)
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	r := b.Rows(0)
	return slices.Clone(r.Scores)
}

func bitsOf(x []float64) []uint64 {
	bits := make([]uint64, len(x))
	for i, v := range x {
		bits[i] = math.Float64bits(v)
	}
	return bits
}

// TestKNNModelOfLevels requires that a reference set of two far levels keeps points of float64, whole or as a solving set, with the
// definition's weights at both levels, and evidence that makes these; and that one of a single level keeps float32.
func TestKNNModelOfLevels(t *testing.T) {
	rng := seedtest.New(t)
	const k = 3
	for _, znorm := range []bool{false, true} {
		for _, outliers := range []int{0, 4} {
			for _, step := range []float64{0, 1e9} {
				dim, m := 1+rng.IntN(3), 3+rng.IntN(4)
				width := dim * m
				draw := func(n int) (x []float64) {
					for i := range n {
						for range dim {
							x = append(x, 50+rng.NormFloat64()+step*float64(2*i/n))
						}
					}
					return x
				}
				rows, fresh := draw(300), draw(40)
				v := detectors.Values{"K": k, "EMBED": m, "ZNORM": znorm, "INCLUDE_SELF": false, detectors.TumblingParam: false}
				made, err := newReferred(v, dim, rows, outliers)
				if err != nil {
					t.Fatal(err)
				}
				d := made.(*ModelDetector)
				if wide := d.Wide() == detectors.AlwaysWide; wide != (step > 0) {
					t.Fatalf("a step of %v: wide is %v", step, wide)
				}
				if step == 0 {
					continue
				}
				points := vec.Embed(nil, rows, dim, m, znorm)
				if outliers > 0 {
					top, err := Algorithms[2].Find(points, width, TopParams{N: outliers, K: k})
					if err != nil {
						t.Fatal(err)
					}
					points, _ = top.Reference(points, width)
				}
				n := len(points) / width
				r := detectors.Rows{Dim: dim, Fresh: 40 - m + 1, Params: d.Params(), X64: fresh, Model: d.Model().Words()}
				for i, got := range byModel(t, d, fresh, dim) {
					point := vec.Embed(nil, fresh[i*dim:(i+m)*dim], dim, m, znorm)
					want, _ := Define(slices.Concat(points, point), width, 1, k, false, Query{At: n, To: n})
					sum := 0.0
					e := d.Describe(r, i)
					for _, in := range e.Inputs {
						sum += in.Distance
					}
					if !(math.Abs(float64(got)-want) <= 1e-6*want) || !(math.Abs(sum-want) <= 1e-5*want) || e.Fields == nil {
						t.Errorf("znorm %v, %d outliers: row %d has weight %v, evidence %v, want %v", znorm, outliers, i, got, sum, want)
					}
					expected, contribution := make([]float64, dim), make([]float64, dim)
					part, ok := d.Explain(r, i, 0, expected, contribution)
					if actual := fresh[part.Row*dim]; !ok || !(math.Abs(expected[0]-actual) < 100) && (i >= 20 || i+m <= 20) {
						t.Errorf("znorm %v: row %d: expected %v, actual %v", znorm, i, expected, actual)
					}
				}
				narrow := detectors.Rows{
					Dim:    dim,
					Fresh:  1,
					Params: d.Params(),
					X:      make([]float32, width),
					Model:  d.Model().Words(),
					Scores: []float32{0},
				}
				if opCPU(context.Background(), &narrow, nil); narrow.Scores[0] == narrow.Scores[0] {
					t.Error("rows of float32 have a weight among points of float64")
				}
			}
		}
	}
}

// TestModelsOfOrdinarySeries requires that sets of series on one level keep float32, and so their bits, but where spikes move their
// mean away from all other rows.
func TestModelsOfOrdinarySeries(t *testing.T) {
	rng := seedtest.New(t)
	const sets = 300
	for name, draw := range map[string]func(n int) func(i int) float64{
		"noise":   func(int) func(int) float64 { return func(int) float64 { return rng.NormFloat64() } },
		"uniform": func(int) func(int) float64 { return func(int) float64 { return rng.Float64() } },
		"rounded": func(int) func(int) float64 { return func(int) float64 { return math.Round(3*rng.NormFloat64()) / 10 } },
		"wave": func(int) func(int) float64 {
			turn, noise := math.Exp(-7*rng.Float64()), math.Pow(10, -4*rng.Float64())
			return func(i int) float64 { return math.Sin(turn*float64(i)) + noise*rng.NormFloat64() }
		},
		"trend": func(n int) func(int) float64 {
			noise := math.Pow(10, -4*rng.Float64())
			return func(i int) float64 { return float64(i)/float64(n) + noise*rng.NormFloat64() }
		},
		"walk": func(int) func(int) float64 {
			v := 0.0
			return func(int) float64 { v += rng.NormFloat64(); return v }
		},
		"constant": func(int) func(int) float64 { return func(int) float64 { return 0.1 } },
		"states":   func(int) func(int) float64 { return func(i int) float64 { return float64(i / 9 % 3) } },
		"spike": func(n int) func(int) float64 {
			at := rng.IntN(n)
			return func(i int) float64 {
				if i == at {
					return 1e6
				}
				return rng.NormFloat64()
			}
		},
	} {
		wide := 0
		for range sets {
			x := make([]float64, 64<<rng.IntN(9))
			value := draw(len(x))
			for i := range x {
				x[i] = value(i)
			}
			if changesLevel(x, 1, originOf(x, 1)) {
				wide++
			}
		}
		if name == "spike" && wide < sets || name != "spike" && 50*wide > sets {
			t.Errorf("%s: %d of %d sets are of float64", name, wide, sets)
		}
	}
}

// TestKNNModelOfASolvingSet requires that the solving set of a batch, with its cut, has no outlier
// among the batch's other points, finds new ones, and gives the same bits when it is restored from its
// words.
func TestKNNModelOfASolvingSet(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 10 {
		n, dim, k := 800+rng.IntN(800), 1+rng.IntN(4), 1+rng.IntN(20)
		x := make([]float64, n*dim)
		for i := range x {
			x[i] = 1e6 + rng.NormFloat64()
		}
		top, err := Algorithms[4].Find(x, dim, TopParams{N: 10, K: k, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		points, cut := top.Reference(x, dim)
		m, err := NewModel(Reference{Dim: dim, Points: points, Cut: cut})
		if err != nil {
			t.Fatal(err)
		}
		if len(points) >= len(x) {
			t.Errorf("the solving set has %d of %d numbers", len(points), len(x))
		}
		d, err := NewByModel(ModelParams{Model: m, K: k})
		if err != nil {
			t.Fatal(err)
		}
		fresh := slices.Clone(x)
		for range dim {
			fresh = append(fresh, 1e6+50)
		}
		scores := byModel(t, d, fresh, dim)
		inside := map[int]bool{}
		for _, i := range top.SolvingSet {
			inside[i] = true
		}
		for i, s := range scores[:n] {
			if !inside[i] && float64(s) > d.Cut()*(1+1e-6) {
				t.Errorf("point %d of the batch has weight %v, above the cut %v", i, s, d.Cut())
			}
			y := slices.Concat(points, x[i*dim:(i+1)*dim])
			n := len(points) / dim
			// Float32 holds the differences to the origin.
			if want, _ := Define(y, dim, 1, k, false, Query{At: n, To: n}); !(math.Abs(float64(s)-want) <= 1e-6*want+float64(k)*1e-6) {
				t.Errorf("point %d has weight %v, want %v", i, s, want)
			}
		}
		if s := scores[n]; !(float64(s) > d.Cut()) {
			t.Errorf("a point far from all has weight %v, the cut is %v", s, d.Cut())
		}
		restored := detectors.NewModel(slices.Clone(m.Words()))
		again, err := NewByModel(ModelParams{Model: restored, K: k})
		if err != nil {
			t.Fatal(err)
		}
		if restored.Sum() != m.Sum() || again.Cut() != d.Cut() || !slices.Equal(byModel(t, again, fresh, dim), scores) {
			t.Error("a restored model scores otherwise")
		}
	}
}

// TestZNorm requires that points of one shape are alike regardless of their level and scale, in a window and
// against a reference set and its solving set, by the definition on points that are normalised in
// float64.
func TestZNorm(t *testing.T) {
	rng := seedtest.New(t)
	const dim, m, k = 2, 5, 4
	shape := func(n int) []float64 {
		var x []float64
		for range n {
			x = append(x, 1e6+rng.NormFloat64(), 3*rng.NormFloat64())
		}
		return x
	}
	rows, fresh := shape(120), shape(30)
	normal := func(x []float64) []float64 { return vec.Embed(nil, x, dim, m, true) }
	reference := normal(rows)
	want := func(points []float64, point []float64) float64 {
		n := len(points) / (dim * m)
		w, _ := Define(slices.Concat(points, point), dim*m, 1, k, false, Query{At: n, To: n})
		return w
	}
	scaled := slices.Clone(fresh)
	for i := range scaled {
		base := 1e6 * float64(1-i%2)
		scaled[i] = base + 5 + 7*(fresh[i]-base)
	}
	v := detectors.Values{"K": k, "EMBED": m, "ZNORM": true, "INCLUDE_SELF": false, detectors.TumblingParam: false}
	for _, outliers := range []int{0, 3} {
		d, err := newReferred(v, dim, rows, outliers)
		if err != nil {
			t.Fatal(err)
		}
		points := reference
		if outliers > 0 {
			top, err := Algorithms[0].Find(reference, dim*m, TopParams{N: outliers, K: k})
			if err != nil {
				t.Fatal(err)
			}
			if cut := top.Outliers[outliers-1].Weight; d.Cut() != cut {
				t.Errorf("the cut is %v, want %v", d.Cut(), cut)
			}
			top, _ = Algorithms[2].Find(reference, dim*m, TopParams{N: outliers, K: k})
			points, _ = top.Reference(reference, dim*m)
		}
		got := byModel(t, d.(*ModelDetector), fresh, dim)
		again := byModel(t, d.(*ModelDetector), scaled, dim)
		for i, p := range slices.Collect(slices.Chunk(normal(fresh), dim*m)) {
			if w := want(points, p); !(math.Abs(float64(got[i])-w) <= 1e-5*w) || !(math.Abs(float64(again[i])-w) <= 1e-4*w) {
				t.Errorf("%d outliers: point %d has weights %v and %v, want %v", outliers, i, got[i], again[i], w)
			}
		}
	}
	d := detectors.Must(New(Params{Window: 40, K: k, Embed: m, ZNorm: true})).(*detector)
	r := detectors.Rows{Dim: dim, Fresh: 1, Params: d.Params(), Scores: make([]float32, 1)}
	for i, v := range rows[:44*dim] {
		r.X = append(r.X, float32(v-1e6*float64(1-i%2)))
	}
	opCPU(context.Background(), &r, nil)
	points := normal(rows[:44*dim])
	last := points[39*dim*m:]
	if w := want(points[:39*dim*m], last); !(math.Abs(float64(r.Scores[0])-w) <= 1e-5*w) {
		t.Errorf("weight %v, want %v", r.Scores[0], w)
	}
	// The nearest shape of a line, twice as steep, is a line, and so is what is expected.
	d = detectors.Must(New(Params{Window: 4, K: 1, Embed: 3, MinPoints: 2, ZNorm: true})).(*detector)
	r = detectors.Rows{Dim: 1, Fresh: 1, Params: d.Params(), X: []float32{0, 1, 2, 1, 0, 2.1}}
	expected, contribution := make([]float64, 1), make([]float64, 1)
	r.X = []float32{5, 5.5, 6, 0, 10, 20.5}
	if _, ok := d.Explain(r, 0, 0, expected, contribution); !ok ||
		!(min(math.Abs(expected[0]), math.Abs(expected[0]-10), math.Abs(expected[0]-20.5)) <= 0.5+1e-9) ||
		contribution[0] != 1 {
		t.Errorf("expected %v, contribution %v", expected, contribution)
	}
	if _, err := New(Params{Window: 40, Embed: 2, ZNorm: true}); err == nil {
		t.Error("points of two rows are normalised")
	}
	if _, err := NewModel(Reference{Dim: 1, Embed: 2, ZNorm: true, Points: []float64{1, 2}}); err == nil {
		t.Error("a reference set of points of two rows is normalised")
	}
}

func TestKNNModelRefuses(t *testing.T) {
	nan := math.NaN()
	for want, s := range map[string]Reference{
		"the reference set is empty":                 {Dim: 2},
		"3 numbers are no points of 1 rows of 2":     {Dim: 2, Points: []float64{1, 2, 3}},
		"value 1 of point 1 is NaN":                  {Dim: 2, Points: []float64{1, 2, 3, nan}},
		"value 2 of point 0 is +Inf":                 {Dim: 1, Embed: 3, Points: []float64{1, 2, math.Inf(1)}},
		"too far from their mean":                    {Dim: 1, Points: []float64{-1e300, 1e300}},
		"points of 1 rows of 0 values":               {Points: []float64{1}},
		"points of 1025 rows of 1 values":            {Dim: 1, Embed: 1025, Points: []float64{1}},
		"the cut is NaN":                             {Dim: 1, Points: []float64{1}, Cut: nan},
		"the cut is -1, use 0 or more\npoints of -1": {Dim: 1, Embed: -1, Points: []float64{1}, Cut: -1},
	} {
		if _, err := NewModel(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want one with %q", s, err, want)
		}
	}
	m, err := NewModel(Reference{Dim: 2, Points: []float64{1, 2, 3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	short, foreign, spoilt := m.Words()[:len(m.Words())-1], slices.Clone(m.Words()), slices.Clone(m.Words())
	foreign.SetInt(paramModelPoints, 1)
	spoilt.SetFloat32(len(spoilt)-1, float32(nan))
	for what, p := range map[string]ModelParams{
		"no model": {}, "k": {Model: m, K: -1}, "large k": {Model: m, K: MaxK + 1}, "short": {Model: detectors.NewModel(short)},
		"one word": {Model: detectors.NewModel(detectors.Words{1})}, "foreign": {Model: detectors.NewModel(foreign)},
		"spoilt": {Model: detectors.NewModel(spoilt)},
	} {
		if _, err := NewByModel(p); err == nil {
			t.Errorf("%s passes", what)
		}
	}
}

// TestKNNModelOfBadRows requires that rows that do not fit or have a value that is not finite are not
// scored, and that with fewer points than neighbours the sum is scaled.
func TestKNNModelOfBadRows(t *testing.T) {
	m, err := NewModel(Reference{Dim: 2, Points: []float64{0, 0, 6, 8}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewByModel(ModelParams{Model: m, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	got := byModel(t, d, []float64{0, 0, math.NaN(), 1, 3, 4, math.Inf(1), 0}, 2)
	if got[0] != 20 || got[1] == got[1] || got[2] != 20 || got[3] == got[3] {
		t.Errorf("weights %v, want 20, NaN, 20, NaN", got)
	}
	for i, s := range byModel(t, d, make([]float64, 9), 3) {
		if s == s {
			t.Errorf("row %d of another dimension has weight %v", i, s)
		}
	}
	lacks := detectors.Rows{Dim: 2, Fresh: 2, Params: d.Params(), X: make([]float32, 4), Scores: make([]float32, 2)}
	opCPU(context.Background(), &lacks, nil)
	if s := lacks.Scores; s[0] == s[0] || s[1] == s[1] {
		t.Errorf("a task without its model has weights %v", s)
	}
	r := detectors.Rows{Dim: 2, Fresh: 1, Params: d.Params(), Model: m.Words(), X: []float32{-3, -7}}
	expected, contribution := make([]float64, 2), make([]float64, 2)
	// Relative to the origin (3, 4) the points are (-3, -4) and (3, 4): 0+36 and 9+121 of
	// squared distance.
	if _, ok := d.Explain(r, 0, 0, expected, contribution); !ok || expected[0] != 0 || contribution[0] != 36.0/166 ||
		contribution[1] != 130.0/166 {
		t.Errorf("expected %v, contribution %v", expected, contribution)
	}
	r.X[1] = float32(math.Inf(1))
	if _, ok := d.Explain(r, 0, 0, expected, contribution); ok {
		t.Error("an infinity is explained")
	}
}

// BenchmarkKNNModel scores one point a task, as points arrive.
func BenchmarkKNNModel(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1000, 100_000} {
		s := Reference{Dim: 2, Points: make([]float64, 2*n)}
		for i := range s.Points {
			s.Points[i] = rng.NormFloat64()
		}
		m, err := NewModel(s)
		if err != nil {
			b.Fatal(err)
		}
		d, err := NewByModel(ModelParams{Model: m, K: 10})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			r := detectors.Rows{Dim: 2, Fresh: 1, Params: d.Params(), Model: m.Words(), X: []float32{0.5, 0.5}, Scores: make([]float32, 1)}
			for b.Loop() {
				opCPU(b.Context(), &r, nil)
			}
		})
	}
}
