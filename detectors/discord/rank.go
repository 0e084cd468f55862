package discord

import "slices"

// Normalised returns a distance that is comparable between lengths: d^2/(2m) of the mean d of
// the distances to k neighbours, which is 1 less their correlation, and so from 0 to 2
// (Zymbler and Kraeva 2023, equations 11 and 12; which state that it is at most 1).
func Normalised(distance float64, m, k int) float64 {
	d := distance / float64(max(1, k))
	return d * d / (2 * float64(m))
}

// Rank returns discords of several lengths, of distances to k neighbours, by their
// normalised distances, the largest first; equal ones by place, then by length (equation
// 12 of Zymbler and Kraeva 2023).
func Rank(found [][]Discord, k int) []Discord {
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b Discord) int {
		switch x, y := Normalised(a.Distance, a.Length, k), Normalised(b.Distance, b.Length, k); {
		case x > y:
			return -1
		case x < y:
			return 1
		case a.At != b.At:
			return a.At - b.At
		}
		return a.Length - b.Length
	})
	return all
}

// Vote returns the discord with the most votes, and their total weight; ok is false without
// any discord. A length votes for its first discord, and for those of other lengths whose
// middle is at most half of the shorter length from its middle. The weight of its vote is
// how far the first discord exceeds the second: the ratio of their distances,
// less 1. So a length whose first two are similar, because they come from noise or from the
// shape of a period, hardly counts. All votes weigh 1 where some length has only one
// discord, and of equal totals that of the least length wins.
//
// The vote finds more anomalies than Rank, which prefers the lengths at which noise makes
// subsequences unlike each other, and than votes of equal weight.
func Vote(found [][]Discord) (best Discord, weight float64, ok bool) {
	equal := slices.ContainsFunc(found, func(of []Discord) bool { return len(of) == 1 })
	middle := func(d Discord) int { return 2*d.At + d.Length } // twice
	for _, candidates := range found {
		if len(candidates) == 0 {
			continue
		}
		c, sum := candidates[0], 0.0
		for _, of := range found {
			if len(of) == 0 {
				continue
			}
			if apart := middle(c) - middle(of[0]); max(apart, -apart) > min(c.Length, of[0].Length) {
				continue
			}
			vote := 1.0
			if !equal {
				vote = outstanding(of[0], of[1])
			}
			sum += vote
		}
		if !ok || sum > weight {
			best, weight, ok = c, sum, true
		}
	}
	return best, weight, ok
}

// outstanding returns how far a discord exceeds the next one of its length: the
// ratio of their distances less 1, at most 1000.
func outstanding(first, second Discord) float64 {
	if first.Distance == 0 { // both occur twice
		return 0
	}
	return min(1000, first.Distance/second.Distance-1)
}
