// Package ensemble combines the scores that several detectors give the samples of a series, in one of three ways.
//
// The sum: the score of a sample is the sum of the members' terms. A member's term is log(s/m), where s is the
// member's score and m the mean of its earlier scores, weighted to the last Memory: the k-th score
// moves the mean by 1/min(k, Memory) of the difference. Scores below 0 count as 0, and s/m is limited
// to the range from MinRatio to MaxRatio, so that a member that finds nothing cannot outvote the
// others. Where m is 0, s/m is MaxRatio, or 1 if s is 0 too. Params.Weights multiplies terms.
//
// A member without a score for a sample has the term 0, as if the sample were usual. There is no score
// where no member has one, nor before each member has had MinPoints scores. Where a member scores one sample of several
// (Params.Every), its score counts for the samples before it, too, as far back as the score before.
//
// Max: the score of a sample is the highest term of the members that have a score for it and have had MinPoints scores before, and there
// is no score without such a member. A member that scores nothing, as op joint where no value changes, does not delay the others.
//
// Any: the score of a sample is the highest of the members' Ratios of score and threshold, so it is above 1 where
// a member's score exceeds its threshold, from the member's Row.OpenAfter-th such score in a row on. There is no
// score where no member has a ratio.
//
// Gates, of any: the ratio of a member counts as 1 at most where its gate is shut. A gate reads the scores of one more detector, which is
// no member: it is open for GateSpan samples from one on whose score is above the gate's number, and at samples without such a score.
//
// Members score the same sample at different times: a stride lets up to Stride-1 samples wait. So
// samples wait in a queue, in order of time and offset, until each member has scored them or a later
// sample. Missing fields may make a member skip samples. At most Span samples wait; then the first is
// scored without the missing members, and their later scores of it only update their means. Of any, a later ratio
// above 1 counts for the next sample that is scored, so that none is lost.
//
// Scores of members with long subsequences say later that something is unusual than scores of members with
// short ones. Params.Lags delays a member: its k-th score counts for the sample of its (k+lag)-th,
// so that scores about the same middle are added. A delayed score does not widen what the sum is about.
//
// A state is a flat []uint64 that starts all zero.
package ensemble

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Limits of a term's ratio of score and mean.
const (
	MinRatio = 0.1
	MaxRatio = 1e6
)

// Limits of Params.
const (
	MaxMembers = 64
	MaxMemory  = 1 << 24
	MaxSpan    = 1 << 12
	MaxLag     = 1 << 16
	MaxWeight  = 1000
)

// GateSpan is the number of samples for which a score opens a gate, its own included.
const GateSpan = 48

// Params are the parameters of an ensemble.
type Params struct {
	Members   int
	Memory    int       // scores in a member's mean
	MinPoints int       // scores of each member before the first score
	Span      int       // largest number of waiting samples: the members' largest stride
	Lags      []int     // scores by which each member is delayed; nil: none is
	Every     []int     // the number of samples of which each member scores one; nil: 1
	Weights   []float64 // factors of the members' terms; nil: 1 each
	Max       bool      // Max in place of the sum
	Any       bool      // Any in place of the sum; Memory and MinPoints then mean nothing, and there are no Lags, Every and Weights

	Gates    []float32 // of Any: the numbers above which scores open the gates. Rows of gate i are Add's of number Members+i
	OnlyWith []int     // the gate of each member, from 1 on, 0 for none; nil: no member has one
}

// Check reports every fault of p.
func (p *Params) Check() error {
	switch {
	case p.Members < 2 || p.Members > MaxMembers:
		return fmt.Errorf("ensemble: %d members, use 2 to %d", p.Members, MaxMembers)
	case p.Span < 1 || p.Span > MaxSpan:
		return fmt.Errorf("ensemble: a member's stride is %d, use 1 to %d", p.Span, MaxSpan)
	case p.Any && p.Max:
		return errors.New("ensemble: the highest term and any cannot be combined")
	case p.Any && (p.Lags != nil || p.Every != nil || p.Weights != nil):
		return errors.New("ensemble: lags, weights and samples without a score are of a sum")
	case !p.Any && (p.Gates != nil || p.OnlyWith != nil):
		return errors.New("ensemble: gates are of any")
	case len(p.Gates) > MaxMembers || p.OnlyWith != nil && len(p.OnlyWith) != p.Members:
		return fmt.Errorf("ensemble: %d gates, which %d members have, of %d members", len(p.Gates), len(p.OnlyWith), p.Members)
	case p.Any:
	case p.Memory < 1 || p.Memory > MaxMemory:
		return fmt.Errorf("ensemble: memory of %d scores, use 1 to %d", p.Memory, MaxMemory)
	case p.MinPoints < 1 || p.MinPoints > p.Memory:
		return fmt.Errorf("ensemble: %d scores of each member before the first score, use 1 to the memory of %d", p.MinPoints, p.Memory)
	case p.Lags != nil && len(p.Lags) != p.Members:
		return fmt.Errorf("ensemble: %d lags of %d members", len(p.Lags), p.Members)
	case p.Every != nil && len(p.Every) != p.Members || p.Weights != nil && len(p.Weights) != p.Members:
		return fmt.Errorf("ensemble: %d weights, and samples between the scores of %d, of %d members", len(p.Weights), len(p.Every), p.Members)
	}
	for _, above := range p.Gates {
		if !(above > 0 && above <= math.MaxFloat32) {
			return fmt.Errorf("ensemble: a score above %v opens a gate, use a number above 0", above)
		}
	}
	for _, gate := range p.OnlyWith {
		if gate < 0 || gate > len(p.Gates) {
			return fmt.Errorf("ensemble: a member has gate %d of %d", gate, len(p.Gates))
		}
	}
	for _, w := range p.Weights {
		if !(w > 0 && w <= MaxWeight) {
			return fmt.Errorf("ensemble: a member's weight is %v, use above 0 to %d", w, MaxWeight)
		}
	}
	for _, every := range p.Every {
		if every < 1 || every > p.Span {
			return fmt.Errorf("ensemble: a member scores one of %d samples, use 1 to the largest stride of %d", every, p.Span)
		}
	}
	for _, lag := range p.Lags {
		if lag < 0 || lag > MaxLag {
			return fmt.Errorf("ensemble: a member's lag is %d scores, use 0 to %d", lag, MaxLag)
		}
	}
	return nil
}

// Row is the score that a member, or the ensemble, gives a sample.
type Row struct {
	Time, Offset int64 // of the sample
	About, Until int64 // times of the first and the last sample that the score is about; for an ensemble, over all members' scores
	Imputed      bool
	WarmingUp    bool    // of the ensemble: a member has had too few scores; of any, no member has had a ratio
	Score        float32 // NaN: none; with Any a member's is its Ratio
	Severity     uint8   // with Any, of a member's ratio above 1; of the ensemble the highest of those
	OpenAfter    int     // with Any: ratios above 1 in a row from which on a member counts; 0 is 1
	// Remaining is how many samples come, at the least, until the next score: of a member without a score, and of the
	// ensemble while it is warming up. 0: not known, or there is one.
	Remaining  int32
	TurnedAway uint64 // of any: the members, by their bits, whose ratio above 1 counts as 1 because a gate is shut
}

// Ratio returns score/threshold, which with Any is a member's Row.Score: above 1 if and only if the score is above the
// threshold. Where the threshold is below 0 it is 1 + (score-threshold)/|threshold|, and where it is 0, MaxRatio
// for a score above it. It is limited to the range from 0 to MaxRatio, and NaN where there is no score or no
// threshold yet.
func Ratio(score, threshold float32) float32 {
	s, t := float64(score), float64(threshold)
	var r float64
	switch {
	case s != s || !(math.Abs(t) <= math.MaxFloat32):
		return float32(math.NaN())
	case t > 0:
		r = s / t
	case t < 0:
		r = 1 + (s-t)/-t
	case s > 0:
		r = MaxRatio
	case s == 0:
		r = 1
	}
	if s > t {
		return max(aboveOne, float32(min(MaxRatio, r)))
	}
	return float32(max(0, min(1, r)))
}

const aboveOne = 1 + 1.0/(1<<23)

// The layout of a state: the last scored place, the members and the gates, the queue, the delayed members' last scores, of
// each the number of those that there are, up to its lag, the place of the next one and a ring. A place is a flag, 1 if it is
// set, a time and an offset.
const (
	atScored  = 0 // place
	atWaiting = 3 // samples in the queue
	atMembers = 4

	memberPlace = 0 // of the member's last sample; with Any the flag is 1 and the ratios above 1 in a row until it, up to maxRun
	memberCount = 3 // scores, up to Memory
	memberMean  = 4 // float64
	memberSize  = 5

	// Before the first score, or ratio, in place of the mean: Row.Remaining of the member's last sample.
	memberAwaited = 4

	// With Any, in place of count and mean: the highest ratio above 1 that came too late for its sample, as in a sample of the queue, none
	// without one, 0 before the member's first ratio; and the first time that it is about.
	memberLate  = 3
	memberSince = 4

	// Of a gate, in their place: the samples for which it stays open, and 0.
	gateOpen  = 3
	gateEmpty = 4

	sampleTime    = 0
	sampleOffset  = 1
	sampleAbout   = 2
	sampleUntil   = 3
	sampleImputed = 4 // flags: imputed, and exceeds
	sampleScores  = 5 // the members' and the gates' float32s; with Any the severity is above the 32 bits
)

// Flags of a sample of the queue.
const (
	imputed = 1
	exceeds = 2 // with Any: a member's ratio is above 1, and the times are of such members alone
)

// maxRun bounds the count of a member's ratios in a row.
const maxRun = 1 << 20

func word(score float32, severity uint8) uint64 {
	return uint64(severity)<<32 | uint64(math.Float32bits(score))
}

func scoreOf(word uint64) float32 { return math.Float32frombits(uint32(word)) }

// inputs returns how many detectors' rows Add takes: the members' and the gates'.
func (p *Params) inputs() int { return p.Members + len(p.Gates) }

func (p *Params) sampleSize() int { return sampleScores + p.inputs() }
func (p *Params) queue() int      { return atMembers + p.inputs()*memberSize }

func (p *Params) delays() int { return p.queue() + (p.Span+1)*p.sampleSize() }

// Size returns the length of a state.
func (p *Params) Size() int {
	n := p.delays()
	for _, lag := range p.Lags {
		n += delaySize(lag)
	}
	return n
}

const delayHead = 2

func delaySize(lag int) int {
	if lag == 0 {
		return 0
	}
	return delayHead + lag
}

// ring returns the part of a state from a member's delayed scores on.
func (p *Params) ring(state []uint64, member int) []uint64 {
	d := state[p.delays():]
	for _, lag := range p.Lags[:member] {
		d = d[delaySize(lag):]
	}
	return d
}

// delayed keeps a member's score for later, and returns the one of as many before as its lag, NaN if there is none.
func (p *Params) delayed(state []uint64, member int, score float32) float32 {
	d := p.ring(state, member)
	lag, ring := uint64(p.Lags[member]), d[delayHead:]
	before := float32(math.NaN())
	if d[0] == lag {
		before = math.Float32frombits(uint32(ring[d[1]]))
	}
	ring[d[1]] = uint64(math.Float32bits(score))
	d[0], d[1] = min(d[0]+1, lag), (d[1]+1)%lag
	return before
}

var none = uint64(math.Float32bits(float32(math.NaN())))

// Add adds a member's score of a sample; the samples of each member come in order of time and offset.
// The caller calls Next until it returns false before the next Add. With Any, over says whether the ratio counts as one
// above 1, of this sample or, if that has been scored, of the next one that is, unless a gate turns it away.
func (p *Params) Add(state []uint64, member int, r *Row) (over bool) {
	if member >= p.Members {
		p.addGate(state, member, r)
		return false
	}
	score, late := r.Score, p.Lags != nil && p.Lags[member] > 0
	if late {
		score = p.delayed(state, member, Counted(score))
	}
	m := state[atMembers+member*memberSize:]
	severity, run := r.Severity, uint64(1)
	if p.Any {
		score, run = counted(m, r)
	}
	m[memberPlace], m[memberPlace+1], m[memberPlace+2] = run, uint64(r.Time), uint64(r.Offset)
	if m[memberCount] == 0 {
		m[memberAwaited] = 0
		if score != score {
			m[memberAwaited] = uint64(p.awaited(state, member, r))
		}
	}
	if over = p.Any && score > 1; !over {
		severity = 0
	}
	if reached(state[atScored:], r.Time, r.Offset) {
		if p.Any {
			keepLate(m, score, severity, r.About)
		} else {
			p.learn(m, score)
		}
		return over
	}
	e := p.queued(state, r)
	if r.Imputed {
		e[sampleImputed] |= imputed
	}
	if score != score {
		return false
	}
	if !late {
		p.widen(e, r.About, r.Until, score > 1)
	}
	e[sampleScores+member] = word(Counted(score), severity)
	return over
}

// addGate adds a score that opens a gate. One that comes too late for its sample opens it with the next sample that is scored.
func (p *Params) addGate(state []uint64, number int, r *Row) {
	m := state[atMembers+number*memberSize:]
	m[memberPlace], m[memberPlace+1], m[memberPlace+2] = 1, uint64(r.Time), uint64(r.Offset)
	if reached(state[atScored:], r.Time, r.Offset) {
		if r.Score > p.Gates[number-p.Members] {
			m[gateOpen] = GateSpan
		}
		return
	}
	p.queued(state, r)[sampleScores+number] = word(Counted(r.Score), 0)
}

// queued returns the sample of a row in the queue, where it adds it if it is not there.
func (p *Params) queued(state []uint64, r *Row) []uint64 {
	n, size := int(state[atWaiting]), p.sampleSize()
	queue := state[p.queue():]
	at := n
	for at > 0 && before(r.Time, r.Offset, queue[(at-1)*size:]) {
		at--
	}
	if at > 0 && queue[(at-1)*size+sampleTime] == uint64(r.Time) && queue[(at-1)*size+sampleOffset] == uint64(r.Offset) {
		return queue[(at-1)*size:]
	}
	copy(queue[(at+1)*size:(n+1)*size], queue[at*size:n*size])
	state[atWaiting]++
	e := queue[at*size:]
	e[sampleTime], e[sampleOffset], e[sampleAbout], e[sampleUntil], e[sampleImputed] =
		uint64(r.Time), uint64(r.Offset), math.MaxInt64, 1<<63, 0
	for i := range p.inputs() {
		e[sampleScores+i] = none
	}
	return e
}

// widen has the times of a sample include the times that a score is about. With Any, these are the times of the members
// whose ratios are above 1, if there are such members; whether their gates are open is not known yet.
func (p *Params) widen(e []uint64, about, until int64, above bool) {
	if p.Any && above && e[sampleImputed]&exceeds == 0 {
		e[sampleImputed] |= exceeds
		e[sampleAbout], e[sampleUntil] = uint64(about), uint64(until)
	}
	if p.Any && !above && e[sampleImputed]&exceeds != 0 {
		return
	}
	e[sampleAbout] = uint64(min(int64(e[sampleAbout]), about))
	e[sampleUntil] = uint64(max(int64(e[sampleUntil]), until))
}

// counted returns the ratio of a member's next sample, 1 if it is above 1 and too few in a row are, and the flag of the
// member's place.
func counted(m []uint64, r *Row) (ratio float32, flag uint64) {
	flag = max(1, m[memberPlace])
	switch {
	case r.Score > 1:
		flag = min(flag+1, 1+maxRun)
		if flag <= uint64(r.OpenAfter) {
			return 1, flag
		}
	case r.Score == r.Score:
		flag = 1
	}
	return r.Score, flag
}

// keepLate keeps a ratio above 1 of a sample that has been scored.
func keepLate(m []uint64, score float32, severity uint8, about int64) {
	if score == score && m[memberLate] == 0 {
		m[memberLate] = none
	}
	if !(score > 1) {
		return
	}
	if old := scoreOf(m[memberLate]); old == old {
		score, severity, about = max(score, old), max(severity, uint8(m[memberLate]>>32)), min(about, int64(m[memberSince]))
	}
	m[memberLate], m[memberSince] = word(score, severity), uint64(about)
}

// Counted limits a score to the range of those that count; NaN is none.
func Counted(score float32) float32 {
	if score != score {
		return math.Float32frombits(uint32(none))
	}
	return max(0, min(math.MaxFloat32, score))
}

// Next scores the first waiting sample if all members and gates have passed it, or too many wait, and sets terms
// to the members' terms; with Any to their ratios, 0 without one. Of a sum it sets counted, unless it is nil, to the scores
// that the terms were computed from (Counted), NaN without one.
func (p *Params) Next(state []uint64, r *Row, terms []float64, counted []float32) bool {
	n, size := int(state[atWaiting]), p.sampleSize()
	if n == 0 {
		return false
	}
	queue := state[p.queue():]
	e := queue[:size]
	time, offset := int64(e[sampleTime]), int64(e[sampleOffset])
	if n <= p.Span {
		for i := range p.inputs() {
			if !reached(state[atMembers+i*memberSize:], time, offset) {
				return false
			}
		}
	}
	*r = Row{Time: time, Offset: offset, About: int64(e[sampleAbout]), Until: int64(e[sampleUntil]), Imputed: e[sampleImputed]&imputed != 0,
		Score: float32(math.NaN())}
	if r.About > r.Until {
		r.About, r.Until = time, time
	}
	if p.Any {
		p.highest(state, e, r, terms)
	} else {
		r.Remaining = p.remaining(state, queue[:n*size])
		r.WarmingUp = r.Remaining > 0
		p.sum(state, queue[:n*size], r, terms, counted)
	}
	if p.Any && r.WarmingUp {
		r.Remaining = p.soonest(state, queue[:n*size])
	}
	state[atScored], state[atScored+1], state[atScored+2] = 1, uint64(time), uint64(offset)
	copy(queue, queue[size:n*size])
	clear(queue[(n-1)*size : n*size])
	state[atWaiting]--
	return true
}

// sum sets the score of the first sample of the queue to the sum of the members' terms, or to the highest of them.
func (p *Params) sum(state, queue []uint64, r *Row, terms []float64, counted []float32) {
	sum, highest, scored := 0.0, math.Inf(-1), false
	for i := range p.Members {
		m := state[atMembers+i*memberSize:]
		own := scoreOf(queue[sampleScores+i])
		score := own
		if own != own && p.Every != nil {
			score = p.next(queue, i, r)
		}
		if counted != nil {
			counted[i] = score
		}
		if score != score {
			terms[i] = 0
			continue
		}
		if terms[i] = 0; !p.Max || m[memberCount] >= uint64(p.MinPoints) {
			scored = true
			terms[i] = p.weighted(i, score, m)
			sum, highest = sum+terms[i], max(highest, terms[i])
		}
		p.learn(m, own)
	}
	if p.Max {
		sum = highest
	}
	if scored && !r.WarmingUp {
		r.Score = float32(sum)
	}
}

// weighted returns a member's term of a score.
func (p *Params) weighted(member int, score float32, m []uint64) float64 {
	t := term(float64(score), mean(m))
	if p.Weights != nil {
		t *= p.Weights[member]
	}
	return t
}

// Reach returns the most that the sum of a sample can be which a member's score counts for, if the members' means stay as they are. Of
// another member the highest score that can count for the same sample is taken, one that waits in the queue or is delayed; a member
// whose score is not known yet counts as much as this one. Of Max, and where it is not above 0, it is the member's term. NaN without a
// score.
func (p *Params) Reach(state []uint64, member int, r *Row) float64 {
	if r.Score != r.Score {
		return math.NaN()
	}
	own := p.weighted(member, Counted(r.Score), state[atMembers+member*memberSize:])
	if p.Max || own <= 0 {
		return own
	}
	sum := own
	for i := range p.Members {
		if i == member {
			continue
		}
		score, known := p.foreseen(state, member, i, r)
		switch {
		case !known:
			sum += own
		case score == score:
			sum += p.weighted(i, score, state[atMembers+i*memberSize:])
		}
	}
	return sum
}

// foreseen returns the highest score of the other member that can count for the samples that a member's row counts for, NaN for none;
// false: not all of them are known.
func (p *Params) foreseen(state []uint64, member, other int, r *Row) (score float32, known bool) {
	if p.Lags != nil && p.Lags[member] > 0 {
		return 0, false
	}
	score = float32(math.NaN())
	size, queue := p.sampleSize(), state[p.queue():]
	for at := range int(state[atWaiting]) {
		if s := scoreOf(queue[at*size+sampleScores+other]); s == s && !(score >= s) {
			score = s
		}
	}
	if reached(state[atMembers+other*memberSize:], r.Time, r.Offset) {
		return score, true
	}
	if p.Lags == nil || p.Lags[other] < p.Span {
		return 0, false
	}
	// The other member is less than its stride behind: its delayed scores come first.
	ring := p.ring(state, other)
	for i := range min(uint64(p.Span), ring[0]) {
		at := (ring[1] + i) % uint64(p.Lags[other])
		if ring[0] < uint64(p.Lags[other]) {
			at = i
		}
		if s := math.Float32frombits(uint32(ring[delayHead+at])); s == s && !(score >= s) {
			score = s
		}
	}
	return score, true
}

// next returns the score that a member without one for the first sample of the queue has for one of the next Every-1 samples; NaN
// for none. It extends the row's times back to those that this score is about.
func (p *Params) next(queue []uint64, member int, r *Row) float32 {
	size := p.sampleSize()
	for at := size; at < min(len(queue), p.Every[member]*size); at += size {
		if score := scoreOf(queue[at+sampleScores+member]); score == score {
			if about, until := int64(queue[at+sampleAbout]), int64(queue[at+sampleUntil]); about <= until {
				r.About = min(r.About, about)
			}
			return score
		}
	}
	return float32(math.NaN())
}

// shut returns the gates that are shut at a sample, by their bits, and moves them on.
func (p *Params) shut(state, e []uint64) (gates uint64) {
	for i, above := range p.Gates {
		open, score := &state[atMembers+(p.Members+i)*memberSize+gateOpen], scoreOf(e[sampleScores+p.Members+i])
		if score > above {
			*open = GateSpan
		}
		switch {
		case *open > 0:
			*open--
		case score == score:
			gates |= 1 << i
		}
	}
	return gates
}

// highest sets the score of a sample to the highest of the members' ratios.
func (p *Params) highest(state, e []uint64, r *Row, terms []float64) {
	r.WarmingUp = true
	gates := p.shut(state, e)
	for i := range p.Members {
		m := state[atMembers+i*memberSize:]
		score, severity := scoreOf(e[sampleScores+i]), uint8(e[sampleScores+i]>>32)
		if late := scoreOf(m[memberLate]); m[memberLate] != 0 && late == late {
			if !(score >= late) {
				score = late
			}
			severity, r.About = max(severity, uint8(m[memberLate]>>32)), min(r.About, int64(m[memberSince]))
			m[memberLate], m[memberSince] = none, 0
		}
		if score > 1 && p.OnlyWith != nil && p.OnlyWith[i] > 0 && gates>>(p.OnlyWith[i]-1)&1 != 0 {
			score, severity = 1, 0
			r.TurnedAway |= 1 << i
		}
		terms[i] = 0
		if score == score {
			if terms[i] = float64(score); m[memberLate] == 0 {
				m[memberLate], m[memberSince] = none, 0
			}
			if !(r.Score >= score) {
				r.Score = score
			}
			r.Severity = max(r.Severity, severity)
		}
		r.WarmingUp = r.WarmingUp && m[memberLate] == 0
	}
}

// awaited returns Row.Remaining of a member's sample without a score, as it counts for the ensemble: later by the member's lag.
func (p *Params) awaited(state []uint64, member int, r *Row) int32 {
	if p.Lags == nil || p.Lags[member] == 0 {
		return r.Remaining
	}
	lag, every := p.Lags[member], p.every(member)
	ring := p.ring(state, member)
	for i := range lag { // the oldest score is at its place first
		if at := (int(ring[1]) + i) % lag; uint64(at) < ring[0] && ring[delayHead+at] != none {
			return int32(min(math.MaxInt32, (i+1)*every))
		}
	}
	return int32(min(math.MaxInt32, int(r.Remaining)+lag*every))
}

func (p *Params) every(member int) int {
	if p.Every == nil {
		return 1
	}
	return p.Every[member]
}

// ahead returns how many samples after the first sample of the queue a member has its next score, at the least; 0: it has one of
// the first. ok is false where the member has not reached it.
func (p *Params) ahead(state, queue []uint64, member int) (n int, ok bool) {
	m, size, at := state[atMembers+member*memberSize:], p.sampleSize(), 0
	for i := 0; i*size < len(queue); i++ {
		e := queue[i*size:]
		if !reached(m, int64(e[sampleTime]), int64(e[sampleOffset])) {
			break
		}
		if score := scoreOf(e[sampleScores+member]); score == score {
			return i, true
		}
		at, ok = i, true
	}
	if m[memberCount] == 0 {
		return at + max(1, int(m[memberAwaited])), ok
	}
	return at + 1, ok
}

// remaining returns how many samples come, at the least, after the first sample of the queue until each member, or with Max one of them,
// has had MinPoints scores before one; 0: they have.
func (p *Params) remaining(state, queue []uint64) int32 {
	least, most := math.MaxInt32, 0
	for i := range p.Members {
		count, left := state[atMembers+i*memberSize+memberCount], 0
		if count < uint64(p.MinPoints) {
			left = 1
			if n, ok := p.ahead(state, queue, i); ok { // otherwise scores of earlier samples come, too
				left = max(left, n+(p.MinPoints-1-int(count))*p.every(i)+1)
			}
		}
		least, most = min(least, left), max(most, left)
	}
	if p.Max {
		most = least
	}
	return int32(min(math.MaxInt32, most))
}

// soonest returns how many samples come, at the least, after the first sample of the queue until a member has a ratio.
func (p *Params) soonest(state, queue []uint64) int32 {
	least := math.MaxInt32
	for i := range p.Members {
		n, ok := p.ahead(state, queue, i)
		if !ok {
			return 1
		}
		least = min(least, n)
	}
	return int32(max(1, least))
}

// term returns the logarithm of the ratio of a score and its mean.
func term(score, mean float64) float64 {
	switch {
	case mean > 0:
		return math.Log(max(MinRatio, min(MaxRatio, score/mean)))
	case score > 0:
		return math.Log(MaxRatio)
	}
	return 0
}

// learn moves a member's mean on by a score.
func (p *Params) learn(m []uint64, score float32) {
	if score != score {
		return
	}
	mean := mean(m)
	if m[memberCount] < uint64(p.Memory) {
		m[memberCount]++
	}
	mean += (float64(max(0, min(math.MaxFloat32, score))) - mean) / float64(m[memberCount])
	m[memberMean] = math.Float64bits(mean)
}

// mean returns the mean of a member's scores, 0 without one.
func mean(m []uint64) float64 {
	if m[memberCount] == 0 {
		return 0
	}
	return math.Float64frombits(m[memberMean])
}

// reached reports whether a place is at a sample or after it.
func reached(place []uint64, time, offset int64) bool {
	return place[0] != 0 && cmp.Or(cmp.Compare(int64(place[1]), time), cmp.Compare(int64(place[2]), offset)) >= 0
}

// before reports whether a sample comes before another.
func before(time, offset int64, e []uint64) bool {
	return cmp.Or(cmp.Compare(time, int64(e[sampleTime])), cmp.Compare(offset, int64(e[sampleOffset]))) < 0
}

// Shares sets shares to the members' shares of a score: the terms above 0, scaled to the sum 1. With Any, the terms are
// the logarithms of the ratios, and where none is above 0 the first of the highest ratios has the share 1. It
// returns false where no member has a share.
func (p *Params) Shares(shares, terms []float64) bool {
	sum, first := 0.0, 0
	for i, t := range terms {
		if p.Any {
			t = math.Log(max(1, t))
		}
		shares[i] = max(0, t)
		sum += shares[i]
		if terms[i] > terms[first] {
			first = i
		}
	}
	if p.Any && sum == 0 && terms[first] > 0 {
		shares[first], sum = 1, 1
	}
	for i := range shares {
		shares[i] /= sum
	}
	return sum > 0
}

// Valid reports whether Add can continue with a stored state.
func (p *Params) Valid(state []uint64) bool {
	if len(state) != p.Size() || state[atScored] > 1 || state[atWaiting] > uint64(p.Span) {
		return false
	}
	finite := func(w uint64) bool {
		f, severity := scoreOf(w), w>>32
		return w == none || f >= 0 && f <= math.MaxFloat32 && (severity == 0 || p.Any && severity <= 100 && f > 1)
	}
	for i := range p.Members {
		m := state[atMembers+i*memberSize:]
		if p.Any {
			if late := m[memberLate]; m[memberPlace] > 1+maxRun || late != 0 && late != none && !(finite(late) && scoreOf(late) > 1) {
				return false
			}
			continue
		}
		mean := math.Float64frombits(m[memberMean])
		if m[memberPlace] > 1 || m[memberCount] > uint64(p.Memory) || !(mean >= 0 && mean <= math.MaxFloat32) {
			return false
		}
	}
	for i := range p.Gates {
		g := state[atMembers+(p.Members+i)*memberSize:]
		if g[memberPlace] > 1 || g[gateOpen] > GateSpan || g[gateEmpty] != 0 {
			return false
		}
	}
	for i := range int(state[atWaiting]) {
		e := state[p.queue()+i*p.sampleSize():][:p.sampleSize()]
		for _, w := range e[sampleScores:] {
			if !finite(w) {
				return false
			}
		}
		if e[sampleImputed] > imputed|exceeds || e[sampleImputed]&exceeds != 0 && !p.Any {
			return false
		}
	}
	d := state[p.delays():]
	for _, lag := range p.Lags {
		if lag == 0 {
			continue
		}
		if d[0] > uint64(lag) || d[1] >= uint64(lag) || d[0] < uint64(lag) && d[1] != d[0] {
			return false
		}
		for _, w := range d[delayHead : delayHead+lag] {
			if !finite(w) {
				return false
			}
		}
		d = d[delaySize(lag):]
	}
	return true
}
