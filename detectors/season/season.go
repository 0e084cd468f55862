// Package season expects of a sample what the samples of the same time of day, or of week,
// were: each bin of a cycle keeps their level, and the score of a sample is its deviation
// from the level of its bin in units of the series' usual deviation.
//
// # The method
//
// A bin of a period of local time (Clock) has a level m, and the series a spread s. A sample x of
// the bin has the residual r = x-m and the score |r|/u with the unit u = max(s, q/3), where q is the
// least distance other than 0 between successive samples so far, the sample included: a step as small
// as the values' resolution scores 3 at most, regardless of the series before. Then both learn,
//
//	m += g*clip(r, 3u)        s² += h*(clip(r, 3u)² - s²)
//
// with g = max(1/Memory, 1/k) for the k-th sample of the bin and h = max(1/(Memory*Bins), 1/j)
// for the j-th residual of the series: means, decayed once the memory is full, of residuals
// that are clipped as Huber's M-estimator of location does (Robust Estimation of a Location
// Parameter, 1964). One gross fault moves a level by 3 units/Memory at most. The first
// sample of a bin is its level and has no score. With Memory 1 and nothing clipped, the
// expected value is the seasonal naive forecast.
//
// # Degenerate input
//
//   - A bin without samples (a history shorter than the period, a gap) scores NaN and expects
//     NaN.
//   - The first residual of a series has no unit but itself, and scores 1 or 0.
//   - A value that is NaN, infinite or of 1e150 and more scores NaN, and nothing is learnt.
//   - A constant series scores 0. No score exceeds Largest.
package season

import (
	"errors"
	"fmt"
	"math"
)

const (
	clip     = 3     // units: the most that is learnt of a residual
	tooLarge = 1e150 // squares of differences of such values could overflow

	// Largest is the largest score.
	Largest = 1e6
	// MostBins is the largest number of bins of a period: a series' state is then 3 KB.
	MostBins = 255
)

// Params are the method's parameters.
type Params struct {
	Bins   int // of a period, 1 to MostBins
	Memory int // samples of a bin after which one has lost all but a third of its weight, at least 1
}

// Words of the state's header. Numbers of two words are float64.
const (
	wordResiduals = 0 // learnt, up to Memory*Bins
	wordBegun     = 1 // 1: there is a last sample
	wordLast      = 2 // the last sample
	wordStep      = 4 // the least step; 0: none yet
	wordSquare    = 6 // the square of the spread
	header        = 8
	binWords      = 3 // samples up to Memory, level
)

// Words returns the number of words of a series' state, all of them 0 at first: 1,184 bytes for
// 96 bins. Levels are float64, since levels of 1e9 with a spread of 0.001 have no digits for it in
// float32.
func (p *Params) Words() int { return header + binWords*p.Bins }

// Score has the measures of a sample.
type Score struct {
	Deviation float64 // |x - Expected| in units; NaN: unknown
	Expected  float64 // the level of the sample's bin before it; NaN: unknown
}

// Learnt returns the number of residuals that a state has learnt, up to Memory*Bins.
func Learnt(state []uint32) int { return int(state[wordResiduals]) }

// Step scores the sample x of a bin and learns it.
func Step(p *Params, state []uint32, bin int, x float64) Score {
	unknown := Score{math.NaN(), math.NaN()}
	if !(math.Abs(x) < tooLarge) {
		return unknown
	}
	step := float64Of(state[wordStep:])
	if d := math.Abs(x - float64Of(state[wordLast:])); state[wordBegun] != 0 && d > 0 && (step == 0 || d < step) {
		step = d
		putFloat64(state[wordStep:], d)
	}
	state[wordBegun] = 1
	putFloat64(state[wordLast:], x)
	b := state[header+binWords*bin:][:binWords]
	seen := int(b[0])
	b[0] = uint32(min(seen+1, p.Memory))
	if seen == 0 {
		putFloat64(b[1:], x)
		return unknown
	}
	level, square := float64Of(b[1:]), float64Of(state[wordSquare:])
	residual := x - level
	n := int(state[wordResiduals])
	if n == 0 {
		square = residual * residual
	}
	unit := max(math.Sqrt(square), step/3)
	sc := Score{Expected: level}
	if unit > 0 {
		sc.Deviation = min(Largest, math.Abs(residual)/unit)
	}
	learnt := max(-clip*unit, min(clip*unit, residual))
	n = min(n+1, p.Memory*p.Bins)
	state[wordResiduals] = uint32(n)
	putFloat64(state[wordSquare:], square+(learnt*learnt-square)/float64(n))
	putFloat64(b[1:], level+learnt/float64(min(seen+1, p.Memory)))
	return sc
}

func float64Of(w []uint32) float64 { return math.Float64frombits(uint64(w[0]) | uint64(w[1])<<32) }

func putFloat64(w []uint32, v float64) {
	b := math.Float64bits(v)
	w[0], w[1] = uint32(b), uint32(b>>32)
}

// Compare returns an error if two states differ by more than a relative error in their numbers.
func (p *Params) Compare(got, want []uint32, rel float64) error {
	at := func(word int, exact bool) error {
		g, w := float64(got[word]), float64(want[word])
		if !exact {
			g, w = float64Of(got[word:]), float64Of(want[word:])
		}
		if g == w || !exact && math.Abs(g-w) <= rel*math.Abs(w) {
			return nil
		}
		return fmt.Errorf("word %d of the state is %v, want %v", word, g, w)
	}
	faults := []error{at(wordResiduals, true), at(wordBegun, true), at(wordLast, false), at(wordStep, false), at(wordSquare, false)}
	for b := header; b < p.Words(); b += binWords {
		faults = append(faults, at(b, true), at(b+1, false))
	}
	return errors.Join(faults...)
}
