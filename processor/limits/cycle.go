// Package limits computes the limits that a worker adapts while it runs: the bytes of a
// cycle (Pace), the memory of each partition's state (Budget), the input that a restore
// may have to replay (Arrivals), and the time that records wait for their schemas
// (Patience). Each follows from measurements that its caller passes; none has a clock.
package limits

import (
	"math"
	"time"
)

// A cycle has a size at which partitions wait for the next one. The requests of a
// transaction take 10 to 30 ms whatever its size, so small cycles leave processors idle
// at full load. Large cycles of slow or throttled brokers come near the transaction's
// time-out, after which the whole cycle is scored again. So the size begins small,
// follows the rate of the brokers in the last cycles, and grows by the factor paceGrowth
// a cycle at most: brokers that take 100 MiB/s are at full size after four cycles.
const (
	firstCycleBytes = 1 << 20
	leastCycleBytes = 64 << 10
	mostCycleBytes  = 96 << 20
	cycleRecords    = 1 << 21

	paceTarget = 500 * time.Millisecond
	paceGrowth = 4
	// wholeChunks is the size from which on partitions add their chunks whole.
	wholeChunks = 8 << 20

	// snapshotBytes bounds the state that one chunk adds to a cycle.
	snapshotBytes = 4 << 20
)

// Pace sizes the next cycle by the outcomes of earlier cycles.
type Pace struct {
	target  time.Duration // that a cycle is to take
	size    int           // bytes at which a cycle is full
	ceiling float64       // bytes that a recent failure has shown to be too many; +Inf: none
	record  float64       // bytes written for a record
}

// NewPace returns the pace for transactions that may take as long as limit.
func NewPace(limit time.Duration) Pace {
	target := paceTarget
	if limit > 0 {
		target = min(target, limit/8)
	}
	return Pace{target: target, size: firstCycleBytes, ceiling: math.Inf(1), record: 256}
}

// Committed adapts the size to a cycle that was committed.
func (p *Pace) Committed(bytes, records int, took time.Duration) {
	p.learn(bytes, records)
	if bytes < p.size/2 {
		return // waits, not the brokers' rate
	}
	if p.ceiling *= 1.5; p.ceiling > mostCycleBytes {
		p.ceiling = math.Inf(1)
	}
	p.set(min(p.fits(bytes, took), p.ceiling, paceGrowth*float64(p.size)))
}

// Failed adapts the size to a cycle that was not committed. One that took longer than it should have
// shows the brokers' rate; one that failed at once does not.
func (p *Pace) Failed(bytes, records int, took time.Duration) {
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

func (p *Pace) learn(bytes, records int) {
	if records > 0 {
		p.record = max(float64(bytes)/float64(records), 1)
	}
}

// fits returns the bytes that are written in the target time at the rate of a cycle.
func (p *Pace) fits(bytes int, took time.Duration) float64 {
	return float64(bytes) / max(took, time.Millisecond).Seconds() * p.target.Seconds()
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
