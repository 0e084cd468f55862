package vec

import "math"

// JoinLanes32 is the number of neighbouring diagonals that Join32 takes at a time.
const JoinLanes32 = 32

// Join32 does what [Join] does in float32, for JoinLanes32 diagonals.
func Join32(cov, rho *[JoinLanes32]float32, df, dg, inv, row, column []float32, i, j, end int) int {
	if i >= end {
		return end
	}
	n := end + max(0, j-i+JoinLanes32-1)
	if i < 0 || j < 0 || len(df) < n || len(dg) < n || len(inv) < n || len(row) < end || len(column) < j-i+end+JoinLanes32-1 {
		panic("vec: too few numbers")
	}
	if hasAVX2 {
		return join32AVX2(&cov[0], &rho[0], &df[0], &dg[0], &inv[0], &row[0], &column[0], i, j, end)
	}
	return join32Go(cov, rho, df, dg, inv, row, column, i, j, end)
}

// FastJoin32 reports whether Join32 is faster than Join, as its assembly is.
func FastJoin32() bool { return hasAVX2 }

func join32Go(cov, rho *[JoinLanes32]float32, df, dg, inv, row, column []float32, i, j, end int) int {
	for ; i < end; i, j = i+1, j+1 {
		found := false
		for l := range cov {
			c := fma32(df[i], dg[j+l], cov[l])
			cov[l] = fma32(dg[i], df[j+l], c)
			rho[l] = float32(cov[l]*inv[i]) * inv[j+l]
			found = found || rho[l] >= row[i] || rho[l] >= column[j+l]
		}
		if found {
			return i
		}
	}
	return end
}

// fma32 returns a*b+c with one rounding. The product is exact in float64; the sum is rounded
// to odd there, so that rounding it to float32 is as if it had not been rounded before.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	t := s - p
	e := (p - (s - t)) + (z - t)
	if e < 0 || e > 0 {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}
