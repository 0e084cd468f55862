package quality

import (
	"cmp"
	"math"
	"slices"
)

// volumeThresholds is the number of thresholds of a curve, as TSB-AD has it.
const volumeThresholds = 250

// VolumePR returns the volume under the surface of precision, recall and buffer (VUS-PR,
// Paparrizos et al., PVLDB 2022), as package vus 0.0.6 and TSB-AD compute it: the mean, over
// buffers of 0 to most samples, of the area under the curve of precision and recall with
// labels that go beyond each anomaly by half a buffer, falling from 1 as
// sqrt(1 - distance/buffer). A recall counts only the share of the anomalies that have a
// detected sample. ok is false unless there are samples of both kinds.
func VolumePR(scores []float64, labels []bool, most int) (volume float64, ok bool) {
	n := len(scores)
	runs := Runs(labels)
	positives := 0
	for _, r := range runs {
		positives += r.To - r.From + 1
	}
	if positives == 0 || positives == n {
		return 0, false
	}
	sorted := slices.SortedFunc(slices.Values(scores), func(a, b float64) int { return cmp.Compare(b, a) })
	var thresholds, predicted [volumeThresholds]float64
	step := float64(n-1) / (volumeThresholds - 1)
	for k := range thresholds {
		i := int(float64(k) * step)
		if k == volumeThresholds-1 {
			i = n - 1
		}
		thresholds[k] = sorted[i]
		above, _ := slices.BinarySearchFunc(sorted, sorted[i], func(s, t float64) int {
			if s >= t {
				return -1
			}
			return 1
		})
		predicted[k] = float64(above)
	}
	// first is the first threshold by which a sample is detected.
	first := make([]int, n)
	for i, s := range scores {
		first[i], _ = slices.BinarySearchFunc(thresholds[:], s, func(t, s float64) int {
			if t > s {
				return -1
			}
			return 1
		})
	}
	extended := make([]float64, n)
	for buffer := range most + 1 {
		volume += areaPR(runs, first, extended, predicted[:], positives, buffer)
	}
	return volume / float64(most+1), true
}

// areaPR returns the area under the curve with one buffer. extended is scratch of zeros and is
// left so.
func areaPR(runs []Span, first []int, extended, predicted []float64, positives, buffer int) float64 {
	n := len(first)
	half := buffer / 2
	for _, r := range runs {
		for d := 1; d <= half; d++ {
			w := math.Sqrt(1 - float64(d)/float64(buffer))
			if i := r.To + d; i < n {
				extended[i] += w
			}
			if i := r.From - d; i >= 0 {
				extended[i] += w
			}
		}
	}
	// By threshold: how many anomalies, labels inside and labels in buffers it is the first to
	// detect.
	var found, inside, beside [volumeThresholds]float64
	zones := 0
	for i := 0; i < len(runs); {
		zone := Span{max(runs[i].From-half, 0), min(runs[i].To+half, n-1)}
		for i++; i < len(runs) && runs[i].From-half <= zone.To; i++ {
			zone.To = min(runs[i].To+half, n-1)
		}
		zones++
		soonest := volumeThresholds
		for at := zone.From; at <= zone.To; at++ {
			k := first[at]
			soonest = min(soonest, k)
			beside[k] += min(extended[at], 1)
		}
		found[soonest]++
	}
	for _, r := range runs {
		for at := r.From; at <= r.To; at++ {
			// What buffers of neighbours add to a labelled sample does not count.
			beside[first[at]] -= min(extended[at], 1)
			inside[first[at]]++
		}
	}
	for _, r := range runs {
		clear(extended[max(r.From-half, 0):min(r.To+half+1, n)])
	}
	area, before := 0.0, 0.0
	exist, in, by := 0.0, 0.0, 0.0
	for k, all := range predicted {
		exist, in, by = exist+found[k], in+inside[k], by+beside[k]
		recall := min((in+by)/((float64(2*positives)+by)/2), 1) * exist / float64(zones)
		area += (recall - before) * (in + by) / all
		before = recall
	}
	return area
}

// Period returns the buffer that TSB-AD gives a series (find_length): the lag, of 3 to 400 samples,
// with the highest local maximum of the autocorrelation of the first 20,000 values of its
// first field; 125 where there is none of 6 to 303.
func (s *Series) Period() int {
	if s.period > 0 {
		return s.period
	}
	const none, shortest, lags, most = 125, 3, 400, 20000
	n := min(s.Len(), most)
	x := make([]float64, n)
	sum, count := 0.0, 0
	for i := range x {
		if x[i] = s.Values[i*s.Dim]; x[i] == x[i] {
			sum += x[i]
			count++
		}
	}
	for i := range x {
		if x[i] -= sum / float64(count); x[i] != x[i] {
			x[i] = 0
		}
	}
	var r []float64
	for lag := shortest; lag <= min(lags, n-1); lag++ {
		c := 0.0
		for i := range n - lag {
			c += x[i] * x[i+lag]
		}
		r = append(r, c)
	}
	best := -1
	for i := 1; i+1 < len(r); i++ {
		if r[i] > r[i-1] && r[i] > r[i+1] && (best < 0 || r[i] > r[best]) {
			best = i
		}
	}
	if best < shortest || best > 300 {
		return none
	}
	return best + shortest
}
