package threshold

import "math"

// Smoothing is the number of a series' last scores whose mean is judged in place of the last one; 0 and
// 1 mean no smoothing. A state is a flat []uint64 that starts all zero: the number of its scores, the
// place of the next one, and a ring of them as float32s.
type Smoothing int

// MaxSmoothing is the largest Smoothing.
const MaxSmoothing = 4096

const smoothHead = 2

// Size returns the length of a state; 0 where nothing is smoothed.
func (s Smoothing) Size() int {
	if s < 2 {
		return 0
	}
	return smoothHead + int(s)
}

// Add adds a score to a state and returns the mean of the last n, summed from the oldest to the
// newest in float64. It returns NaN while there are fewer: a mean of few scatters more than those that follow,
// and would be the highest of a history. A score of NaN is left out, and gives NaN; infinite scores are
// taken as the largest finite ones.
func (s Smoothing) Add(state []uint64, score float32) float32 {
	if s < 2 || score != score {
		return score
	}
	score = max(-math.MaxFloat32, min(math.MaxFloat32, score))
	ring, next := state[smoothHead:smoothHead+int(s)], int(state[1])
	ring[next] = uint64(math.Float32bits(score))
	if next++; next == int(s) {
		next = 0
	}
	state[0], state[1] = min(state[0]+1, uint64(s)), uint64(next)
	if state[0] < uint64(s) {
		return float32(math.NaN())
	}
	sum := 0.0
	for _, part := range [2][]uint64{ring[next:], ring[:next]} {
		for _, w := range part {
			sum += float64(math.Float32frombits(uint32(w)))
		}
	}
	return float32(sum / float64(s))
}

// Left returns how many scores must be added to a state before there is a mean; nil is a state without any.
func (s Smoothing) Left(state []uint64) int {
	if s < 2 || len(state) == 0 {
		return max(1, int(s))
	}
	return int(s) - int(state[0])
}

// Valid reports whether Add can continue with a stored state.
func (s Smoothing) Valid(state []uint64) bool {
	if len(state) != s.Size() {
		return false
	}
	if len(state) == 0 {
		return true
	}
	if state[0] > uint64(s) || state[1] >= uint64(s) || state[0] < uint64(s) && state[1] != state[0] {
		return false
	}
	for _, w := range state[smoothHead:] {
		if f := math.Float32frombits(uint32(w)); w > math.MaxUint32 || f-f != 0 {
			return false
		}
	}
	return true
}
