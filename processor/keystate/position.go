package keystate

import "odradek/processor/keystate/eventtime"

// position is how far a State has folded its log.
type position struct {
	next     int64 // offsets below are folded
	maxTime  int64 // largest event time; NoTime without one
	lateness int64 // Config.Lateness
	sweepAt  int64 // the watermark at which keys that expire or fall silent are looked for
	backfill int64 // samples below are a backfill; 0: there is none
	ahead    int64 // offsets below may be in the state of a key, where it was restored
}

// MaxTime returns the largest event time folded, NoTime without one.
func (p *position) MaxTime() int64 { return p.maxTime }

// watermark returns the time behind which nothing is expected any more.
func (p *position) watermark() int64 {
	if p.maxTime == NoTime {
		return NoTime
	}
	return eventtime.Before(p.maxTime, p.lateness)
}

// turn returns the offset of the newest sample, in whose turn all happens that it brings about.
func (p *position) turn() int64 { return p.next - 1 }
