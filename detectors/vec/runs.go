package vec

import "math"

// RunLines is the number of lines that MaxRuns takes at a time.
const RunLines = 24

// MaxRuns sets most[k] to the largest sum, over any run of neighbouring i, of
// (c[i]-c0[i]) - slope[k]*(b[i]-b0[i]): Kadane's algorithm, for each slope. Without any i it
// is -Inf. Without NaN.
func MaxRuns(most, slope *[RunLines]float64, c, c0, b, b0 []float64) {
	same(len(c), len(c0))
	same(len(c), len(b))
	same(len(c), len(b0))
	if hasAVX2 && len(c) > 0 {
		maxRunsAVX2(&most[0], &slope[0], &c[0], &c0[0], &b[0], &b0[0], len(c))
		return
	}
	maxRunsGo(most, slope, c, c0, b, b0)
}

func maxRunsGo(most, slope *[RunLines]float64, c, c0, b, b0 []float64) {
	for k, a := range slope {
		run, largest := 0.0, math.Inf(-1)
		for i, v := range c {
			run += v - c0[i] - a*(b[i]-b0[i])
			if run > largest {
				largest = run
			}
			if run < 0 {
				run = 0
			}
		}
		most[k] = largest
	}
}
