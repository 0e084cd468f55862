package discord

import "slices"

// Normalised is a distance that is comparable between lengths: d^2/(2m) of the mean d of
// the distances to k neighbours, which is 1 less their correlation, and so from 0 to 2
// (Zymbler and Kraeva 2023, equations 11 and 12; there it is said to be at most 1).
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

// Vote returns the discord that the most lengths agree on, and how many: those with a
// discord whose middle is at most half of the shorter's length from its own. Where as many
// agree on several, it is the one of the least length, and then of the least rank. ok is
// false without any discord. Lengths rank anomalies better so than by Rank, which prefers
// the lengths that noise makes unlike each other.
func Vote(found [][]Discord) (best Discord, votes int, ok bool) {
	middle := func(d Discord) int { return 2*d.At + d.Length } // twice
	for _, candidates := range found {
		for _, c := range candidates {
			agree := 0
			for _, of := range found {
				if slices.ContainsFunc(of, func(d Discord) bool {
					apart := middle(c) - middle(d)
					return max(apart, -apart) <= min(c.Length, d.Length)
				}) {
					agree++
				}
			}
			if agree > votes {
				best, votes, ok = c, agree, true
			}
		}
	}
	return best, votes, ok
}
