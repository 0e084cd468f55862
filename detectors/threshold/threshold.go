// Package threshold decides which scores of a key are too high, from the key's own
// history of scores.
//
// A score is judged against the history and then added to it. Of consecutive scores that exceed, only
// the first and then each Decluster-th is added: neighbouring scores that cover the same samples repeat
// one event, and would take the ranks of the next event. With none of them in the history, every sample
// after a change of level would be an anomaly forever: on NAB's dev streams knn falls from 60.6 to
// 39.9. With all of them in it, knn finds 13 of 29 changes of level 400 to 1,200 samples apart; with
// this it finds 29. So a key's state depends on the threshold that judged its scores.
//
// A key's state is a flat []float32 that starts all zero: the count of the
// scores added, the place in a run of those that exceed, a running mean, a ring of
// the last History scores, and the same scores sorted, or those parts of the sorted scores that the
// threshold looks at, so that a quantile, a median and a median deviation cost a look-up.
//
// All comparisons are strict: a score equal to the bound does not exceed, and ties
// with the history count as being at least as high. So a score that has just been
// seen History times is never an anomaly.
//
// The upper-tail rank of a score among n scores of the history is the conformal
// p-value (1 + number of them >= score) / (n + 1) (Vovk, Gammerman & Shafer 2005;
// for streams Burnaev & Ishimtsev 2016), which for exchangeable scores is at most a
// with probability at most a. It cannot go below 1/(n+1); above the highest score
// of the history the tail is extrapolated, see tail.go, with a margin and not further
// than by one decade.
package threshold

import (
	"fmt"
	"math"
)

// Kind is a method for the bound.
type Kind uint8

// The kinds.
const (
	Off       Kind = iota
	Fixed          // Value is the bound
	Mean           // Value times the mean of all scores added so far
	Quantile       // the Value-quantile of the history, times Margin, see floor.go
	MAD            // the median of the history plus Value scaled median absolute deviations
	Conformal      // Value is the false-alarm rate: a score with an upper-tail rank up to it exceeds
	PerDay         // Value is the number of false alarms a day of event time; see perday.go
)

// The defaults that New fills in.
const (
	DefaultHistory = 512
	DefaultWarmup  = 64
)

// Params are a kind with its parameters, the same for all keys of a detector. New returns one with the
// defaults.
type Params struct {
	Kind  Kind
	Value float64

	// Margin multiplies the bound of a Quantile, which alone would flag its share of
	// any stream; 0 means 1. The bound of a Conformal is at most about Margin spreads above the usual one, see ceiling.go; 0 means no
	// such limit. The other kinds ignore it.
	Margin float64

	History int // scores kept of a key, 32 to 65536
	// Span is the event time in microseconds over which these scores are spread, see span.go; 0: they
	// are the last ones
	Span   int64
	Warmup int // scores of a key before any can exceed

	// Decluster is the distance, in a run of consecutive scores that exceed, of the scores that are
	// added, beginning with the first; 0 and 1: all are added.
	Decluster int

	Bounded bool // scores lie in [0, 1]; see bounded.go
	Runs    bool // scores count samples; the scores of a run are added when it has ended, see runs.go; not with a Span

	// Late has the scores of an anomaly wait until it ends, see late.go; zero: they do not. Not with a Span or Runs.
	Late Late
}

// Judgement is the judgement of one score.
type Judgement struct {
	Threshold float32 // the bound when the score was judged; +Inf while warming up
	Exceeds   bool    // the score is above it
	Tail      float32 // upper-tail rank of the score in the history, in (0, 1]; 0: left out
	Severity  uint8   // 0 to 100, how far above, see severity.go; 0 if it does not exceed
}

// New returns a threshold with the default history, or a longer one that supports the rate,
// and the default warm-up (none for Fixed).
func New(k Kind, value float64) Params {
	r := Params{Kind: k, Value: value, History: DefaultHistory, Warmup: DefaultWarmup}
	if k == Conformal && value >= minRate {
		r.History = max(r.History, least(value))
	}
	if k == Fixed || k == Off {
		r.Warmup = 0
	}
	return r
}

// The limits of a threshold. Even the longest history supports no rate below minRate.
const (
	minHistory = fitLeast
	// MaxHistory is the longest history.
	MaxHistory = 1 << 16
	maxWarmup  = 1 << 20
	maxApart   = 1 << 16
	minRate    = 2e-6
	maxRate    = 0.5
)

// Check reports every fault of p.
func (p *Params) Check() error {
	v := p.Value
	switch p.Kind {
	case Off:
		return nil
	case Fixed:
		if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
			return fmt.Errorf("threshold: fixed bound %v is not a finite number", v)
		}
	case Mean:
		if !(v > 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("threshold: factor %v of the mean must be above 0", v)
		}
	case Quantile:
		if !(v > 0 && v < 1) {
			return fmt.Errorf("threshold: quantile %v must lie between 0 and 1", v)
		}
		if m := p.Margin; m != 0 && !(m > 0 && m <= math.MaxFloat32) {
			return fmt.Errorf("threshold: margin %v of the quantile must be above 0", m)
		}
	case MAD:
		if !(v > 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("threshold: %v median deviations must be above 0", v)
		}
	case Conformal:
		if m := p.Margin; m != 0 && !(m > 0 && m <= math.MaxFloat32) {
			return fmt.Errorf("threshold: margin %v of the rate must be above 0", m)
		}
		if !(v >= minRate && v <= maxRate) {
			return fmt.Errorf("threshold: false-alarm rate %v must be from %v to %v", v, minRate, maxRate)
		}
		if p.History >= minHistory && !supports(p.History, v) {
			return fmt.Errorf("threshold: a history of %d scores says nothing about a false-alarm rate of %v: use a history of at least %d, or a "+
				"rate of at least %.2g",
				p.History, v, least(v), math.Ceil(1e6*supported/float64(p.History+1))/1e6)
		}
	case PerDay:
		if !(v >= minPerDay && v <= maxPerDay) {
			return fmt.Errorf("threshold: %v alarms a day must be from %v to %v", v, minPerDay, maxPerDay)
		}
	default:
		return fmt.Errorf("threshold: unknown kind %d", p.Kind)
	}
	if p.History < minHistory || p.History > MaxHistory {
		return fmt.Errorf("threshold: history %d must be from %d to %d scores", p.History, minHistory, MaxHistory)
	}
	if err := p.checkSpan(); err != nil {
		return err
	}
	if p.Warmup < 0 || p.Warmup > maxWarmup {
		return fmt.Errorf("threshold: warm-up %d must be from 0 to %d scores", p.Warmup, maxWarmup)
	}
	if p.Decluster < 0 || p.Decluster > maxApart {
		return fmt.Errorf("threshold: distance %d of added scores must be from 0 to %d", p.Decluster, maxApart)
	}
	return p.checkLate()
}

// The layout of a state: head, ring (History), with a Span one number (see span.go), the scores in order: all, or parts (order.go);
// with Late the scores that wait.
const (
	atCount       = iota // scores added, modulo digit
	atCountHigh          // and by digit
	atRun                // scores that exceed since the last one added, itself included; 0: the last did not exceed
	atWaiting            // scores that wait, of a run until it ends, see runs.go, or of an anomaly, see late.go
	atLast               // the last one of a run; of an anomaly the number of ordinary ones at the end, see atCalm
	atMean               // mean of all that were added, opened, rounded to float32
	atMeanRest           // and its rounding error
	atBound              // bound of a rate, valid while the highest scores stay
	atBoundKnown         // 1: atBound is valid
	atFaults             // rows of clear faults, decayed over History scores, see ceiling.go
	atFaultScores        // and their scores
	atFaultRow           // scores after which the next clear fault begins another row; 0: it does
	atLow                // from here on up to atHigh a threshold has not risen, see rise.go
	atHigh               // 0: nothing is known
	head
)

// digit keeps both halves of the count exact in a float32.
const digit = 1 << 20

// Size returns the length of a key's state, which starts all zero; 0 for Off.
func (p *Params) Size() int {
	if p.Kind == Off {
		return 0
	}
	return p.Stored() + p.order() + p.late()
}

// Count returns how many scores were added to a state.
func Count(state []float32) int {
	if len(state) == 0 {
		return 0
	}
	return int(state[atCount]) + digit*int(state[atCountHigh])
}

// Left returns how many scores must be added to a state, at the least, before one is judged by a bound.
func (p *Params) Left(state []float32) int {
	n := p.Warmup
	switch p.Kind {
	case Mean, Quantile, MAD, PerDay:
		n = max(n, 1)
	case Conformal:
		n = max(n, min(least(p.Value), int(math.Ceil(1/p.Value))-1))
	}
	return max(0, n-Count(state))
}

// JudgeAt judges a score against the history in state and then adds it, unless
// Decluster leaves it out. time is the score's in microseconds. A NaN, which stands for a missing score,
// gives the zero Judgement and changes nothing; infinite scores are taken as the largest finite ones.
// Without ranked, a score that does not exceed gets no Tail, which may take a look at the whole history.
// It panics if state is not Size long.
func (p *Params) JudgeAt(state []float32, score float32, time int64, ranked bool) Judgement {
	if p.Kind == Off || score != score {
		return Judgement{}
	}
	h := p.History
	if n := p.Size(); len(state) != n {
		panic(fmt.Sprintf("threshold: state of %d numbers, want %d", len(state), n))
	}
	score = max(-math.MaxFloat32, min(math.MaxFloat32, score)) + 0 // no -0 either
	if n := p.ending(state, score); n > 0 {
		p.addRun(state, n)
	}
	count := int(state[atCount]) + digit*int(state[atCountHigh])
	n := min(count, h)
	ring := state[head : head+h]
	at := count % h
	if p.Kind == PerDay {
		p.pass(state, count, time)
	}
	s := p.scores(state, n)
	v, bound := p.judgement(state, &s, count, score, ranked)
	if v.Threshold < state[atLow] || v.Threshold >= state[atHigh] {
		judged(state, v.Threshold)
	}
	switch {
	case p.Late.Close > 0:
		var waits bool
		of := s // by their addresses s and v would not stay in registers
		if v, waits = p.wait(state, &of, v, score); waits {
			return v
		}
	case p.waits(state, score) || !p.adds(state, v.Exceeds) || p.Span > 0 && !p.opensSlot(state, count, time):
		return v
	}

	p.cacheBound(state, &s, ring[at], score, bound)
	if n < h {
		s.add(score)
	} else {
		s.exchange(ring[at], score)
	}
	ring[at] = score
	p.counted(state, count, at, score)
	return v
}

// counted counts a score that was added after count others, to a place in the ring.
func (p *Params) counted(state []float32, count, at int, score float32) {
	p.addMean(state, count, score)
	if at == p.History-1 {
		turned(state)
	}
	if state[atCount]++; state[atCount] == digit {
		state[atCount] = 0
		state[atCountHigh]++
	}
}

// Least returns a bound that the threshold of the next score is not below: of a rate that is extrapolated the highest score. Without a
// threshold yet it is infinite. It depends on the scores in the history alone, so it is the same before and after a restore; a state
// of another size, or nil, is empty.
func (p *Params) Least(state []float32) float32 {
	if len(state) != p.Size() {
		state = nil
	}
	count := 0
	if state != nil {
		count = int(state[atCount]) + digit*int(state[atCountHigh])
	}
	n := min(count, p.History)
	switch {
	case p.Kind == Off, count < p.Warmup, n == 0 && p.Kind != Fixed:
		return float32(math.Inf(1))
	case n == 0:
		return p.bound(nil, new(scores))
	}
	s := p.scores(state, n)
	most := float32(math.Inf(1))
	if p.isOpen(state) {
		most = lasting(&s)
	}
	if p.Kind == Conformal || p.Kind == PerDay {
		rate := p.rate(state, n)
		m := int(rate*float64(n+1)) - 1
		return min(s.at(n-1-max(0, min(n-1, m))), p.ceiling(state, &s, rate), most)
	}
	return min(p.bound(state, &s), most)
}

// adds reports whether a score is added, and updates the run. A threshold that adds all scores has no run.
func (p *Params) adds(state []float32, exceeds bool) bool {
	if !exceeds || p.Decluster < 2 {
		state[atRun] = 0
		return true
	}
	if run := state[atRun]; run > 0 && run < float32(p.Decluster) {
		state[atRun] = run + 1
		return false
	}
	state[atRun] = 1
	return true
}

// judgement judges a score. bound is the history's, without a ceiling.
func (p *Params) judgement(state []float32, s *scores, count int, score float32, ranked bool) (v Judgement, bound float32) {
	bound = float32(math.Inf(1))
	if v.Threshold = bound; count >= p.Warmup {
		bound = p.bound(state, s)
		rate := p.rate(state, s.n)
		ceiling := float32(math.Inf(1))
		if (p.Kind == Conformal || p.Kind == PerDay) && !p.isFar(s, max(bound, score)) {
			ceiling = p.ceiling(state, s, rate)
		}
		if p.ceiled() {
			p.countFaults(state, score > ceiling)
		}
		v.Threshold = min(bound, ceiling)
		if v.Exceeds = score > v.Threshold; v.Exceeds {
			v.Severity = p.severity(s, score, v.Threshold, rate)
		}
	}
	if ranked || v.Exceeds {
		v.Tail = p.tail(s, score)
	}
	return v, bound
}

// tail returns the rank of a score.
func (p *Params) tail(s *scores, score float32) float32 {
	n, below := s.n, s.below(score)
	rank := float32(float64(n-below+1) / float64(n+1))
	if below == n && n >= fitLeast {
		t := p.fit(s)
		return float32(max(leastTail, min(float64(rank), t.rank(p.open(score)))))
	}
	return rank
}

// bound returns the highest score that is still ordinary.
func (p *Params) bound(state []float32, s *scores) float32 {
	n := s.n
	if p.Kind == Fixed {
		return float32(p.Value)
	}
	if n == 0 {
		return float32(math.Inf(1))
	}
	var b float64
	switch p.Kind {
	case Mean:
		b = p.Value * (float64(state[atMean]) + float64(state[atMeanRest]))
	case Quantile:
		others := p.aboveFloor(s, p.Value)
		if others.n < n && others.n < fitLeast {
			return p.floor(s)
		}
		q := others.at(quantileIndex(p.Value, others.n))
		if p.Margin == 0 || p.Margin == 1 {
			return q
		}
		b = p.open(q) * p.Margin
	case MAD:
		m, scale := p.scale(s)
		b = m + p.Value*scale
	case Conformal, PerDay:
		rate := p.rate(state, n)
		m := int(rate*float64(n+1)) - 1 // at most this many scores may be as high
		if p.Kind == Conformal && state[atBoundKnown] == 1 && m < fitted(n) {
			return state[atBound]
		}
		if m >= 0 {
			return s.at(n - 1 - m)
		}
		if n < fitLeast || !supports(n, rate) {
			return float32(math.Inf(1))
		}
		t := p.fit(s)
		return max(s.at(n-1), p.close(t.bound(rate)))
	}
	return p.close(b)
}

// cacheBound stores the bound, which holds while neither the removed nor the added
// score is among the scores of the fit: seven times of eight.
func (p *Params) cacheBound(state []float32, s *scores, old, score, bound float32) {
	if p.Kind != Conformal {
		return
	}
	n := s.n
	state[atBoundKnown] = 0
	if n < p.History || math.IsInf(float64(bound), 1) {
		return
	}
	if s.bands != nil {
		if top := s.bands[ofTop:]; int(top[atLength]) > fitted(n) && old < top[atLowest] && score < top[atLowest] {
			state[atBound], state[atBoundKnown] = bound, 1
			return
		}
	}
	if u := s.at(n - fitted(n) - 1); old < u && score < u {
		state[atBound], state[atBoundKnown] = bound, 1
	}
}

// supports reports whether a history of n scores supports a false-alarm rate.
func supports(n int, rate float64) bool { return rate*float64(n+1) >= supported }

// least returns the shortest history that supports a rate.
func least(rate float64) int {
	n := max(minHistory, int(supported/rate)-1)
	for !supports(n, rate) {
		n++
	}
	return n
}

// Shows returns the shortest history whose own ranks reach down to a rate, so that no tail is
// extrapolated. It may be longer than MaxHistory.
func Shows(rate float64) int {
	n := max(minHistory, int(1/rate)-1)
	for rate*float64(n+1) < 1 {
		n++
	}
	return n
}

// quantileIndex returns the index of the q-quantile of n sorted scores: the smallest score
// that at least a share q of them does not exceed (type 1 of Hyndman & Fan 1996).
func quantileIndex(q float64, n int) int {
	return max(0, min(n-1, int(math.Ceil(q*float64(n)))-1))
}

// addMean moves the mean of count scores on by one. The paper's running mean is
// over all scores, so it is kept to about 48 bits.
func (p *Params) addMean(state []float32, count int, score float32) {
	if p.Kind != Mean {
		return
	}
	m := float64(state[atMean]) + float64(state[atMeanRest])
	m += (p.open(score) - m) / float64(count+1)
	state[atMean] = float32(m)
	state[atMeanRest] = float32(m - float64(float32(m)))
}
