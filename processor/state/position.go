package state

import (
	"math"

	"odradek/processor/state/rules"
)

// position is how far a State has folded its log. Within the State, offsets are those of samples (Config.Place).
type position struct {
	bits      uint8       // Config.SampleBits
	next      int64       // offsets below are folded
	newest    int64       // the sample or the decision in whose turn things happen, for Row.Behind
	maxTime   int64       // largest event time; NoTime without one
	order     rules.Order // of the reading in force
	released  int64       // the watermark where the reading in force began, behind which this one never is
	sweepAt   int64       // the watermark at which keys that expire or fall silent are looked for
	backfill  int64       // samples below are a backfill; 0: there is none
	replaying bool        // the log is folded again, up to where it was committed
	ahead     int64       // offsets below may be in the state of a key, where it was restored
}

// first returns the offset of the first sample of the record at offset.
func (p *position) first(offset int64) int64 { return first(p.bits, offset) }

func first(bits uint8, offset int64) int64 {
	switch {
	case offset < 0:
		return offset // none
	case offset > math.MaxInt64>>bits:
		return math.MaxInt64
	}
	return offset << bits
}

// MaxTime returns the largest event time folded, NoTime without one.
func (p *position) MaxTime() int64 { return p.maxTime }

// watermark returns the event time that held samples wait for: the largest one less the lateness. It never goes back, also
// where another reading raises the lateness.
func (p *position) watermark() int64 { return max(p.released, p.bound()) }

// bound returns the event time below which samples are late.
func (p *position) bound() int64 {
	if p.maxTime == NoTime {
		return NoTime
	}
	return timeBefore(p.maxTime, p.order.Lateness)
}

// turn returns the offset of the newest sample, whose turn it is (gate).
func (p *position) turn() int64 { return p.next - 1 }
