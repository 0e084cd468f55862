package knn

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/vec"
)

// task runs one task on the CPU, on the rows that Reads requires of a series x; all but the last fresh
// ones have been read before.
func task(t testing.TB, d detectors.Detector, x []float64, dim, fresh int, carry detectors.Words) detectors.Rows {
	t.Helper()
	n := min(len(x)/dim, d.Window()+fresh-1)
	size, ok := d.Size(detectors.View{Dim: dim, Rows: n, Fresh: fresh})
	if !ok {
		t.Fatalf("%d rows are too few", n)
	}
	turn := detectors.Position{Count: int64(len(x) / dim), Fresh: fresh, Carried: len(carry) > 0}
	if _, ok := d.(detectors.Timed); ok {
		turn.Before, turn.Newest = int64(x[len(x)-(fresh+1)*dim]), int64(x[len(x)-dim])
	}
	n = min(n, d.(detectors.Sparing).Reads(turn))
	r := detectors.Rows{Dim: dim, Fresh: fresh, Params: d.Params(), X64: x[len(x)-n*dim:], Carry: carry,
		Scores: make([]float32, size.Scores), Next: make(detectors.Words, size.Carry)}
	setCPU(context.Background(), &r, detectors.Sequential)
	return r
}

// TestSolvingSetModel requires of each window that no point outside of the model, except the outliers, has a
// score above 1 by the definition of the weight among the whole window; that the cut is the last
// outlier's (or more where the model is cut short); and that the scores between two models use the
// older one.
func TestSolvingSetModel(t *testing.T) {
	rng := seedtest.New(t)
	for i := range 4 {
		dim, embed, k, top := 1+rng.IntN(3), 1+rng.IntN(4), 1+rng.IntN(6), 1+rng.IntN(6)
		p := SolvingSetParams{Window: 100 + rng.IntN(200), K: k, Embed: embed, Top: top, MineEvery: 40, ModelPoints: 20 + rng.IntN(300)}
		if i%2 == 0 {
			p.ModelPoints = 2*k + rng.IntN(8) // some of the set
		}
		d := detectors.Must(NewSolvingSet(p))
		var x []float64
		for i := range (p.Window + 300) * dim {
			x = append(x, 1e6+rng.NormFloat64()+math.Sin(float64(i/dim)/5))
		}
		rows := func(to int) []float64 { return x[:to*dim] }
		at := p.Window + embed + rng.IntN(50)
		first := task(t, d, rows(at), dim, 1, nil)
		check(t, &p, rows(at-1), dim, read(first.Next, dim, embed*dim))
		carry, mined := first.Next, 0
		for at++; at < len(x)/dim; at++ {
			r := task(t, d, rows(at), dim, 1, carry)
			if at%p.MineEvery == 0 {
				mined++
				check(t, &p, rows(at), dim, read(r.Next, dim, embed*dim))
			} else if !slices.Equal(r.Next, carry) || r.Len() != embed {
				t.Fatalf("row %d changes the model, or reads %d rows", at, r.Len())
			}
			// Float32 holds the differences to the origin.
			m := read(carry, dim, embed*dim)
			if want := setByModel(&p, rows(at), dim, m); !(math.Abs(float64(r.Scores[0])-want) <= 1e-6*want+1e-5*float64(k)/m.cut) {
				t.Fatalf("row %d has score %v, want %v", at, r.Scores[0], want)
			}
			carry = r.Next
		}
		if mined < 5 {
			t.Errorf("%d models", mined)
		}
	}
}

// setByModel is the score of the last point of rows.
func setByModel(p *SolvingSetParams, rows []float64, dim int, m setModel) float64 {
	width := p.Embed * dim
	var x []float64
	for i, v := range m.points {
		x = append(x, float64(v)+m.origin.Float64(2*(i%dim)))
	}
	n := len(x) / width
	w, _ := Define(append(x, rows[len(rows)-width:]...), width, 1, p.K, false, Query{At: n, To: n})
	return w / m.cut
}

func check(t *testing.T, p *SolvingSetParams, rows []float64, dim int, m setModel) {
	t.Helper()
	rows = rows[len(rows)-(p.Window+p.Embed-1)*dim:]
	width := p.Embed * dim
	type point struct {
		at     int
		weight float64
	}
	var points []point
	for i := range p.Window {
		w, _ := Define(rows, dim, p.Embed, p.K, false, Query{At: i, To: p.Window})
		points = append(points, point{i, w})
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(b.weight, a.weight) })
	last := points[p.Top-1].weight
	if whole := len(m.points)/width < p.ModelPoints; m.cut < last*(1-1e-12) || whole && m.cut > last*(1+1e-12) {
		t.Errorf("%+v: the cut is %v, the last outlier has %v; %d points", p, m.cut, last, len(m.points)/width)
	}
	inside := map[[2]float32]bool{}
	key := func(point []float32) [2]float32 { return [2]float32{point[0], point[width-1]} }
	for i := 0; i < len(m.points); i += width {
		inside[key(m.points[i:i+width])] = true
	}
	for _, q := range points[p.Top:] {
		at := rows[q.at*dim : q.at*dim+width]
		own := make([]float32, width)
		for c, v := range at {
			own[c] = float32(v - m.origin.Float64(2*(c%dim)))
		}
		if !inside[key(own)] {
			if s := setByModel(p, at, dim, m); s > 1+1e-5*float64(p.K)/m.cut {
				t.Errorf("%+v: point %d of the window has score %v", p, q.at, s)
			}
		}
	}
}

// TestDegenerate has equal rows, and rows of which none or some are finite.
func TestDegenerate(t *testing.T) {
	d := detectors.Must(NewSolvingSet(SolvingSetParams{Window: 20, K: 2, Top: 1, MineEvery: 10, MinPoints: 4}))
	x := []float64{3, 3, 3, 3, 3, 3, 3, 7}
	r := task(t, d, x, 1, 2, nil)
	if r.Scores[0] != 0 || r.Scores[1] != math.MaxFloat32 {
		t.Errorf("scores %v among equal points, want 0 and the largest", r.Scores)
	}
	nan, inf := math.NaN(), math.Inf(1)
	r = task(t, d, []float64{nan, inf, -1e300, nan, nan, nan, 5, 6}, 1, 2, nil)
	if n := r.Next.Int(modelPoints); n != 0 || r.Scores[0] == r.Scores[0] {
		t.Errorf("a model of %d points of none, scores %v", n, r.Scores)
	}
	r = task(t, d, []float64{1, inf, 2, nan, 4, -1e300, 5, 6, nan, 8}, 1, 2, r.Next)
	if n := r.Next.Int(modelPoints); n != 6 || r.Scores[1] == r.Scores[1] {
		t.Errorf("a model of %d points, want 6, scores %v", n, r.Scores)
	}
	r = task(t, d, []float64{1, inf, 2, nan, 4, -1e300, 5, 6, nan, 8, nan, 1e300, 2}, 1, 3, r.Next)
	if s := r.Scores; s[0] == s[0] || s[1] == s[1] || s[2] != s[2] {
		t.Errorf("scores %v", s)
	}
	r = task(t, d, []float64{1, nan, nan, nan, nan, 8}, 1, 1, nil)
	if n := r.Next.Int(modelPoints); n != 1 || r.Scores[0] != math.MaxFloat32 {
		t.Errorf("a model of %d points, want 1, scores %v", n, r.Scores)
	}
}

// TestSolvingSetOfLevels requires of a window of two levels that half of the points are kept in float64, with the definition's
// scores and evidence that makes these; of other windows, and where half of the points are too few, that float32s are kept.
func TestSolvingSetOfLevels(t *testing.T) {
	rng := seedtest.New(t)
	for _, c := range []struct {
		step   float64
		points int
		wide   bool
	}{{1e9, 40, true}, {1e9, 19, false}, {0, 40, false}} {
		p := SolvingSetParams{Window: 200, K: 5, Embed: 2, Top: 3, ModelPoints: c.points}
		d := detectors.Must(NewSolvingSet(p)).(*setDetector)
		x := make([]float64, 2*250)
		for i := range x {
			x[i] = rng.NormFloat64() + c.step*float64(i/250)
		}
		first := task(t, d, x[:2*249], 2, 1, nil)
		if wide := first.Next.Bool(modelWide); wide != c.wide {
			t.Fatalf("%+v: wide is %v", c, wide)
		}
		if !c.wide {
			continue
		}
		m := read(first.Next, 2, 4)
		if n := len(m.wide) / 4; n != first.Next.Int(modelPoints) || n < 10 || n > 20 || m.points != nil {
			t.Errorf("%d points in float64 of %d, and %d others", n, c.points, len(m.points))
		}
		for i := 0; i < len(m.wide); i += 4 {
			at := slices.Index(x, m.wide[i])
			if at < 0 || !slices.Equal(m.wide[i:i+4], x[at:at+4]) {
				t.Errorf("%v are no values of the window", m.wide[i:i+4])
			}
		}
		r := task(t, d, x, 2, 1, first.Next)
		n := len(m.wide) / 4
		want, _ := Define(slices.Concat(m.wide, x[len(x)-4:]), 4, 1, p.K, false, Query{At: n, To: n})
		sum := 0.0
		for _, in := range d.Describe(r, 0).Inputs {
			sum += in.Distance
		}
		if got := float64(r.Scores[0]) * m.cut; !(math.Abs(got-want) <= 1e-6*want) || !(math.Abs(sum-want) <= 1e-6*want) {
			t.Errorf("a weight of %v, evidence of %v, want %v", got, sum, want)
		}
		expected, contribution := make([]float64, 2), make([]float64, 2)
		if _, ok := d.Explain(r, 0, 0, expected, contribution); !ok || !(math.Abs(expected[0]-c.step) < 5) {
			t.Errorf("expected %v at a level of %v", expected, c.step)
		}
	}
}

// TestNormalised requires that points of one shape are alike regardless of their scale and level, and that
// equal values are at 0.
func TestNormalised(t *testing.T) {
	rows := []float64{1e9, 5, 1e9 + 2, 5, 1e9, 5, 1e9 + 2, 5}
	want := []float64{-1, 0, 1, 0, -1, 0, 1, 0}
	if got := vec.Embed(nil, rows, 2, 4, true); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	d := detectors.Must(NewSolvingSet(SolvingSetParams{Window: 40, K: 2, Embed: 4, ZNorm: true, Top: 1, MinPoints: 10}))
	var x []float64
	for i := range 30 {
		x = append(x, float64(i%4)*float64(1+i%3)+1e5*float64(i/9))
	}
	a := task(t, d, append(slices.Clone(x), 0, 7, 0, 7), 1, 1, nil)
	b := task(t, d, append(slices.Clone(x), -7000, 0, -7000, 0), 1, 1, a.Next)
	if a.Scores[0] != b.Scores[0] || !(a.Scores[0] > 0) {
		t.Errorf("one shape has scores %v and %v", a.Scores, b.Scores)
	}
}

// TestExplain requires that the expected row is the mean of the nearest, on the scale of the rows.
func TestExplain(t *testing.T) {
	d := detectors.Must(NewSolvingSet(SolvingSetParams{Window: 20, K: 2, Top: 1, MinPoints: 4})).(*setDetector)
	x := []float64{0, 0, 2, 0, 50, 0, 0, 50, 1, 3}
	r := task(t, d, x, 2, 1, nil)
	expected, contribution := make([]float64, 2), make([]float64, 2)
	// Of the two nearest points, (0, 0) and (2, 0), the squared distances are 1+9 each.
	if _, ok := d.Explain(r, 0, 0, expected, contribution); !ok || !setNear(expected, 1, 0) || !setNear(contribution, 0.1, 0.9) {
		t.Errorf("expected %v, contribution %v", expected, contribution)
	}
	r.X64 = []float64{math.NaN(), 3}
	if _, ok := d.Explain(r, 0, 0, expected, contribution); ok {
		t.Error("a missing value is explained")
	}
	p := SolvingSetParams{Window: 20, K: 1, Embed: 4, ZNorm: true, Top: 1, MinPoints: 4, ModelPoints: 20}
	d = detectors.Must(NewSolvingSet(p)).(*setDetector)
	r = task(t, d, []float64{0, 1, 0, 1, 0, 1, 0, 1, 10, 20, 10, 16}, 1, 1, nil)
	// The nearest has the shape 0, 1, 0, 1: with the first three values it is 10, 20, 10, 20.
	if _, ok := d.Explain(r, 0, 0, expected[:1], contribution[:1]); !ok || !setNear(expected[:1], 20) || contribution[0] != 1 {
		t.Errorf("expected %v, contribution %v", expected[:1], contribution[:1])
	}
}

func setNear(got []float64, want ...float64) bool {
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= 1e-5) {
			return false
		}
	}
	return true
}

func TestNewRefuses(t *testing.T) {
	for want, p := range map[string]SolvingSetParams{
		"k is -1":                          {Window: 10, K: -1},
		"window is 0":                      {},
		"use at least 2k = 20":             {Window: 19},
		"takes too much memory":            {Window: MaxSolvingSetWindow, K: 40},
		"use a window of 1677721":          {Window: MaxSolvingSetWindow, K: 40},
		"embedding is 1025":                {Window: 100, Embed: 1025, ModelPoints: 20},
		"need at least 3":                  {Window: 100, Embed: 2, ZNorm: true},
		"25 outliers":                      {Window: 100, Top: 25},
		"a model of 19 points":             {Window: 100, ModelPoints: 19},
		"65536 rows at most":               {Window: 100, Embed: 300},
		"a model every -1":                 {Window: 100, MineEvery: -1},
		"5 points before a score":          {Window: 100, MinPoints: 5},
		"k is 2000, use 1 to 1024\nwindow": {Window: 1, K: 2000},
	} {
		if _, err := NewSolvingSet(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want one with %q", p, err, want)
		}
	}
}

// BenchmarkPoint scores a point a task, as points arrive, without the models in between.
func BenchmarkPoint(b *testing.B) {
	d := detectors.Must(NewSolvingSet(SolvingSetParams{Window: 1024, Embed: 16, MineEvery: 1 << 20}))
	rng := seedtest.New(b)
	x := make([]float64, 1100)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	r := task(b, d, x, 1, 1, nil)
	r.Carry, r.Next, r.X64 = r.Next, slices.Clone(r.Next), r.X64[len(r.X64)-16:]
	for b.Loop() {
		setCPU(b.Context(), &r, nil)
	}
}

// BenchmarkMine mines a model.
func BenchmarkMine(b *testing.B) {
	for _, n := range []int{1024, 65536, 1 << 20} {
		d := detectors.Must(NewSolvingSet(SolvingSetParams{Window: n, Top: 10, ModelPoints: 4096}))
		rng := seedtest.New(b)
		x := make([]float64, 2*n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		b.Run(detectors.FormatNumber(float64(n)), func(b *testing.B) {
			for b.Loop() {
				r := task(b, d, x, 2, 1, nil)
				b.ReportMetric(float64(r.Next.Int(modelPoints)), "points")
			}
		})
	}
}

// TestEventTime: with MineInterval and MaxAge a model is mined just where the time of a row is past the next multiple, from
// the points that are young enough, but at least MinPoints; and scores and models are as from a detector without
// times on the same points.
func TestEventTime(t *testing.T) {
	rng := seedtest.New(t)
	for range 6 {
		dim, embed, k, fresh := 1+rng.IntN(3), 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(3)
		p := SolvingSetParams{
			Window:       80 + rng.IntN(100),
			K:            k,
			Embed:        embed,
			Top:          2,
			MinPoints:    2*k + rng.IntN(20),
			ModelPoints:  2*k + rng.IntN(60),
			MineInterval: 1 + rng.Int64N(60e6),
			MaxAge:       rng.Int64N(2) * (1 + rng.Int64N(120e6)),
			ZNorm:        embed > 2 && rng.IntN(2) == 0,
		}
		d := detectors.Must(NewSolvingSet(p))
		without := p
		without.MineInterval, without.MaxAge = 0, 0
		plain := detectors.Must(NewSolvingSet(without)).(*setDetector)
		var timedRows, rows []float64
		var times []int64
		at := rng.Int64N(2e9) - 1e9 // also before 1970
		for range 600 {
			at += rng.Int64N(3) * rng.Int64N(1e6)
			if rng.IntN(100) == 0 {
				at += 200e6 // a pause, after which no other point is young enough
			}
			times, timedRows = append(times, at), append(timedRows, float64(at))
			for range dim {
				rows = append(rows, 1e3+rng.NormFloat64())
				timedRows = append(timedRows, rows[len(rows)-1])
			}
		}
		var carry detectors.Words
		mined, short := 0, 0
		for to := p.MinPoints + embed + fresh - 1; to <= len(times); to += fresh {
			r := task(t, d, timedRows[:to*(dim+1)], dim+1, fresh, carry)
			from := to - fresh
			crossed := math.Floor(
				float64(times[to-1])/float64(p.MineInterval),
			) != math.Floor(
				float64(times[from-1])/float64(p.MineInterval),
			)
			end := 0 // of the rows of the points that are mined
			if carry == nil {
				end = from
			} else if crossed {
				end = to
			}
			want := slices.Clone(carry)
			if end > 0 {
				first := max(0, end-(p.Window+embed-1))
				if len(carry) > 0 { // the task has no older rows
					first = max(first, to-d.Window()-fresh+1)
				}
				for least := max(0, end-(p.MinPoints+embed-1)); p.MaxAge > 0 && first < least && times[first] < times[end-1]-p.MaxAge; {
					first++
				}
				if end-first < p.Window+embed-1 && first > 0 {
					short++
				}
				want = make(detectors.Words, len(r.Next))
				plain.set.mine(want, rows[first*dim:end*dim], dim, nil, detectors.Sequential)
				mined++
			}
			if !slices.Equal(r.Next, want) {
				t.Fatalf("%+v: after row %d, crossed %v, the model is another", p, to, crossed)
			}
			before := carry
			if before == nil {
				before = want
			}
			s := detectors.Rows{Dim: dim, Fresh: fresh, Params: plain.params, X64: rows[(from-embed+1)*dim : to*dim], Carry: before,
				Scores: make([]float32, fresh), Next: make(detectors.Words, len(before))}
			setCPU(context.Background(), &s, detectors.Sequential)
			if !slices.Equal(r.Scores, s.Scores) {
				t.Fatalf("%+v: rows up to %d have scores %v, without times %v", p, to, r.Scores, s.Scores)
			}
			for i := range fresh {
				e, c := make([]float64, dim), make([]float64, dim)
				e2, c2 := make([]float64, dim), make([]float64, dim)
				a, ok := d.(detectors.Explainer).Explain(r, i, 0, e, c)
				b, ok2 := plain.Explain(s, i, 0, e2, c2)
				if carry != nil && (ok != ok2 || r.Len()-a.Row != s.Len()-b.Row || !slices.Equal(e, e2) || !slices.Equal(c, c2)) {
					t.Fatalf("%+v: explained by %v %v, without times by %v %v", p, e, c, e2, c2)
				}
			}
			carry = r.Next
		}
		// With the largest MaxAge it is chance whether a model is mined soon enough after a pause.
		if mined < 2 || p.MaxAge > 0 && p.MaxAge < 20e6 && short == 0 {
			t.Errorf("%+v: %d models, %d of fewer points than the window", p, mined, short)
		}
	}
}
