package vec

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestMoments requires the bits of the twins of the functions on moments, regardless of the length and the
// place, with NaN and infinities, and that nothing else is written.
func TestMoments(t *testing.T) {
	rng := seedtest.New(t)
	a := &arena{t: t, rng: rng}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1e300, -1e-300}
	equal := func(what string, n int, got, want []float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
		}) {
			t.Fatalf("%s of %d: %v, the twin gives %v", what, n, got, want)
		}
	}
	numbers := func(n int, readOnly bool) []float64 {
		x := a.doubles(n, false)
		if rng.IntN(2) == 0 {
			for i := range x {
				if rng.IntN(6) == 0 {
					x[i] = odd[rng.IntN(len(odd))]
				}
			}
		}
		if readOnly {
			before := slices.Clone(x)
			a.checks = append(a.checks, func() error { equal("an input", n, x, before); return nil })
		}
		return x
	}
	for n := range 70 {
		for range 4 {
			x, y, dst := numbers(n, true), numbers(n, true), numbers(n, false)
			want := make([]float64, n)
			Add64(dst, x, y)
			add64Go(want, x, y)
			equal("Add64", n, dst, want)

			s1, q1, s2, q2 := x, y, numbers(n, true), numbers(n, true)
			sum, square, wantSquare := numbers(n, false), numbers(n, false), make([]float64, n)
			Merge(sum, square, s1, q1, s2, q2, 0.3, 0.7)
			mergeGo(want, wantSquare, s1, q1, s2, q2, 0.3, 0.7)
			equal("Merge, sums", n, sum, want)
			equal("Merge, squares", n, square, wantSquare)
			for _, by := range []int{1, 2, 3, 4, 8, 16, 64} { // in place, with later parts
				s, q := numbers(n+by, false), numbers(n+by, false)
				mergeGo(want, wantSquare, s[:n], q[:n], s[by:], q[by:], 0.3, 0.7)
				Merge(s[:n], q[:n], s[:n], q[:n], s[by:], q[by:], 0.3, 0.7)
				equal("Merge in place, sums", n, s[:n], want)
				equal("Merge in place, squares", n, q[:n], wantSquare)
			}

			for _, roots := range []bool{false, true} {
				sums, squares := numbers(n, false), numbers(n, false)
				for i := range squares {
					squares[i] *= squares[i]
				}
				sums2, squares2 := slices.Clone(sums), slices.Clone(squares)
				got := Deviations(sums, squares, 0.125, 0.3, 1e-280, roots)
				twin := deviationsGo(sums2, squares2, 0.125, 0.3, 1e-280, roots)
				equal("Deviations", n, sums, sums2)
				equal("Deviations", n, squares, squares2)
				if nan := slices.ContainsFunc(squares, func(v float64) bool { return v != v }); got != twin || got != nan {
					t.Fatalf("Deviations of %d: odd ones %v, the twin says %v, %v", n, got, twin, nan)
				}
			}

			mean, inv := numbers(n, true), numbers(n, true)
			for _, more := range [][]float64{nil, numbers(n, true)} {
				for _, rho := range [][]float64{nil, numbers(n, false)} {
					p := numbers(n, more == nil)
					p2, rho2 := slices.Clone(p), slices.Clone(rho)
					got := Correlate(rho, p, more, mean, inv, 0.7, 1.3)
					equal("the largest correlation", n, []float64{got}, []float64{correlateGo(rho2, p2, more, mean, inv, 0.7, 1.3)})
					equal("products", n, p, p2)
					equal("correlations", n, rho, rho2)
					if rho != nil && Most64(rho) != got {
						t.Fatalf("the most of %v: %v, want %v", rho, Most64(rho), got)
					}
				}
			}
			for _, more := range [][]float64{nil, numbers(n, true)} {
				squares, p := numbers(n, false), numbers(n, more == nil)
				for i := range squares {
					squares[i] *= squares[i]
				}
				least := []float64{math.Inf(-1), -0.3, 0, 0.3}[rng.IntN(4)]
				p2 := slices.Clone(p)
				got := Largest(p, more, mean, squares, 0.7, least)
				equal("the largest quotient", n, []float64{got}, []float64{largestGo(p2, more, mean, squares, 0.7, least)})
				equal("products", n, p, p2)
			}
			for _, more := range [][]float32{nil, a.floats(n, true)} {
				squares, p := numbers(n, true), a.floats(n, more == nil)
				mean := a.doubles(n, true)
				if n > 0 && more != nil {
					p[rng.IntN(n)] = float32(odd[rng.IntN(3)])
				}
				p2 := slices.Clone(p)
				margin := Margin{Rest: 0.3, Relative: 0.01, Square: 0.02, Mean: 0.03, Least: 1e-9}
				for least, at := 2*rng.NormFloat64(), 0; at < n; at += 8 {
					got := Candidate(p, more, mean, squares, at, &margin, least)
					if want := candidateGo(p2, more, mean, squares, at, &margin, least); got != want {
						t.Fatalf("the candidate of %d from %d on: %d, the twin gives %d", n, at, got, want)
					}
					if at = got; at >= n {
						break
					}
				}
				for i := range p {
					if p[i] != p2[i] && (p[i] == p[i] || p2[i] == p2[i]) {
						t.Fatalf("product %d of %d: %v, the twin gives %v", i, n, p[i], p2[i])
					}
				}
			}
			low := a.floats(n, false)
			Round(low, x)
			for i, v := range low {
				if v != float32(x[i]) && x[i] == x[i] {
					t.Fatalf("%v is rounded to %v", x[i], v)
				}
			}
			equal("Most64", n, []float64{Most64(x)}, []float64{most64Go(x)})
			a.check()
		}
	}
}

func BenchmarkMoments(b *testing.B) {
	const n = 2048
	var x [8][]float64
	for i := range x {
		x[i] = make([]float64, n+64)
		for j := range x[i] {
			x[i][j] = 1 + float64(i*j)
		}
	}
	for name, f := range map[string]func(){
		"Add64":      func() { Add64(x[0][:n], x[1][:n], x[2][3:n+3]) },
		"Merge":      func() { Merge(x[6][:n], x[7][:n], x[0][:n], x[1][:n], x[2][3:n+3], x[5][3:n+3], 0.3, 0.4) },
		"Deviations": func() { Deviations(x[3][:n], x[4][:n], 0.01, 1e-5, 1e-280, true) },
		"Largest":    func() { Largest(x[0][:n], x[1][:n], x[2][:n], x[5][:n], 0.3, 1e300) },
		"Correlate":  func() { Correlate(nil, x[0][:n], x[1][:n], x[2][:n], x[5][:n], 0.3, 0.7) },
		"Most64":     func() { Most64(x[0][:n]) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/number")
		})
	}
}

// TestHankelBits requires that a sum has the same bits regardless of the number of sums.
func TestHankelBits(t *testing.T) {
	rng := seedtest.New(t)
	a := &arena{t: t, rng: rng}
	for m := 1; m < 40; m++ {
		n := 60
		x, v := a.doubles(n+m-1, true), a.doubles(m, true)
		all := a.doubles(n, false)
		Hankel64(all, x, v)
		for few := 1; few < n; few++ {
			at := rng.IntN(n - few + 1)
			some := a.doubles(few, false)
			Hankel64(some, x[at:at+few+m-1], v)
			if !slices.Equal(some, all[at:at+few]) {
				t.Fatalf("%d sums of %d products from %d on: %v, among all %v", few, m, at, some, all[at:at+few])
			}
		}
		a.check()
	}
}
