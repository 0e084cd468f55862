package vec

import (
	"math"
	"slices"
	"testing"
)

func TestNear(t *testing.T) {
	rng := newRand(t)
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
		SqDists(d, low, x, stride, q)
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
		SqDists64(d64, rows, at, q64)
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

func BenchmarkNear(b *testing.B) {
	const n, dim, m = 1024, 8, 21
	rng := newRand(b)
	x := Aligned(n * dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	d, low, at, near := Aligned(n), Aligned(Group), make([]int32, n+8), Aligned(n+8)
	q := make([]float32, dim)
	next := 0
	load := func() {
		next = (next + 1) % n
		for c := range q {
			q[c] = x[c*n+next]
		}
	}
	b.Run("SqDists", func(b *testing.B) {
		for b.Loop() {
			load()
			SqDists(d, low, x, n, q)
		}
	})
	b.Run("Bound", func(b *testing.B) {
		for b.Loop() {
			load()
			SqDists(d, low, x, n, q)
			Bound(low, m)
		}
	})
	b.Run("AtMost", func(b *testing.B) {
		found := 0
		for b.Loop() {
			load()
			SqDists(d, low, x, n, q)
			found += AtMost(at, near, d, Bound(low, m))
		}
		b.ReportMetric(float64(found)/float64(b.N), "places")
	})
}
