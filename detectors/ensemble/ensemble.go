// Package ensemble combines the scores that several detectors give the samples of a series.
//
// The score of a sample is the sum of the members' terms. A member's term is log(s/m), where s is the
// member's score and m the mean of its earlier scores, weighted to the last Memory: the k-th score
// moves the mean by 1/min(k, Memory) of the difference. Scores below 0 count as 0, and s/m is limited
// to the range from MinRatio to MaxRatio, so that a member that finds nothing cannot outvote the
// others. Where m is 0, s/m is MaxRatio, or 1 if s is 0 too.
//
// A member without a score for a sample has the term 0, as if the sample were usual. There is no score
// where no member has one, nor before each member has had MinPoints scores.
//
// Members score the same sample at different times: a stride lets up to Stride-1 samples wait. So
// samples wait in a queue, in order of time and offset, until each member has scored them or a later
// sample. Missing fields may make a member skip samples. At most Span samples wait; then the first is
// scored without the missing members, and their later scores of it only update their means.
//
// A state is a flat []uint64 that starts all zero.
package ensemble

import (
	"cmp"
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
)

// Params are the parameters of an ensemble.
type Params struct {
	Members   int
	Memory    int // scores in a member's mean
	MinPoints int // scores of each member before the first score
	Span      int // largest number of waiting samples: the members' largest stride
}

// Check reports every fault of p.
func (p *Params) Check() error {
	switch {
	case p.Members < 2 || p.Members > MaxMembers:
		return fmt.Errorf("ensemble: %d members, use 2 to %d", p.Members, MaxMembers)
	case p.Memory < 1 || p.Memory > MaxMemory:
		return fmt.Errorf("ensemble: memory of %d scores, use 1 to %d", p.Memory, MaxMemory)
	case p.MinPoints < 1 || p.MinPoints > p.Memory:
		return fmt.Errorf("ensemble: %d scores of each member before the first score, use 1 to the memory of %d", p.MinPoints, p.Memory)
	case p.Span < 1 || p.Span > MaxSpan:
		return fmt.Errorf("ensemble: a member's stride is %d, use 1 to %d", p.Span, MaxSpan)
	}
	return nil
}

// Row is the score that a member, or the ensemble, gives a sample.
type Row struct {
	Time, Offset int64 // of the sample
	About, Until int64 // times of the first and the last sample that the score is about; for an ensemble, over all members' scores
	Imputed      bool
	WarmingUp    bool    // of the ensemble: a member has had too few scores
	Score        float32 // NaN: none
}

// The layout of a state: the last scored place, the members, the queue. A place is a flag, 1 if it is
// set, a time and an offset.
const (
	atScored  = 0 // place
	atWaiting = 3 // samples in the queue
	atMembers = 4

	memberPlace = 0 // of the member's last sample
	memberCount = 3 // scores, up to Memory
	memberMean  = 4 // float64
	memberSize  = 5

	entryTime    = 0
	entryOffset  = 1
	entryAbout   = 2
	entryUntil   = 3
	entryImputed = 4
	entryScores  = 5 // the members' float32s
)

func (p *Params) entrySize() int { return entryScores + p.Members }
func (p *Params) queue() int     { return atMembers + p.Members*memberSize }

// Size returns the length of a state.
func (p *Params) Size() int { return p.queue() + (p.Span+1)*p.entrySize() }

var none = uint64(math.Float32bits(float32(math.NaN())))

// Add adds a member's score of a sample; the samples of each member come in order of time and offset.
// The caller calls Next until it returns false before the next Add.
func (p *Params) Add(state []uint64, member int, r *Row) {
	m := state[atMembers+member*memberSize:]
	m[memberPlace], m[memberPlace+1], m[memberPlace+2] = 1, uint64(r.Time), uint64(r.Offset)
	if reached(state[atScored:], r.Time, r.Offset) {
		p.learn(m, r.Score)
		return
	}
	n, size := int(state[atWaiting]), p.entrySize()
	queue := state[p.queue():]
	at := n
	for at > 0 && before(r.Time, r.Offset, queue[(at-1)*size:]) {
		at--
	}
	if at > 0 && queue[(at-1)*size+entryTime] == uint64(r.Time) && queue[(at-1)*size+entryOffset] == uint64(r.Offset) {
		at--
	} else {
		copy(queue[(at+1)*size:(n+1)*size], queue[at*size:n*size])
		state[atWaiting]++
		e := queue[at*size:]
		e[entryTime], e[entryOffset], e[entryAbout], e[entryUntil], e[entryImputed] =
			uint64(r.Time), uint64(r.Offset), math.MaxInt64, 1<<63, 0
		for i := range p.Members {
			e[entryScores+i] = none
		}
	}
	e := queue[at*size:]
	if r.Imputed {
		e[entryImputed] = 1
	}
	if r.Score == r.Score {
		e[entryAbout] = uint64(min(int64(e[entryAbout]), r.About))
		e[entryUntil] = uint64(max(int64(e[entryUntil]), r.Until))
		e[entryScores+member] = uint64(math.Float32bits(max(0, min(math.MaxFloat32, r.Score))))
	}
}

// Next scores the first waiting sample if all members have passed it, or too many wait, and sets terms
// to the members' terms.
func (p *Params) Next(state []uint64, r *Row, terms []float64) bool {
	n, size := int(state[atWaiting]), p.entrySize()
	if n == 0 {
		return false
	}
	queue := state[p.queue():]
	e := queue[:size]
	time, offset := int64(e[entryTime]), int64(e[entryOffset])
	if n <= p.Span {
		for i := range p.Members {
			if !reached(state[atMembers+i*memberSize:], time, offset) {
				return false
			}
		}
	}
	*r = Row{Time: time, Offset: offset, About: int64(e[entryAbout]), Until: int64(e[entryUntil]), Imputed: e[entryImputed] != 0,
		Score: float32(math.NaN())}
	if r.About > r.Until {
		r.About, r.Until = time, time
	}
	sum, scored := 0.0, false
	for i := range p.Members {
		m := state[atMembers+i*memberSize:]
		score := math.Float32frombits(uint32(e[entryScores+i]))
		if r.WarmingUp = r.WarmingUp || m[memberCount] < uint64(p.MinPoints); score != score {
			terms[i] = 0
			continue
		}
		scored = true
		terms[i] = term(float64(score), math.Float64frombits(m[memberMean]))
		sum += terms[i]
		p.learn(m, score)
	}
	if scored && !r.WarmingUp {
		r.Score = float32(sum)
	}
	state[atScored], state[atScored+1], state[atScored+2] = 1, uint64(time), uint64(offset)
	copy(queue, queue[size:n*size])
	clear(queue[(n-1)*size : n*size])
	state[atWaiting]--
	return true
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
	if m[memberCount] < uint64(p.Memory) {
		m[memberCount]++
	}
	mean := math.Float64frombits(m[memberMean])
	mean += (float64(max(0, min(math.MaxFloat32, score))) - mean) / float64(m[memberCount])
	m[memberMean] = math.Float64bits(mean)
}

// reached reports whether a place is at a sample or after it.
func reached(place []uint64, time, offset int64) bool {
	return place[0] != 0 && cmp.Or(cmp.Compare(int64(place[1]), time), cmp.Compare(int64(place[2]), offset)) >= 0
}

// before reports whether a sample comes before that of an entry.
func before(time, offset int64, e []uint64) bool {
	return cmp.Or(cmp.Compare(time, int64(e[entryTime])), cmp.Compare(offset, int64(e[entryOffset]))) < 0
}

// Shares sets shares to the members' shares of a score: the terms above 0, scaled to the sum 1. It
// returns false where no term is above 0.
func Shares(shares, terms []float64) bool {
	sum := 0.0
	for _, t := range terms {
		sum += max(0, t)
	}
	for i, t := range terms {
		shares[i] = max(0, t) / sum
	}
	return sum > 0
}

// Valid reports whether Add can continue with a stored state.
func (p *Params) Valid(state []uint64) bool {
	if len(state) != p.Size() || state[atScored] > 1 || state[atWaiting] > uint64(p.Span) {
		return false
	}
	finite := func(w uint64) bool {
		f := math.Float32frombits(uint32(w))
		return w == none || w <= math.MaxUint32 && f >= 0 && f <= math.MaxFloat32
	}
	for i := range p.Members {
		m := state[atMembers+i*memberSize:]
		mean := math.Float64frombits(m[memberMean])
		if m[memberPlace] > 1 || m[memberCount] > uint64(p.Memory) || !(mean >= 0 && mean <= math.MaxFloat32) {
			return false
		}
	}
	for i := range int(state[atWaiting]) {
		e := state[p.queue()+i*p.entrySize():][:p.entrySize()]
		for _, w := range e[entryScores:] {
			if !finite(w) {
				return false
			}
		}
		if e[entryImputed] > 1 {
			return false
		}
	}
	return true
}
