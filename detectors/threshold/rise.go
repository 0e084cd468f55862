package threshold

import "math"

// A bound follows the scores of its series. Where it rises to many times what it was, the detector misses faults that it found before.
// Risen reports it once: with the first score whose threshold is at least ten times the lowest one of the present history's scores. It
// reports again a threshold of ten times the one that it reported and, once the threshold has been below a third of that one, ten times
// the lowest one since then.
//
// The lowest threshold is the lowest for the scores since the ring last began anew and of the ring before: of one to two histories.
// Thresholds that are infinite or not above 0 have no multiples, and are left out.
//
// A threshold changes nothing if it is at or above one number of the state, and below another one, as nearly all are. These numbers are
// the lowest threshold since the ring began anew (the largest number before the first), and ten times the lowest one of both rings.
// After a rise they are a third of the risen threshold and ten times it: the second is then 30 times the first, otherwise at most 10
// times.

const (
	rises = 10
	falls = 3
)

// Risen returns from which threshold the last judgement's has risen tenfold; 0: it has not. Save gave saved before the judgement.
func Risen(saved, state []float32) (from float32) {
	if was, is := saved[atHigh], state[atHigh]; is > was && was > 0 && wasRisen(state[atLow], is) {
		return was / rises
	}
	return 0
}

// judged takes a threshold that is not where nothing changes.
func judged(state []float32, t float32) {
	if !(t > 0 && t <= math.MaxFloat32) {
		return
	}
	low, high := &state[atLow], &state[atHigh]
	switch {
	case t >= *high && *high > 0:
		*low, *high = t/falls, min(math.MaxFloat32, rises*t)
	case *high == 0 || wasRisen(*low, *high): // nothing is known, or it begins again
		*low, *high = t, min(math.MaxFloat32, rises*t)
	default:
		*low, *high = min(*low, t), min(*high, rises*t)
	}
}

// wasRisen reports whether Risen has reported a threshold that has not been below a third of it since.
func wasRisen(low, high float32) bool { return high > 2*rises*low }

// turned notes that the ring begins anew: the lowest threshold is that since the time before.
func turned(state []float32) {
	low, high := state[atLow], state[atHigh]
	if wasRisen(low, high) || low == math.MaxFloat32 {
		return
	}
	state[atLow], state[atHigh] = math.MaxFloat32, min(math.MaxFloat32, rises*low)
}
