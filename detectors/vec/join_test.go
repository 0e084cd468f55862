package vec

import (
	"math"
	"math/big"
	"testing"

	"odradek/detectors/seedtest"
)

// TestJoin compares the assembly with the Go twin, to the bit, and where both end.
func TestJoin(t *testing.T) {
	rng := seedtest.New(t)
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
			stop := Join(&cov, &rho, df, dg, inv, row, column, at, at-i+j, end)
			stop2 := joinGo(&cov2, &rho2, df, dg, inv, row, column, at, at-i+j, end)
			if stop != stop2 || cov != cov2 || stop < end && !sameBits(rho[:], rho2[:]) {
				t.Fatalf("rows %d to %d, column %d: ends at %d with %v and %v, want %d, %v and %v", at, end, at-i+j, stop, cov, rho, stop2, cov2, rho2)
			}
			if at = stop; at >= end {
				break
			}
		}
	}
}

// TestJoin32 does the same in float32.
func TestJoin32(t *testing.T) {
	rng := seedtest.New(t)
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(30)-15)))
		}
		return x
	}
	wide := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	for range 300 {
		i, j := rng.IntN(5), rng.IntN(40)
		end := i + rng.IntN(30)
		all := max(end, end+j-i) + JoinLanes32
		df, dg, inv, row, column := random(all), random(all), random(all), random(all), random(all)
		for k := range all {
			row[k], column[k] = max(row[k], -row[k])*1e9, max(column[k], -column[k])*1e9
			if rng.IntN(8) == 0 {
				inv[k] = float32(math.NaN())
			}
			if rng.IntN(8) == 0 {
				row[k], column[k] = float32(math.Inf(1)), float32(math.Inf(1))
			}
		}
		var cov, rho, cov2, rho2 [JoinLanes32]float32
		copy(cov[:], random(JoinLanes32))
		cov2 = cov
		for at := i; ; at++ {
			stop := Join32(&cov, &rho, df, dg, inv, row, column, at, at-i+j, end)
			stop2 := join32Go(&cov2, &rho2, df, dg, inv, row, column, at, at-i+j, end)
			if stop != stop2 || cov != cov2 || stop < end && !sameBits(wide(rho[:]), wide(rho2[:])) {
				t.Fatalf("rows %d to %d, column %d: ends at %d with %v and %v, want %d, %v and %v", at, end, at-i+j, stop, cov, rho, stop2, cov2, rho2)
			}
			if at = stop; at >= end {
				break
			}
		}
	}
}

// TestFMA32 requires that fma32 rounds once, also where a float64 in between would lie in the middle of
// two float32s.
func TestFMA32(t *testing.T) {
	rng := seedtest.New(t)
	const ulp = 0x1p-23
	if got := fma32(ulp/2*(1+ulp), 1-ulp, 1+ulp); got != 1+ulp {
		t.Errorf("just below the middle %v, want %v", got, float32(1+ulp))
	}
	if got := fma32(-ulp/2*(1+ulp), 1-ulp, -1-ulp); got != -1-ulp {
		t.Errorf("just above the middle %v, want %v", got, float32(-1-ulp))
	}
	for range 10_000 {
		a, b := float32(rng.NormFloat64()), float32(rng.NormFloat64())
		c := float32(math.Exp2(float64(rng.IntN(60)-50)) * rng.NormFloat64())
		exact := new(big.Float).SetPrec(400).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		want, _ := exact.Add(exact, big.NewFloat(float64(c))).Float32()
		if got := fma32(a, b, c); got != want {
			t.Fatalf("%v*%v+%v is %v, want %v", a, b, c, got, want)
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
