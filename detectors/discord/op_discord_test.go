package discord

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
)

func TestDiscordLengths(t *testing.T) {
	for _, tt := range []struct {
		p    Params
		want []int
	}{
		{Params{Window: 2048, Length: 64}, []int{64}},
		{Params{Window: 2048, Length: 64, MaxLength: 144}, []int{64, 96, 144}},
		{Params{Window: 2048, Length: 64, MaxLength: 150}, []int{64, 85, 113, 150}},
		{Params{Window: 2048, Length: 64, MaxLength: 128, Lengths: 2}, []int{64, 128}},
		{Params{Window: 2048, Length: 3, MaxLength: 5, Lengths: 9}, []int{3, 4, 5}},
	} {
		d, err := New(tt.p)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.(*detector).lengths; !slices.Equal(got, tt.want) {
			t.Errorf("%+v: lengths %v, want %v", tt.p, got, tt.want)
		}
	}
}

// rowsOf executes one task on rows of dim values.
func rowsOf(t *testing.T, p Params, rows []float64, dim, fresh int) (detectors.Detector, detectors.Rows) {
	t.Helper()
	d, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := d.Size(detectors.View{Dim: dim, Rows: len(rows) / dim, Fresh: fresh})
	if !ok {
		t.Fatal("too little history")
	}
	e := detectors.NewCPU(1)
	b := e.Batch()
	task := detectors.Task{Op: Op, Dim: uint32(dim), Fresh: uint32(fresh), Params: b.Put(d.Params())}
	x, dst := b.GrowF64(len(rows))
	copy(dst, rows)
	task.X = x
	b.GrowOutputs(&task, n)
	b.Tasks = append(b.Tasks, task)
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return d, b.Rows(0)
}

// TestDiscordScore requires that the score is the mean of the lengths' scores, which are in Detail, and
// that a finding has the length with the highest.
func TestDiscordScore(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]float64, 203)
	for i := range rows {
		rows[i] = rng.NormFloat64()
	}
	p := Params{Window: 200, Length: 8, MaxLength: 18, MinPoints: 100}
	d, r := rowsOf(t, p, rows, 1, 4)
	findings := d.AppendFindings(nil, r)
	for i, s := range r.Scores {
		sum, most, length := 0.0, -1.0, 0
		for a, m := range []int{8, 12, 18} {
			_, alone := rowsOf(t, Params{Window: 200, Length: m, MinPoints: 100}, rows, 1, 4)
			v := float64(alone.Scores[i])
			if got := r.Detail.Float32(3*i + a); got != alone.Scores[i] {
				t.Errorf("row %d, length %d: %v, alone %v", i, m, got, v)
			}
			if sum += v; v > most {
				most, length = v, m
			}
		}
		if math.Abs(float64(s)-sum/3) > 1e-6 {
			t.Errorf("row %d: score %v, the mean of the lengths is %v", i, s, sum/3)
		}
		if f := findings[i]; f.Length != length || f.To != 199+i || f.From != f.To-17 || f.Fresh != i {
			t.Errorf("row %d: %+v, the highest is of length %d", i, f, length)
		}
	}
}

// TestDiscordGroups requires the definition's scores of windows so large that their lengths are prepared in groups.
func TestDiscordGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{1, 3} {
		rows := make([]float64, 300*dim)
		for i := range rows {
			rows[i] = rng.NormFloat64()
		}
		p := Params{Window: MaxWindow, Length: 4, MaxLength: 64, Lengths: 9, MinPoints: 200}
		if groups := mostPrepared / (p.Window * dim); groups < 1 || groups > 4 {
			t.Fatalf("groups of %d lengths", groups)
		}
		_, r := rowsOf(t, p, rows, dim, 3)
		want := r
		want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
		score(want)
		err := compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail}, detectors.Result{Scores: want.Scores, Detail: want.Detail})
		if err != nil {
			t.Errorf("dim %d: %v", dim, err)
		}
	}
}

// TestDiscordShares requires that a long task has the same bits regardless of the order of its shares.
func TestDiscordShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const window, fresh = 6000, 800
	for _, k := range []int{1, 2} {
		d := detectors.Must(New(Params{Window: window, Length: 20, MaxLength: 60, K: k, Every: 2}))
		r := detectors.Rows{Dim: 1, Fresh: fresh, Params: d.Params(), X64: make([]float64, window+fresh-1)}
		for i := range r.X64 {
			r.X64[i] = math.Sin(float64(i)*0.1) + 0.01*rng.NormFloat64()
		}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: len(r.X64), Fresh: fresh})
		shares := 0
		var results [][]uint32
		for _, p := range []detectors.Parallel{
			detectors.Sequential,
			func(n int, f func(int)) {
				shares = n
				for i := range n {
					f(n - 1 - i)
				}
			},
			detectors.NewHelpers(3).Parallel(t.Context()),
		} {
			r.Scores, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Detail)
			cpu(t.Context(), &r, p)
			results = append(results, append(detectors.WordsOf(r.Scores), r.Detail...))
		}
		if shares < 4 {
			t.Errorf("k=%d: %d shares", k, shares)
		}
		if !slices.Equal(results[0], results[1]) || !slices.Equal(results[0], results[2]) {
			t.Errorf("k=%d: the order of the shares changes a score", k)
		}
	}
}

// TestDiscordExplain requires that a period whose last value is wrong is explained by the value of the
// period there, on its level and scale, in the wrong column.
func TestDiscordExplain(t *testing.T) {
	var rows []float64
	shape := []float64{0, 3, 1, 4, 1, 5, 9, 2}
	for i := range 80 {
		level, scale := 1e6*float64(i/72), 1+float64(i/72)
		rows = append(rows, level+scale*shape[i%8], float64(i%8))
	}
	rows[len(rows)-2] += 6
	d, r := rowsOf(t, Params{Window: 80, Length: 8}, rows, 2, 1)
	expected, share := make([]float64, 2), make([]float64, 2)
	if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, share); !ok {
		t.Fatal("no explanation")
	}
	if share[0] < 0.99 || math.Abs(share[0]+share[1]-1) > 1e-9 {
		t.Errorf("shares %v: the first value is the one that is not like before", share)
	}
	if math.Abs(expected[1]-7) > 1e-6 || !(expected[0] < rows[len(rows)-2]) || math.Abs(expected[0]-rows[len(rows)-2]) > 12 {
		t.Errorf("expected %v of %v", expected, rows[len(rows)-2:])
	}
	rows[len(rows)-2] -= 6
	if _, r = rowsOf(t, Params{Window: 80, Length: 8}, rows, 2, 1); r.Scores[0] > 1e-6 {
		t.Errorf("a copy has the score %v", r.Scores[0])
	}
}
