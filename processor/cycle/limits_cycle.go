package cycle

import (
	"math"
	"time"
)

// This file computes the limits that a worker adapts while it runs: the bytes of a
// cycle (Pace, Backpressure), the memory of each partition's state (Budget), the input that a restore
// may have to replay (Arrivals), and the time that records wait for their schemas
// (Patience). Each follows from measurements that its caller passes; none has a clock.

// A cycle has a size at which partitions wait for the next one. The requests of a transaction take a fixed time regardless of
// its size, 10 to 30 ms beside the brokers and seconds where they are distant or throttled, so small cycles leave
// processors idle at full load. Large cycles of slow brokers come near the transaction's time-out, after which the whole
// cycle is scored again. So the size begins small, follows both parts of the time that the last cycles took, and grows by
// the factor paceGrowth a cycle at most: brokers that take 100 MiB/s are at full size after four cycles.
const (
	firstCycleBytes = 1 << 20
	leastCycleBytes = 64 << 10
	mostCycleBytes  = 96 << 20
	cycleRecords    = 1 << 21

	paceTarget = 500 * time.Millisecond
	paceGrowth = 4
	// paceShare is how much longer than the fixed part of its time the bytes of a cycle take where the target is too short for it.
	paceShare = 3
	// paceProbe is the factor by which sizes change where they have been too alike to tell the parts of the time.
	paceProbe = 1.5
	// paceLate is the factor of the expected time from which on a cycle says that the brokers have become slow.
	paceLate = 2
	// wholeChunks is the size from which on partitions add their chunks whole.
	wholeChunks = 8 << 20

	// snapshotBytes bounds the state that one chunk adds to a cycle.
	snapshotBytes = 4 << 20
)

// Pace sizes the next cycle by the outcomes of earlier cycles.
type Pace struct {
	limit   float64 // seconds that a transaction may take
	target  float64 // seconds that a cycle is to take where the fixed part is small
	size    int     // bytes at which a cycle is full
	ceiling float64 // bytes that a recent failure has shown to be too many; +Inf: none
	record  float64 // bytes written for a record
	cost    cost    // of the last cycles
}

// NewPace returns the pace for transactions that may take as long as limit; 0: as long as brokers allow by default.
func NewPace(limit time.Duration) Pace {
	if limit <= 0 {
		limit = time.Minute
	}
	return Pace{limit: limit.Seconds(), target: min(paceTarget, limit/8).Seconds(), size: firstCycleBytes, ceiling: math.Inf(1), record: 256}
}

// Committed adapts the size to a cycle that was committed.
func (p *Pace) Committed(bytes, records int, took time.Duration) {
	p.learn(bytes, records)
	if bytes <= 0 {
		return
	}
	seconds := max(took, time.Millisecond).Seconds()
	p.cost.add(float64(bytes), seconds)
	if bytes < p.size/2 {
		return // it shows the fixed part of the time, and a full one the rest
	}
	if p.ceiling *= 1.5; p.ceiling > mostCycleBytes {
		p.ceiling = math.Inf(1)
	}
	p.set(min(p.fits(float64(bytes), seconds), p.ceiling, paceGrowth*float64(p.size)))
}

// Failed adapts the size to a cycle that was not committed. One that took longer than it should have
// shows the brokers' rate; one that failed sooner does not.
func (p *Pace) Failed(bytes, records int, took time.Duration) {
	p.learn(bytes, records)
	seconds := took.Seconds()
	if seconds < p.limit/2 && seconds <= max(p.target, paceLate*p.cost.duration(float64(bytes))) {
		return
	}
	next := float64(p.size) / 2
	if bytes >= p.size/2 {
		// How much of the time was fixed is not known: as if it had been none.
		next = min(float64(bytes)/2, next, float64(bytes)/seconds*p.target)
		p.ceiling, p.cost = next, cost{}
	}
	p.set(next)
}

// Least reports whether cycles are as small as they get.
func (p *Pace) Least() bool { return p.size == leastCycleBytes }

// Bytes returns the size at which a cycle is full.
func (p *Pace) Bytes() int { return p.size }

func (p *Pace) learn(bytes, records int) {
	if records > 0 {
		p.record = max(float64(bytes)/float64(records), 1)
	}
}

// fits returns the size whose bytes take the time that they should, after a full cycle that took some seconds.
func (p *Pace) fits(bytes, seconds float64) float64 {
	fixed := p.cost.fixed()
	size := p.share(fixed) / p.cost.slope
	if p.cost.alike() {
		if seconds <= p.limit/4 {
			size = max(size, bytes*paceProbe)
		} else {
			size = min(size, bytes/paceProbe)
		}
	}
	// Brokers that have become slow get less at once: the estimate of what is proportional takes some cycles to follow.
	if late := seconds / (fixed + p.share(fixed)); late > paceLate {
		size = min(size, bytes/min(late, 8))
	}
	return size
}

// share returns the seconds that the bytes of a cycle should take beside its fixed part: what that leaves of the target,
// or paceShare times the fixed part if that is more, so that most of the brokers' rate goes. All of it is to take a
// quarter of the time-out at most; where the fixed part takes that much alone, the bytes take a sixteenth.
func (p *Pace) share(fixed float64) float64 {
	return max(p.target-fixed, min(paceShare*fixed, max(p.limit/4-fixed, p.limit/16)))
}

func (p *Pace) set(size float64) {
	p.size = int(min(max(size, leastCycleBytes), mostCycleBytes))
}

// Room is the capacity of a cycle.
type Room struct {
	Bytes   int   // at which it is full
	State   int   // bytes of state that a partition adds to it at a time
	Records int64 // records that a partition adds to it at a time
}

// Full reports whether a cycle of this many bytes and records has no room left.
func (r *Room) Full(bytes, records int) bool { return bytes >= r.Bytes || records >= cycleRecords }

// Room divides a cycle among partitions. Each adds what it has, even to a cycle that is
// almost full, so what it has at a time must be small where the cycle is.
func (p *Pace) Room(partitions int) Room {
	if p.size >= wholeChunks {
		return Room{Bytes: p.size, State: snapshotBytes, Records: math.MaxInt64}
	}
	share := float64(p.size) / 2 / float64(max(partitions, 1))
	return Room{
		Bytes:   p.size,
		State:   int(min(max(share, 1), snapshotBytes)),
		Records: max(int64(share/p.record), 32),
	}
}
