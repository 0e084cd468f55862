package vec

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

func TestNear(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		n := Group * (1 + rng.IntN(6))
		groups := Group * (1 + rng.IntN(3))
		dim := 1 + rng.IntN(11)
		stride := n + rng.IntN(2)*8
		x := make([]float32, stride*dim)
		for i := range x {
			x[i] = float32(rng.IntN(5))
			if n > 2*Group {
				x[i] = float32(rng.NormFloat64())
			}
		}
		for i := n - rng.IntN(Group); i < n; i++ {
			x[i] = float32(math.Inf(1)) // no points
		}
		q := make([]float32, dim)
		for c := range q {
			q[c] = x[c*stride]
		}
		d, low := make([]float32, n), make([]float32, groups)
		other := Distances{make([]float32, dim), make([]float32, n), make([]float32, groups)}
		own := Distances{q, d, low}
		SqDists(&own, &other, x, stride)
		if rng.IntN(2) == 0 {
			SqDists(&other, &own, x, stride)
		}
		alone := Distances{q, make([]float32, n), make([]float32, groups)}
		if SqDists(&alone, nil, x, stride); !slices.Equal(alone.D, d) || !slices.Equal(alone.Low, low) {
			t.Fatalf("n=%d groups=%d dim=%d: alone %v, %v, of two %v, %v", n, groups, dim, alone.D, alone.Low, d, low)
		}
		minima := slices.Repeat([]float32{float32(math.Inf(1))}, groups)
		for i, v := range d {
			want := 0.0
			for c := range q {
				e := float64(q[c]) - float64(x[c*stride+i])
				want += e * e
			}
			if math.Abs(float64(v)-want) > 1e-6*want && !(math.IsInf(want, 1) && float64(v) == want) {
				t.Fatalf("distance %d is %v, want %v", i, v, want)
			}
			minima[i%groups] = min(minima[i%groups], v)
		}
		if !slices.Equal(low, minima) {
			t.Fatalf("minima %v, want %v", low, minima)
		}

		low = low[:8*(1+rng.IntN(len(low)/8))]
		sorted := slices.Sorted(slices.Values(low))
		finite, _ := slices.BinarySearch(sorted, float32(math.Inf(1)))
		if finite == 0 {
			continue
		}
		m := 1 + rng.IntN(finite)
		b := Bound(low, m)
		within := 0
		for _, v := range low {
			if v <= b {
				within++
			}
		}
		tied := b == sorted[m-1]
		if within < m || within > m+m/16 && !tied {
			t.Fatalf("%d of %v are not above %v, want %d", within, sorted, b, m)
		}

		if r := Rank(low, m); r != sorted[m-1] {
			t.Fatalf("number %d of %v is %v", m, sorted, r)
		}

		at, near := make([]int32, n+8), make([]float32, n+8)
		at = at[:AtMost(at, near, d, b)]
		var want []int32
		for i, v := range d {
			if v <= b {
				want = append(want, int32(i))
			}
		}
		if !slices.Equal(at, want) {
			t.Fatalf("places %v, want %v", at, want)
		}
		rows, q64, d64 := make([]float32, 0, n*dim), make([]float64, dim), make([]float64, len(at))
		for i := range n {
			for c := range q {
				rows, q64[c] = append(rows, x[c*stride+i]), float64(q[c])
			}
		}
		SqDists64(d64, rows, at, dim, q64)
		for a, i := range at {
			exact := 0.0
			for c := range q {
				e := q64[c] - float64(x[c*stride+int(i)])
				exact += float64(e * e)
			}
			if near[a] != d[i] || d64[a] != exact {
				t.Fatalf("place %d: %v and %v, want %v and %v", i, near[a], d64[a], d[i], exact)
			}
		}
	}
}

// TestSqDists64: the terms are added in order, regardless of the number of points beside it and the distance of their rows.
func TestSqDists64(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		step, dim, n := 1+rng.IntN(5), 1+rng.IntN(40), 1+rng.IntN(12)
		points := 1 + rng.IntN(50)
		x, q := make([]float32, (points-1)*step+dim), make([]float64, dim)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp(5*rng.NormFloat64()))
		}
		for c := range q {
			q[c] = float64(float32(rng.NormFloat64() * math.Exp(5*rng.NormFloat64())))
		}
		at, got := make([]int32, n), make([]float64, n)
		for i := range at {
			at[i] = int32(rng.IntN(points))
		}
		SqDists64(got, x, at, step, q)
		for i, p := range at {
			want := 0.0
			for c, v := range q {
				e := v - float64(x[int(p)*step+c])
				want += float64(e * e)
			}
			if got[i] != want {
				t.Fatalf("step %d, dim %d: distance %d of %d is %v, want %v", step, dim, i, n, got[i], want)
			}
		}
	}
	for _, p := range []int32{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for point %d", p)
				}
			}()
			SqDists64(make([]float64, 1), make([]float32, 10), []int32{p}, 3, make([]float64, 4))
		}()
	}
}

func TestExtentAndColumn(t *testing.T) {
	rng := seedtest.New(t)
	inf := float32(math.Inf(1))
	for range 300 {
		n := rng.IntN(70)
		x := make([]float32, n)
		most, least := float32(0), float32(0)
		for i := range x {
			if rng.IntN(4) > 0 {
				x[i] = float32(rng.NormFloat64()) * float32(math.Ldexp(1, -rng.IntN(150)))
			}
			v := float32(math.Abs(float64(x[i])))
			most = max(most, v)
			if v > 0 && (least == 0 || v < least) {
				least = v
			}
		}
		if m, l := Extent(x); m != most || l != least {
			t.Fatalf("%v: %v and %v, want %v and %v", x, m, l, most, least)
		}
		if n > 0 {
			stride := 1 + rng.IntN(5)
			dst := make([]float32, 1+(n-1)/stride)
			for _, scale := range []float32{1, 2} {
				Column(dst, scale, x, stride)
				for i, v := range dst {
					if v != scale*x[i*stride] {
						t.Fatalf("column %d is %v, want %v", i, v, scale*x[i*stride])
					}
				}
			}
			x[rng.IntN(n)] = []float32{inf, -inf, float32(math.NaN())}[rng.IntN(3)]
			if m, _ := Extent(x); m-m == 0 {
				t.Fatalf("%v: %v", x, m)
			}
		}
	}
}

func BenchmarkNear(b *testing.B) {
	const n, dim, m = 1024, 8, 21
	rng := seedtest.New(b)
	x := Aligned(n * dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	u := Distances{Aligned(dim), Aligned(n), Aligned(Group)}
	v := Distances{Aligned(dim), Aligned(n), Aligned(Group)}
	at, near := make([]int32, n+8), Aligned(n+8)
	next := 0
	search := func() {
		next = (next + 1) % (n - 1)
		for c := range dim {
			u.Q[c], v.Q[c] = x[c*n+next], x[c*n+next+1]
		}
		SqDists(&u, &v, x, n)
	}
	b.Run("two SqDists", func(b *testing.B) {
		for b.Loop() {
			search()
		}
	})
	b.Run("and Bounds", func(b *testing.B) {
		for b.Loop() {
			search()
			Bound(u.Low, m)
			Bound(v.Low, m)
		}
	})
	b.Run("and AtMosts", func(b *testing.B) {
		found := 0
		for b.Loop() {
			search()
			found += AtMost(at, near, u.D, Bound(u.Low, m)) + AtMost(at, near, v.D, Bound(v.Low, m))
		}
		b.ReportMetric(float64(found)/float64(2*b.N), "places")
	})
}

// The coordinates of runs of a series lie one place apart.
func TestSqDistsOfRuns(t *testing.T) {
	rng := seedtest.New(t)
	for _, dim := range []int{1, 2, 7, 19} {
		x := make([]float32, 2*Group+dim-1)
		for i := range x {
			x[i] = float32(rng.IntN(5))
		}
		a := Distances{slices.Clone(x[3:][:dim]), make([]float32, 2*Group), make([]float32, Group)}
		b := Distances{slices.Clone(x[9:][:dim]), make([]float32, 2*Group), make([]float32, Group)}
		SqDists(&a, &b, x, 1)
		for i, v := range a.D {
			want := float32(0)
			for c, q := range a.Q {
				want += (q - x[i+c]) * (q - x[i+c])
			}
			if v != want {
				t.Fatalf("dim %d: distance %d is %v, want %v", dim, i, v, want)
			}
		}
	}
}
