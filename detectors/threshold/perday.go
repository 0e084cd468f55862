package threshold

import "math"

// A PerDay threshold is a conformal one whose rate follows the series: alarms a day over scores a
// day, by the mean distance in event time between the scores that were judged. The mean is over all of
// them at first, and later an exponential one over about History scores. A distance counts as ten times the mean at
// most, so that a gap of days in a series of a score a minute makes alarms no more frequent after it.
//
// The rate is at least what the history supports: with h scores, a tenth of 1/(h+1). A series with more
// than 10*(h+1) scores for each requested alarm has alarms at that rate. The rate is at most 1/2.

// day is a day in microseconds.
const day = 86400e6

// The limits of a number of alarms a day.
const (
	minPerDay = 1e-3
	maxPerDay = 1e9
)

// The numbers of a PerDay threshold in the place of the mean and the bound of other thresholds: the mean distance
// in microseconds, 0 while unknown, and the time of the last score in digits.
const (
	atGap  = atMean
	atTime = atMeanRest // three digits, the lowest first
)

// mostGap is the largest distance in units of the mean one.
const mostGap = 10

// pass updates the mean distance for a score at a time in microseconds.
func (p *Params) pass(state []float32, count int, time int64) {
	digits := state[atTime:atFaults]
	last := int64(0)
	for i := len(digits) - 1; i >= 0; i-- {
		last = last<<20 | int64(digits[i])
	}
	if last != 0 { // a state of another threshold has no time, and begins again
		d := float64(max(0, (time-last)<<4>>4)) // of times modulo 2^60
		mean := float64(state[atGap])
		if mean > 0 {
			d = min(d, mostGap*mean)
			d = mean + (d-mean)/float64(max(1, min(count, p.History)))
		}
		state[atGap] = float32(min(d, math.MaxInt64))
	}
	for i := range digits {
		digits[i] = float32(time >> (20 * i) & (digit - 1))
	}
}

// rate returns the false-alarm rate of a score, given n scores of a history; 0 for none yet.
func (p *Params) rate(state []float32, n int) float64 {
	if p.Kind != PerDay {
		return p.Value
	}
	gap := float64(state[atGap])
	if gap == 0 {
		return 0
	}
	least := supported / float64(n+1)
	for !supports(n, least) {
		least = math.Nextafter(least, 1)
	}
	return max(least, min(maxRate, p.Value*gap/day))
}
