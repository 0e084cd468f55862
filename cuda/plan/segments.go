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

// chainWeight is the approximate number of chains that a device computes at once: a single chain costs
// that factor more than its share of a full device. copyRate is the bytes a nanosecond to or from a
// device (PCIe of the fifth generation, measured).
const (
	chainWeight = 128
	copyRate    = 50
)

// sort orders the segments by wave and class, of which there are classes, then by falling cost in steps of an eighth, then by
// index. It is a counting sort, since there may be 100,000.
func (ss *segments) sort(classes int) {
	groups := (int(ss.waves) + 1) * classes
	dearer := func(s segment) bool { return s.cost != ss.list[0].cost }
	if groups == 1 && !slices.ContainsFunc(ss.list, dearer) { // the usual batch: many keys, one detector
		ss.sorted = slices.Grow(ss.sorted[:0], len(ss.list))[:len(ss.list)]
		for i := range ss.sorted {
			ss.sorted[i] = int32(i)
		}
		ss.groups = append(ss.groups[:0], 0, int32(len(ss.list)))
		return
	}
	ss.groups = slices.Grow(ss.groups[:0], groups+1)[:groups+1]
	clear(ss.groups)
	group := func(s *segment) int { return int(s.wave)*classes + int(s.class) }
	for i := range ss.list {
		ss.groups[group(&ss.list[i])+1]++
	}
	for g := range groups {
		ss.groups[g+1] += ss.groups[g]
	}
	ss.sorted = slices.Grow(ss.sorted[:0], len(ss.list))[:len(ss.list)]
	falls := [costSteps + 1]int32{}
	for i := range ss.list {
		falls[costSteps-costStep(ss.list[i].cost)]++
	}
	at := int32(0)
	for i, n := range falls {
		falls[i] = at
		at += n
	}
	ss.byCost = slices.Grow(ss.byCost[:0], len(ss.list))[:len(ss.list)]
	for i := range ss.list {
		k := costSteps - costStep(ss.list[i].cost)
		ss.byCost[falls[k]] = int32(i)
		falls[k]++
	}
	for _, i := range ss.byCost {
		g := group(&ss.list[i])
		ss.sorted[ss.groups[g]] = i
		ss.groups[g]++
	}
	for g := groups; g > 0; g-- {
		ss.groups[g] = ss.groups[g-1]
	}
	ss.groups[0] = 0
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
