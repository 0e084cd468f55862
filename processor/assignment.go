package processor

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// assignment holds the partitions that the group has assigned to the worker. Only the main goroutine
// changes it; any goroutine may read the status of its partitions.
type assignment struct {
	partitions map[kafka.TP]*partition // main goroutine only
	budget     *cycle.Budget
	metrics    *metrics.Metrics

	mu     sync.Mutex
	status map[kafka.TP]*partition // for list
}

func newAssignment(budget *cycle.Budget, m *metrics.Metrics) *assignment {
	return &assignment{partitions: map[kafka.TP]*partition{}, budget: budget, metrics: m, status: map[kafka.TP]*partition{}}
}

// drop ends a partition at once, without committing its results.
func (a *assignment) drop(pt *partition) {
	pt.running.Store(false)
	pt.cancel()
	pt.wait()
	a.remove(pt)
}

// dropAll ends all partitions at once.
func (a *assignment) dropAll() {
	for _, pt := range a.partitions {
		a.drop(pt)
	}
}

// add adds a partition.
func (a *assignment) add(pt *partition) {
	a.partitions[pt.tp] = pt
	a.mu.Lock()
	a.status[pt.tp] = pt
	a.budget.Join(pt.tp)
	a.mu.Unlock()
}

// remove removes a partition that has ended.
func (a *assignment) remove(pt *partition) {
	pt.cancel()
	delete(a.partitions, pt.tp)
	a.mu.Lock()
	delete(a.status, pt.tp)
	a.budget.Leave(pt.tp)
	a.mu.Unlock()
	a.metrics.DropPartition(pt.tp)
}

// undecided returns why each partition is in quarantine until an operator decides, or nil if one is not.
func (a *assignment) undecided() RefusedErrors {
	var all RefusedErrors
	for _, tp := range slices.SortedFunc(maps.Keys(a.partitions), kafka.TP.Compare) {
		pt := a.partitions[tp]
		refusal := pt.refusal.Load()
		if q := pt.confined.Load(); q == nil || q.Reason != Undecided || refusal == nil {
			return nil
		}
		all = append(all, refusal)
	}
	return all
}

// running returns the partitions that are restored, and so have or may have uncommitted results.
func (a *assignment) running() []kafka.TP {
	var tps []kafka.TP
	for tp, pt := range a.partitions {
		if pt.running.Load() {
			tps = append(tps, tp)
		}
	}
	return tps
}

// lag returns the offsets that are not committed yet, of all partitions whose end is known.
func (a *assignment) lag() (sum int64) {
	for _, pt := range a.partitions {
		sum += max(0, pt.end.Load()-pt.committed.Load())
	}
	return sum
}

// committed records that the offsets of these results are committed.
func (a *assignment) committed(rs results) {
	for pt, r := range rs {
		a.metrics.Worked(pt.tp, &r.Work, r.Floor.Offset, r.Next, pt.end.Load())
		pt.committed.Store(r.Next)
		if r.Advance {
			pt.advance.Store(advanceCommitted)
		}
		pt.status.CommittedNow()
		pt.fresh.Store(false)
		if pt.starting.Swap(false) {
			pt.commands.send(goOn)
		}
	}
}

// list returns the status of each partition, by topic and partition.
func (a *assignment) list() []metrics.PartitionStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]metrics.PartitionStatus, 0, len(a.status))
	for _, pt := range a.status {
		out = append(out, pt.status.Status(pt.progress()))
	}
	slices.SortFunc(out, func(a, b metrics.PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}
