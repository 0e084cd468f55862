package discord

import "math"

// refineOneIn limits the range discords that are searched one by one to one in this many subsequences.
const refineOneIn = 8

// ranges finds the range discords: subsequences whose distance is at least r. A range
// discord gets its distance; any other candidate keeps a bound below r. It returns false,
// and does nothing, where there are more than `most` candidates.
//
// This is DRAG (Yankov et al. 2007) in the order of PD3 (Zymbler and Kraeva 2023): runs of
// candidates are compared with the subsequences to their right and to their left, the
// nearest in time first, and a run ends once it has no candidate left. A distance is compared
// with r; correlations with 1-r^2/(2m).
func (s *search) ranges(r float64, most int) bool {
	candidates := 0
	for i := s.from; i < s.series.starts-lanes; i++ {
		if !s.exact[i] && s.d[i] >= r {
			s.borrow(i)
			if s.d[i] >= r {
				candidates++
			}
		}
	}
	if candidates > most {
		return false
	}
	type run struct{ from, to int }
	const gap, longest = 16, 128
	var runs []run
	for i := s.from; i < s.series.starts-lanes; i++ {
		if s.exact[i] || !(s.d[i] >= r) {
			continue
		}
		if n := len(runs); n > 0 && i-runs[n-1].to < gap && i-runs[n-1].from < longest {
			runs[n-1].to = i + 1
		} else {
			runs = append(runs, run{i, i + 1})
		}
	}
	s.parallel(len(runs), func(k int) { s.refine(runs[k].from, runs[k].to, r) })
	return true
}

// ranged returns the range discords in the order of their places.
func (s *search) ranged(r float64) []Discord {
	least := r - slack*math.Abs(r)
	if !s.ranges(least-slack*math.Abs(r), s.series.starts/refineOneIn) {
		s.findAll(false)
	}
	var found []Discord
	for i := s.from; i < s.series.starts-lanes; i++ {
		if s.d[i] >= least {
			found = append(found, Discord{At: i - lanes, Length: s.series.m, Distance: s.d[i], Nearest: int(s.near[i]) - lanes})
		}
	}
	return found
}

// borrow tries the neighbours of adjacent subsequences, shifted.
func (s *search) borrow(i int) {
	for _, side := range [2]int{-1, 1} {
		j := int(s.near[i+side])
		if j < 0 {
			continue
		}
		if j -= side; j < lanes || j >= s.series.starts-lanes || j > i-s.exclusion && j < i+s.exclusion || isBad(s.series.inv[j]) {
			continue
		}
		cov := s.covariance(i, j)
		if d := s.apart(cov * s.series.inv[i] * s.series.inv[j]); d < s.d[i] {
			s.near[i], s.cov[i], s.d[i] = int32(j), cov, d
		}
	}
}

// refine compares the candidates from one on with all others.
func (s *search) refine(from, to int, r float64) {
	enough := 1 - r*r/(2*float64(s.series.m)) // a larger correlation: it is no range discord
	left := 0
	at := make([]int32, to-from)
	first := from
	for i := from; i < to; i++ {
		at[i-first] = -1
		if s.limit[i] = math.Inf(1); !s.exact[i] && s.d[i] >= r {
			s.limit[i] = math.Inf(-1)
			left++
		}
	}
	dead := make([]bool, to-from)
	found := func(i, j int, rho []float64) {
		if math.IsInf(s.limit[i], 1) {
			return
		}
		for l, v := range rho {
			if v > s.limit[i] || v == s.limit[i] && int32(j+l) < at[i-first] {
				s.limit[i], at[i-first] = v, int32(j+l)
			}
		}
		if s.limit[i] > enough {
			s.d[i], s.near[i] = s.apart(s.limit[i]), at[i-first]
			s.limit[i], dead[i-first] = math.Inf(1), true
			left--
		}
	}
	var t strip
	last := s.series.starts - lanes
	start, end := from, to
	for k := s.exclusion; left > 0 && (start+k < last || end-k > lanes); k += lanes {
		s.series.walk(&t, start, start+k, min(end, last-k), s.limit, s.never, found)
		d := k + lanes - 1 // the diagonals from -d to -k
		if i := max(start, d+1); i < end {
			s.series.walk(&t, i, i-d, end, s.limit, s.never, found)
		}
		for start < end && math.IsInf(s.limit[start], 1) {
			start++
		}
		for start < end && math.IsInf(s.limit[end-1], 1) {
			end--
		}
	}
	for i := from; i < to; i++ {
		switch {
		case dead[i-first]:
			s.cov[i] = s.covariance(i, int(s.near[i]))
		case !math.IsInf(s.limit[i], 1):
			s.near[i] = at[i-first]
			s.measure(i)
		}
		s.limit[i] = math.Inf(1)
	}
}
