package cycle

import (
	"math"
	"sync"
	"time"

	"odradek/processor/kafka"
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

// backpressureAfter is how long cycles are small and the lag grows before that is called backpressure: a backlog after a
// restart, or a burst, shrinks by then.
const backpressureAfter = time.Minute

// Backpressure finds out that brokers take less than the input brings: the lag grows though cycles are as small as they get.
type Backpressure struct {
	since time.Time // of this interval of small cycles; zero: the last cycle was larger
	lag   int64     // at its begin
	on    bool      // it grew in the interval before
}

// Note takes the lag after a cycle, and reports whether the brokers hold the worker back.
func (b *Backpressure) Note(least bool, lag int64, now time.Time) bool {
	switch {
	case !least:
		*b = Backpressure{}
	case b.since.IsZero():
		b.since, b.lag = now, lag
	case now.Sub(b.since) >= backpressureAfter:
		b.since, b.lag, b.on = now, lag, lag > b.lag
	}
	return b.on
}

// cost estimates the time of a cycle, a fixed part and a part proportional to its bytes, from the last cycles: a line
// of least squares of seconds by bytes. The error of a time is relative, so each has the weight of its inverse square.
type cost struct {
	n, x, y, xx, xy float64 // sums of weights, bytes, seconds, and products
	slope           float64 // seconds a byte; it stays what it was where sizes hardly differ
}

const (
	// costMemory is what remains of a cycle's weight after the next one: the last seven count.
	costMemory = 0.85
	// costRidge is the variance of sizes, in squares of their mean, to which the last slope weighs as much as what was measured.
	costRidge = 0.01
	// costSpread is the variance below which sizes are too alike to tell the parts of the time.
	costSpread = 0.03
)

// add adds a cycle. One that took far longer than it should have outweighs all before it: brokers that have become slow
// would otherwise be drowned out by the times when they were fast, which weigh more.
func (c *cost) add(bytes, seconds float64) {
	w, keep := 1/(seconds*seconds), costMemory
	if c.n > 0 && seconds > paceLate*c.duration(bytes) {
		keep = min(keep, w/c.n)
	}
	c.n, c.x, c.y = c.n*keep+w, c.x*keep+w*bytes, c.y*keep+w*seconds
	c.xx, c.xy = c.xx*keep+w*bytes*bytes, c.xy*keep+w*bytes*seconds
	x, y := c.x/c.n, c.y/c.n
	if c.slope == 0 {
		c.slope = y / x
	}
	ridge := costRidge * x * x
	c.slope = (c.xy/c.n - x*y + ridge*c.slope) / (c.xx/c.n - x*x + ridge)
	c.slope = max(min(c.slope, y/x), y/x*1e-4) // neither part is negative
}

// fixed returns the seconds that a cycle takes regardless of its size.
func (c *cost) fixed() float64 { return c.y/c.n - c.slope*c.x/c.n }

// duration returns the seconds of a cycle of a size; 0 before the first cycle.
func (c *cost) duration(bytes float64) float64 {
	if c.n == 0 {
		return 0
	}
	return c.fixed() + c.slope*bytes
}

// alike reports whether sizes differ too little to tell the parts of the time.
func (c *cost) alike() bool {
	x := c.x / c.n
	return c.xx/c.n-x*x < costSpread*x*x
}

// Budget divides the bytes of state that a worker may hold among its partitions.
//
// Every partition may have an equal share, and beyond it what the others leave: its
// limit is the larger of the share and of what the budget has left. A partition that
// is over its limit evicts its own least recently used keys before it folds another
// record, so a partition that grows evicts its own keys, but never below its share. One
// that is over its share and gets no records evicts none until its next record.
type Budget struct {
	Total int64 // 0: no limit

	mu   sync.Mutex
	used map[kafka.TP]int64 // of those that are assigned
	sum  int64
}

// Join adds an assigned partition to those that divide the budget.
func (b *Budget) Join(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[kafka.TP]int64{}
	}
	if _, ok := b.used[tp]; !ok {
		b.used[tp] = 0
	}
}

// Leave removes a partition and returns its bytes to the others.
func (b *Budget) Leave(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum -= b.used[tp]
	delete(b.used, tp)
}

// Limit records the bytes that a partition uses and returns the bytes that it may use.
func (b *Budget) Limit(tp kafka.TP, bytes int64) int64 {
	if b.Total == 0 {
		return math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.used[tp]
	if !ok { // it has left
		return math.MaxInt64
	}
	b.used[tp] = bytes
	b.sum += bytes - old
	return max(b.Total/int64(len(b.used)), b.Total-(b.sum-bytes))
}

// Arrivals remembers when offsets arrived, about once a second, to turn the
// replay limit (a time) into an offset.
type Arrivals struct {
	at []arrival
}

type arrival struct {
	offset int64
	t      time.Time
}

// Add records that the input up to offset had arrived at t.
func (a *Arrivals) Add(offset int64, t time.Time) {
	if n := len(a.at); n > 0 && t.Sub(a.at[n-1].t) < time.Second {
		return
	}
	a.at = append(a.at, arrival{offset, t})
}

// Before returns the newest remembered offset that arrived before t, or the lowest
// offset if none did.
func (a *Arrivals) Before(t time.Time) int64 {
	i := 0
	for i < len(a.at) && a.at[i].t.Before(t) {
		i++
	}
	if i == 0 {
		return math.MinInt64
	}
	off := a.at[i-1].offset
	a.at = append(a.at[:0], a.at[i-1:]...)
	return off
}

// Patience bounds how long a partition waits for unknown schemas: 1.25 grace periods at
// first, then a tenth of the elapsed time.
type Patience struct {
	used   time.Duration
	at     time.Time // of the last call
	offset int64     // of the record that waited then
}

// Spent reports whether the wait is over, so that the record at offset must be decided now.
func (p *Patience) Spent(offset int64, grace time.Duration, now time.Time) bool {
	switch {
	case p.at.IsZero():
	case p.offset == offset:
		p.used += now.Sub(p.at)
	default:
		p.used = max(0, p.used-now.Sub(p.at)/10)
	}
	p.at, p.offset = now, offset
	return p.used >= grace+grace/4
}
