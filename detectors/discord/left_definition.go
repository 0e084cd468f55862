package discord

import "math"

// LeftQuery describes a search for the left neighbours of one subsequence: those that end before it begins.
type LeftQuery struct {
	M    int // length, in rows
	K    int // neighbours
	From int // first row that a neighbour may begin with
	At   int // first row of the subsequence
	// ExcludeFlat compares flat subsequences with each other alone.
	ExcludeFlat bool
}

// Define returns the score of an online discord: the distance of a subsequence to its
// nearest neighbours in the past, in float64. x has dim values a row.
//
// Two subsequences of length m have the dissimilarity d*d/(2m) = 1-rho, d being their
// z-normalised Euclidean distance and rho their correlation (population deviations):
// equations (6), (11) and (12) of PALMAD, where it is what makes lengths comparable. It is
// between 0 and 2. Of rows of several values it is the mean of the columns'. A
// subsequence is flat where all its values are equal: two flat ones have rho 1, a flat
// one and another have rho 0, or are not compared with ExcludeFlat. One with a NaN or an
// infinity, or with a variance out of the range of float64, has no distance to any.
//
// The nearest neighbour is the least dissimilar subsequence that begins at a row from
// From to At-M. The next is the least dissimilar of those that do not overlap it, and so
// on, K of them or as many as there are. Correlations that are the same in float32
// count as ties for the place of a neighbour, which is then the earliest one's, so that
// roundings do not decide which neighbours are left. The score is the mean of the roots
// of their dissimilarities: with K=1 it is d/sqrt(2m). It is NaN where the subsequence
// has no neighbour.
func (q LeftQuery) Define(x []float64, dim int) float64 {
	score, _ := q.define(x, dim)
	return score
}

func (q LeftQuery) define(x []float64, dim int) (score float64, places []int) {
	n := q.At - q.M - q.From + 1
	if n < 1 {
		return math.NaN(), nil
	}
	apart := make([]float64, n) // dissimilarities; NaN: none, or overlaps a neighbour
	for i := range apart {
		for c := range dim {
			apart[i] += dissimilarity(x, dim, c, q.From+i, q.At, q.M, q.ExcludeFlat)
		}
		apart[i] /= float64(dim)
	}
	sum := 0.0
	for len(places) < q.K {
		least := math.Inf(1)
		for _, d := range apart {
			if d < least {
				least = d
			}
		}
		if math.IsInf(least, 1) {
			break
		}
		place := 0
		for float32(1-apart[place]) != float32(1-least) {
			place++
		}
		places = append(places, q.From+place)
		sum += math.Sqrt(least)
		for i := max(0, place-q.M+1); i < min(n, place+q.M); i++ {
			apart[i] = math.NaN()
		}
	}
	return sum / float64(len(places)), places
}

// dissimilarity returns the dissimilarity of column c of the subsequences that begin at rows a and b.
func dissimilarity(x []float64, dim, c, a, b, m int, excludeFlat bool) float64 {
	meanA, sigmaA, flatA := moments(x, dim, c, a, m)
	meanB, sigmaB, flatB := moments(x, dim, c, b, m)
	switch {
	case !(sigmaA < math.Inf(1)) || !(sigmaB < math.Inf(1)):
		return math.NaN()
	case flatA && flatB:
		return 0
	case flatA || flatB:
		if excludeFlat {
			return math.NaN()
		}
		return 1
	case sigmaA == 0 || sigmaB == 0:
		return math.NaN()
	}
	sum := 0.0
	for k := range m {
		e := (x[(a+k)*dim+c]-x[a*dim+c]-meanA)/sigmaA - (x[(b+k)*dim+c]-x[b*dim+c]-meanB)/sigmaB
		sum += float64(e * e)
	}
	return sum / float64(2*m)
}

// moments returns the mean, less the first value, and the population deviation of m values of
// column c, NaN with a value that is not finite, and whether all are equal.
func moments(x []float64, dim, c, from, m int) (mean, sigma float64, flat bool) {
	first := x[from*dim+c]
	flat = true
	for k := range m {
		v := x[(from+k)*dim+c]
		mean += (v - first) / float64(m)
		flat = flat && v == first
	}
	if flat {
		return 0, first - first, true // NaN of an infinity
	}
	square := 0.0
	for k := range m {
		e := x[(from+k)*dim+c] - first - mean
		square += float64(e * e)
	}
	return mean, math.Sqrt(square / float64(m)), false
}
