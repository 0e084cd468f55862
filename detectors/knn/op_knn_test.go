package knn

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

func TestKNNExplain(t *testing.T) {
	d, err := New(Params{Window: 8, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := detectors.Rows{Dim: 2, Fresh: 1, Params: d.Params(), X: []float32{0, 0, 2, 0, 50, 50, 90, 90, 1, 6}}
	expected, contribution := make([]float64, 2), make([]float64, 2)
	if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, contribution); !ok {
		t.Fatal("no explanation")
	}
	// The nearest are (0, 0) and (2, 0): 1 and 36 of squared distance each.
	if expected[0] != 1 || expected[1] != 0 || contribution[0] != 1.0/37 || contribution[1] != 36.0/37 {
		t.Errorf("expected %v, contribution %v", expected, contribution)
	}
	r.X[4] = float32(math.NaN())
	if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, contribution); ok {
		t.Error("a NaN is explained")
	}
	r.X = make([]float32, 10)
	if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, contribution); ok {
		t.Error("a score of 0 is explained")
	}
}

func TestKNNRefuses(t *testing.T) {
	for _, p := range []Params{{}, {Window: 1}, {Window: 19}, {Window: 1<<21 + 1}, {Window: 64, K: -1}, {Window: 64, K: 33},
		{Window: 64, Embed: -1}, {Window: 64, Embed: 1025}, {Window: 4096, K: 1025},
		{Window: 64, MinPoints: 19}, {Window: 64, MinPoints: 65}, {Window: 64, MinPoints: -1}, {Window: 64, MinPoints: 40, Tumbling: true}} {
		if _, err := New(p); err == nil {
			t.Errorf("%+v passes", p)
		}
	}
}

func TestKNNSizes(t *testing.T) {
	f := func(p Params, rows, fresh int, ok bool) {
		t.Helper()
		if size, got := detectors.Must(New(p)).Size(detectors.View{Dim: 1, Rows: rows, Fresh: fresh}); got != ok || ok && size.Scores != fresh {
			t.Errorf("%+v: %d rows, %d fresh: %d scores, %v", p, rows, fresh, size.Scores, got)
		}
	}
	// With few points the nearest are far: the default requires 256, or a full window.
	f(Params{Window: 1024, K: 10}, 255, 1, false)
	f(Params{Window: 1024, K: 10}, 256, 1, true)
	f(Params{Window: 1024, K: 10, Embed: 19}, 256+17, 1, false)
	f(Params{Window: 1024, K: 10, Embed: 19}, 256+18, 1, true)
	f(Params{Window: 1024, K: 10, Embed: 19}, 256+18+3, 4, true)
	f(Params{Window: 64, K: 3, Embed: 5}, 67, 1, false)
	f(Params{Window: 64, K: 3, Embed: 5}, 70, 3, true)
	// 2K points that share no rows with the scored one.
	f(Params{Window: 4096, K: 200, Embed: 100}, 499+99, 1, false)
	f(Params{Window: 4096, K: 200, Embed: 100}, 500+99, 1, true)
	f(Params{Window: 1024, K: 10, MinPoints: 20}, 19, 1, false)
	f(Params{Window: 1024, K: 10, MinPoints: 20}, 20, 1, true)
	f(Params{Window: 1024, K: 10, MinPoints: 1024}, 1023, 1, false)
	// A tumbling window is scored among itself, and its caller has all of it.
	f(Params{Window: 64, K: 3, Embed: 5, Tumbling: true}, 68, 64, true)
	f(Params{Window: 64, K: 3, Embed: 5, Tumbling: true, MinPoints: 64}, 68, 64, true)
	f(Params{Window: 64, K: 3, Embed: 5, Tumbling: true}, 67, 64, false)
	if n := detectors.Must(New(Params{Window: 64, K: 3, Embed: 5})).Window(); n != 68 {
		t.Errorf("a score reads %d rows", n)
	}
}

// TestKNNDefaults requires that MIN_POINTS is the window, and EMBED the largest that the dimension of a
// row allows.
func TestKNNDefaults(t *testing.T) {
	d, err := spec.Build(detectors.Values{detectors.WindowParam: 100, "K": 7}, 9)
	if err != nil {
		t.Fatal(err)
	}
	if p := d.(*detector).p; p.Window != 100 || p.K != 7 || p.Embed != 7 || p.MinPoints != 100 {
		t.Errorf("%+v", p)
	}
}

// TestNearest compares the selection of neighbours with a stable sort of all points, with ties.
func TestNearest(t *testing.T) {
	r := seedtest.New(t)
	for range 300 {
		n, dim, k := 1+r.IntN(200), 1+r.IntN(40), 1+r.IntN(30)
		x := make([]float32, n*dim)
		for i := range x {
			if x[i] = r.Float32(); k%2 == 0 {
				x[i] = float32(r.IntN(2))
			}
		}
		q := Query{At: r.IntN(n), To: n}
		if r.IntN(2) > 0 {
			q.From, q.To = 0, q.At
		}
		at := x[q.At*dim:][:dim]
		square := func(i int) (sum float64) {
			for c, v := range x[i*dim:][:dim] {
				e := float64(at[c]) - float64(v)
				sum += e * e
			}
			return sum
		}
		var want []int
		for i := q.From; i < q.To; i++ {
			if i != q.At {
				want = append(want, i)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(square(a), square(b)) })
		want = want[:min(k, len(want))]
		if got := nearest(x, dim, at, k, q); !slices.Equal(got, want) {
			t.Fatalf("%d points of %d values, k=%d: %v, want %v", n, dim, k, got, want)
		}
	}
}
