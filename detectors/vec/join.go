package vec

import "math"

// JoinLanes is the number of neighbouring diagonals of a self-join that Join and
// Covariances take at a time.
const JoinLanes = 16

// Covariances sets cov[l] to the sum over k of a[k]*(x[l+k]-mean[l]): the covariances, times
// their length, of a subsequence whose deviations are a with JoinLanes successive ones. x
// has len(a)+JoinLanes-1 numbers at least, mean JoinLanes.
func Covariances(cov *[JoinLanes]float64, a, x, mean []float64) {
	if len(mean) < JoinLanes || len(x) < len(a)+JoinLanes-1 {
		panic("vec: too few numbers")
	}
	if hasAVX2 && len(a) > 0 {
		covariancesAVX2(&cov[0], &a[0], &x[0], &mean[0], len(a))
		return
	}
	covariancesGo(cov, a, x, mean)
}

// Join walks along JoinLanes neighbouring diagonals of a self-join. cov has the covariances
// of the subsequence before i with those before j to j+JoinLanes-1. For each row, i and j
// alike one further, up to i = end-1, it adds df[i]*dg[j+l]+dg[i]*df[j+l] to cov[l], and
// takes the correlations rho[l] = cov[l]*inv[i]*inv[j+l]. It ends, and returns i, with the
// first row that has some rho[l] of at least row[i] or at least column[j+l]; without one it
// returns end. A NaN reaches no limit.
func Join(cov, rho *[JoinLanes]float64, df, dg, inv, row, column []float64, i, j, end int) int {
	if i >= end {
		return end
	}
	n := end + max(0, j-i+JoinLanes-1)
	if i < 0 || j < 0 || len(df) < n || len(dg) < n || len(inv) < n || len(row) < end || len(column) < j-i+end+JoinLanes-1 {
		panic("vec: too few numbers")
	}
	if hasAVX2 {
		return joinAVX2(&cov[0], &rho[0], &df[0], &dg[0], &inv[0], &row[0], &column[0], i, j, end)
	}
	return joinGo(cov, rho, df, dg, inv, row, column, i, j, end)
}

func covariancesGo(cov *[JoinLanes]float64, a, x, mean []float64) {
	*cov = [JoinLanes]float64{}
	for k, v := range a {
		for l, w := range x[k : k+JoinLanes] {
			cov[l] = math.FMA(v, w-mean[l], cov[l])
		}
	}
}

func joinGo(cov, rho *[JoinLanes]float64, df, dg, inv, row, column []float64, i, j, end int) int {
	for ; i < end; i, j = i+1, j+1 {
		found := false
		for l := range cov {
			c := math.FMA(df[i], dg[j+l], cov[l])
			cov[l] = math.FMA(dg[i], df[j+l], c)
			rho[l] = float64(cov[l]*inv[i]) * inv[j+l]
			found = found || rho[l] >= row[i] || rho[l] >= column[j+l]
		}
		if found {
			return i
		}
	}
	return end
}
