package detectors

import "odradek/detectors/vec"

// Narrow packs values that are float64 by their bits as float32, centred:
// dst[i] = x[i]-center, a difference in float64. The lengths are equal.
func Narrow(dst []float32, x []uint64, center float64) { vec.Narrow(dst, x, center) }
