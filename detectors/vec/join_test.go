package vec

import (
	"math"
	"testing"
)

// The assembly gives the bits of the Go twin, and ends where it does.
func TestJoin(t *testing.T) {
	rng := newRand(t)
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	for range 300 {
		n := 1 + rng.IntN(70)
		a, x, mean := random(n), random(n+JoinLanes-1), random(JoinLanes)
		var got, want [JoinLanes]float64
		Covariances(&got, a, x, mean)
		covariancesGo(&want, a, x, mean)
		if got != want {
			t.Fatalf("covariances of %d: %v, want %v", n, got, want)
		}
		i, j := rng.IntN(5), rng.IntN(40)
		end := i + rng.IntN(30)
		all := max(end, end+j-i) + JoinLanes
		df, dg, inv, row, column := random(all), random(all), random(all), random(all), random(all)
		for k := range all {
			row[k], column[k] = row[k]+12, column[k]+12
			if rng.IntN(8) == 0 {
				inv[k] = math.NaN()
			}
			if rng.IntN(8) == 0 {
				row[k], column[k] = math.Inf(1), math.Inf(1)
			}
		}
		cov, rho, cov2, rho2 := want, want, want, want
		for at := i; ; at++ { // from one end to the next
			of, of2 := Join(&cov, &rho, df, dg, inv, row, column, at, at-i+j, end), joinGo(&cov2, &rho2, df, dg, inv, row, column, at, at-i+j, end)
			if of != of2 || cov != cov2 || of < end && !sameBits(rho[:], rho2[:]) {
				t.Fatalf("rows %d to %d, column %d: ends at %d with %v and %v, want %d, %v and %v", at, end, at-i+j, of, cov, rho, of2, cov2, rho2)
			}
			if at = of; at >= end {
				break
			}
		}
	}
}

func sameBits(a, b []float64) bool {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return true
}
