package processor

import (
	"math"
	"time"
)

// The size at which partitions wait for the next cycle. A transaction has waits of
// its own of 10 to 30 ms, so small ones leave processors idle at full load; large
// ones of slow or throttled brokers come near the transaction's time-out, and one
// that is past it is scored again from the start. So the size begins small, follows
// what the brokers have taken in paceTarget lately, and grows by paceGrowth a cycle
// at most: brokers that take 100 MiB/s are at full size after four cycles.
const (
	firstCycleBytes = 1 << 20
	leastCycleBytes = 64 << 10
	mostCycleBytes  = 96 << 20
	cycleRecords    = 1 << 21

	paceTarget = 500 * time.Millisecond
	paceGrowth = 4
	// wholeChunks is the size from which on partitions add their chunks whole.
	wholeChunks = 8 << 20
)

// pace sizes the cycles by the outcomes of those before. It has no clock.
type pace struct {
	target  time.Duration // that a cycle is to take
	size    int           // bytes at which a cycle is full
	ceiling float64       // bytes that a failure has shown to be too much, lately; +Inf: none
	record  float64       // bytes written for a record
}

// newPace returns the pace for transactions that may take as long as limit.
func newPace(limit time.Duration) pace {
	target := paceTarget
	if limit > 0 {
		target = min(target, limit/8)
	}
	return pace{target: target, size: firstCycleBytes, ceiling: math.Inf(1), record: 256}
}

// committed takes in a cycle that was committed.
func (p *pace) committed(bytes, records int, took time.Duration) {
	p.learn(bytes, records)
	if bytes < p.size/2 {
		return // waits, not the brokers' rate
	}
	if p.ceiling *= 1.5; p.ceiling > mostCycleBytes {
		p.ceiling = math.Inf(1)
	}
	p.set(min(p.fits(bytes, took), p.ceiling, paceGrowth*float64(p.size)))
}

// failed takes in a cycle that was not. One that took longer than it should have
// tells of the brokers' rate; one that failed at once does not.
func (p *pace) failed(bytes, records int, took time.Duration) {
	p.learn(bytes, records)
	if took <= p.target {
		return
	}
	next := float64(p.size) / 2
	if bytes >= p.size/2 {
		next = min(float64(bytes)/2, next, p.fits(bytes, took)) // it took as much at most
		p.ceiling = next
	}
	p.set(next)
}

func (p *pace) learn(bytes, records int) {
	if records > 0 {
		p.record = max(float64(bytes)/float64(records), 1)
	}
}

// fits is how many bytes go into the target at the rate of a cycle.
func (p *pace) fits(bytes int, took time.Duration) float64 {
	return float64(bytes) / max(took, time.Millisecond).Seconds() * p.target.Seconds()
}

func (p *pace) set(size float64) {
	p.size = int(min(max(size, leastCycleBytes), mostCycleBytes))
}

// room is what goes into a cycle.
type room struct {
	bytes   int   // at which it is full
	state   int   // bytes of state that a partition adds to it at a time
	records int64 // records that a partition adds to it at a time
}

// room shares a cycle among partitions. Each adds what it has, be the cycle all but
// full, so what it has at a time must be small where the cycle is.
func (p *pace) room(partitions int) room {
	if p.size >= wholeChunks {
		return room{bytes: p.size, state: snapshotBytes, records: math.MaxInt64}
	}
	share := float64(p.size) / 2 / float64(max(partitions, 1))
	return room{
		bytes:   p.size,
		state:   int(min(max(share, 1), snapshotBytes)),
		records: max(int64(share/p.record), 32),
	}
}
