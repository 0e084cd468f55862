package discord

// Normalised returns a distance that is comparable between lengths: d^2/(2m) of the mean d of
// the distances to k neighbours, which is 1 less their correlation, and so from 0 to 2
// (Zymbler and Kraeva 2023, equations 11 and 12; which state that it is at most 1).
func Normalised(distance float64, m, k int) float64 {
	d := distance / float64(max(1, k))
	return d * d / (2 * float64(m))
}
