package ops

import (
	"math"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/sst"
)

// opsKrylov is the dimension of the Krylov space for rank sstRank.
const opsKrylov = 5

// floors are the least known work of a task of each op, by its shape. A shape of another
// op has its input alone.
var floors = map[detectors.Op]func(s *detectors.Shape) work{
	sst.OpIKA: func(s *detectors.Shape) work { return sstWork(s.Values.Int(detectors.WindowParam), s.Fresh) },
	sst.OpSVD: func(s *detectors.Shape) work {
		return svdWork(s.Values.Int(detectors.WindowParam), s.Values.Int("RANK"), s.Fresh)
	},
	lof.Op: func(s *detectors.Shape) work {
		return lofWork(s.Values.Int(detectors.WindowParam), s.Dim, s.Values.Int("K"), s.Fresh == 1)
	},
	knn.Op: func(s *detectors.Shape) work {
		if s.Reference > 0 {
			return work{"one pass over the set for each point", float64(s.Fresh) * float64(s.Reference) * float64(s.Dim*s.Values.Int("EMBED")+2)}
		}
		return knnWork(s.Values.Int(detectors.WindowParam), s.Dim, s.Values.Int("K"), s.Fresh == 1)
	},
	discord.Op: func(s *detectors.Shape) work {
		every := s.Values.Int("EVERY")
		return discordWork(s.Values.Int(detectors.WindowParam), s.Values.Int("MAX_LENGTH"), s.Values.Int("LENGTHS"), (s.Fresh-1)/every+1, every)
	},
	discord.OpTop: func(s *detectors.Shape) work {
		n, least, most := s.Values.Int(detectors.WindowParam), s.Values.Int("MIN_LENGTH"), s.Values.Int("MAX_LENGTH")
		if s.Fresh < n {
			most = least // further lengths add next to nothing
		}
		return pairWork(n, least, most, 1)
	},
}

// work is the cost of an algorithm: float32 instructions of one lane, a fused
// multiply-add being one.
type work struct {
	by  string
	ops float64
}

// least returns the work of the cheapest algorithm. A floor is the work of the cheapest known one, not of the
// kernel's: a kernel may reach 80 % of its own algorithm's arithmetic and take ten times as long as another
// algorithm.
func least(algorithms ...work) work {
	best := algorithms[0]
	for _, w := range algorithms[1:] {
		if w.ops < best.ops {
			best = w
		}
	}
	return best
}

// hankelFFT returns the work of a product of a w x w Hankel matrix, whose transform is there, with a
// vector: two real split-radix transforms of 2w points (Sorensen et al. 1987) and a
// product of their w complex values.
func hankelFFT(w float64) float64 {
	n := 2 * w
	return 2*(2*n*math.Log2(n)-4*n+6) + 6*w
}

// sstWork returns the work of IKA-SST: each power or Krylov step is a product with C = H H'.
func sstWork(w, fresh int) work {
	n, f := float64(w), float64(fresh)
	const steps = sstSteps + opsKrylov
	// C of consecutive scores is a sliding part of one symmetric matrix, made along its diagonals by two instructions an element.
	c := f*steps*n*n + 2*(n+f-1)*(n+f-1) // two matrices, half of each
	return least(
		work{"direct products with H", f * 2 * steps * n * n},
		work{"direct products with C", c},
		work{"products with H by FFT", f * (2*steps*hankelFFT(n) + hankelFFT(n))},
	)
}

// discordWork returns the work of left discords in float64, at half the rate of float32: products of the first scored row with all
// subsequences of the longest length, of which the products of the shorter ones are parts; for each further scored row as many, or steps of
// the recurrence where these are fewer; and means, deviations and correlations of each length.
func discordWork(window, longest, lengths, scores, every int) work {
	n := float64(window - 2*longest + 1)
	further := float64((scores - 1) * min(longest, 2*every*lengths))
	return work{"one row of products, a recurrence for the others", 2 * n * (float64(longest) + further + float64(lengths*(4+2*scores)))}
}

// svdWork is the work of SVD-SST: Lanczos on H with 40+2r steps for the past and 24 for the current, as noise of w=320
// needs, each step orthogonalised against the earlier ones.
func svdWork(w, rank, fresh int) work {
	n := float64(w)
	cost := func(product float64) float64 {
		steps := func(k float64) float64 {
			k = min(k, n)
			return k*product + k*k*n
		}
		return float64(fresh) * (steps(40+2*float64(rank)) + steps(24))
	}
	return least(work{"Lanczos, direct products", cost(n * n)}, work{"Lanczos, products by FFT", cost(hankelFFT(n))})
}

// kdVisits are the distances that a kd-tree's search of one point computes among n
// standard normal points of the given dimension: scikit-learn's KDTree.get_n_calls, with
// the leaf size of 4 to 64 that gives the fewest.
var kdVisits = map[[3]int]float64{
	{1024, 8, 20}: 642, {4096, 8, 20}: 1198, {16384, 8, 20}: 1861, {1000000, 2, 50}: 122, {1600000, 3, 50}: 205, {581012, 10, 50}: 17367,
}

// searchWork is the work of finding the k nearest of each of n points, with two instructions a pair for the selection.
func searchWork(n, dim, k int) work {
	points, d := float64(n), float64(dim)
	all := []work{
		{"one pass over all pairs", points * points * (d + 2)},
		{"the distance of each pair once", points * points * (d/2 + 2)},
	}
	if visits, ok := kdVisits[[3]int{n, dim, k}]; ok {
		all = append(all, work{"kd-tree", points * visits * (d + 2)})
	}
	return least(all...)
}

// sortedWork is the work of finding the k nearest of each of n points of one coordinate: a sort, then a difference and
// an addition for each neighbour, which are adjacent.
func sortedWork(n, k int) work {
	points := float64(n)
	return work{"sorted points", points * (math.Log2(points) + 2*float64(k))}
}

// knnWork returns the work of the weights of all points, or with one of a single fresh point.
func knnWork(n, dim, k int, one bool) work {
	switch {
	case one && dim == 1:
		return work{"a search in sorted points", math.Log2(float64(n)) + 2*float64(k)}
	case one:
		return work{"one pass", float64(n) * float64(dim+2)}
	case dim == 1:
		return sortedWork(n, k)
	}
	return searchWork(n, dim, k)
}

// lofWork returns the work of the local outlier factors of all points, or with one of a single fresh point by incremental
// LOF (Pokrajac et al. 2007), which stores the neighbours: one pass for the new point and one for each of about k
// points that lose a neighbour.
func lofWork(n, dim, k int, one bool) work {
	switch {
	case dim == 1 && one:
		return work{"incremental LOF of sorted points", float64(1+k) * 2 * float64(k)}
	case dim == 1:
		return sortedWork(n, 2*k)
	case one:
		return work{"incremental LOF, 1+k passes", float64(1+k) * float64(n) * float64(dim+2)}
	}
	return searchWork(n, dim, k)
}

// pairWork returns the work of all pairs of subsequences: two multiplications and additions and a product a pair, in
// float64, at half the rate of float32.
func pairWork(n, least, most, step int) work {
	pairs := 0.0
	for m := least; m <= most; m += step {
		left := float64(n - 2*m + 1)
		pairs += left * (left + 1) / 2
	}
	return work{"all pairs along diagonals, float64", 6 * pairs}
}
