package plan

import (
	"fmt"
	"math/bits"
	"slices"

	"odradek/detectors"
)

// segment is a run of linked tasks of one class: a chain, or a part of a chain whose tasks have several
// classes. A later part is in a later launch.
type segment struct {
	class, wave int32
	head, last  int32
	count       uint32
	cost        int
}

// segments holds the segments of the device's tasks in a round.
type segments struct {
	list    []segment
	segment []int32 // by batch index: its segment; valid for the device's tasks only
	next    []int32 // by batch index: the next task of its segment, -1 at the end

	byCost        []int32 // segments by falling cost
	sorted        []int32 // segments by group, then by falling cost
	groups        []int32 // where each group begins in sorted
	waves         int32
	cost, longest int // ns: all of the device's tasks, the costliest chain
}

// begin forgets the segments of the last batch; n is the number of its tasks.
func (p *segments) begin(n int) {
	p.segment = slices.Grow(p.segment[:0], n)[:n]
	p.next = slices.Grow(p.next[:0], n)[:n]
}

// clear empties the list for another round.
func (p *segments) clear() {
	p.list, p.waves, p.cost, p.longest = p.list[:0], 0, 0, 0
}

// add adds task i, of a class with a cost, to the segment of the task from, or begins a segment with it. linked reports that
// from is on the device, too.
func (p *segments) add(i int32, class int32, cost int, from int32, linked bool) {
	p.next[i] = -1
	p.cost += cost
	wave := int32(0)
	if linked {
		k := p.segment[from]
		s := &p.list[k]
		if s.class == class && s.last == from {
			p.next[from], s.last = i, i
			s.count++
			s.cost += cost
			p.longest = max(p.longest, s.cost)
			p.segment[i] = k
			return
		}
		wave = s.wave
		if class <= s.class {
			wave++
		}
		p.waves = max(p.waves, wave)
	}
	p.segment[i] = int32(len(p.list))
	p.list = append(p.list, segment{class, wave, i, i, 1, cost})
	p.longest = max(p.longest, cost)
}

// Before returns the task whose Next is task i's carry, -1 for none. A link to a task
// without a carry is ignored.
func Before(b *detectors.Batch, i int) int32 {
	after := b.Tasks[i].After
	if after == 0 {
		return -1
	}
	if int(after) > i {
		panic(fmt.Sprintf("plan: task %d is linked after task %d", i, after-1))
	}
	if b.Tasks[after-1].Next.Len == 0 {
		return -1
	}
	return int32(after) - 1
}

// Device returns the number of tasks of this round's plan.
func (p *segments) Device() int {
	n := 0
	for i := range p.list {
		n += int(p.list[i].count)
	}
	return n
}

// Work estimates a device's time for the plan, in nanoseconds: its arithmetic plus copies of the given
// bytes, which overlap only among batches.
func (p *segments) Work(bytes int) int64 {
	return int64(p.cost) + chainWeight*int64(p.longest) + int64(bytes)/copyRate
}

// chainWeight is the approximate number of chains that a device computes at once: a single chain costs
// that factor more than its share of a full device. copyRate is the bytes a nanosecond to or from a
// device (PCIe of the fifth generation, measured).
const (
	chainWeight = 128
	copyRate    = 50
)

// sort orders the segments by wave and class, of which there are classes, then by falling cost in steps of an eighth, then by
// index. It is a counting sort, since there may be 100,000.
func (p *segments) sort(classes int) {
	groups := (int(p.waves) + 1) * classes
	if groups == 1 && p.even() { // the usual batch: many keys, one detector
		p.sorted = slices.Grow(p.sorted[:0], len(p.list))[:len(p.list)]
		for i := range p.sorted {
			p.sorted[i] = int32(i)
		}
		p.groups = append(p.groups[:0], 0, int32(len(p.list)))
		return
	}
	p.groups = slices.Grow(p.groups[:0], groups+1)[:groups+1]
	clear(p.groups)
	group := func(s *segment) int { return int(s.wave)*classes + int(s.class) }
	for i := range p.list {
		p.groups[group(&p.list[i])+1]++
	}
	for g := range groups {
		p.groups[g+1] += p.groups[g]
	}
	p.sorted = slices.Grow(p.sorted[:0], len(p.list))[:len(p.list)]
	falls := [costSteps + 1]int32{}
	for i := range p.list {
		falls[costSteps-costStep(p.list[i].cost)]++
	}
	at := int32(0)
	for i, n := range falls {
		falls[i] = at
		at += n
	}
	p.byCost = slices.Grow(p.byCost[:0], len(p.list))[:len(p.list)]
	for i := range p.list {
		k := costSteps - costStep(p.list[i].cost)
		p.byCost[falls[k]] = int32(i)
		falls[k]++
	}
	for _, i := range p.byCost {
		g := group(&p.list[i])
		p.sorted[p.groups[g]] = i
		p.groups[g]++
	}
	for g := groups; g > 0; g-- {
		p.groups[g] = p.groups[g-1]
	}
	p.groups[0] = 0
}

// even reports whether all segments cost the same.
func (p *segments) even() bool {
	for i := range p.list {
		if p.list[i].cost != p.list[0].cost {
			return false
		}
	}
	return true
}

const costSteps = 64 * 8

// costStep returns the step of a cost: eight steps per doubling.
func costStep(cost int) int {
	n := bits.Len(uint(cost))
	if n < 4 {
		return cost
	}
	return n<<3 | cost>>(n-4)&7
}
