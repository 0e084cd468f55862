package processor

import (
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
)

// A partition of an output topic has output of many input partitions, in the same batches, and a broker that refuses a
// record refuses its whole batch. The refusal says which record it was only in some versions and for some reasons, so the
// partition whose output it is is found by what every broker says, the number of the batch:
//
//  1. A batch with output of several partitions is refused. From then on no batch for its topic has output of two of them
//     (cycle.Topic.Apart). The cycle is rolled back and made again.
//  2. A batch with output of one partition is refused. That partition is quarantined, and the others go on without it.
//  3. When a cycle is committed that has output for the topic, batches are shared again.
//
// A refusal that does not say whether a retry can succeed counts as one once it has ended several cycles (doubt).
//
// If in this way every partition of the worker is found, the topic refuses everything: a clock is wrong, or the topic was
// configured so. No partition is to blame for that, and a quarantine would outlast the fault, so all of them are released
// and the cycle is tried until it succeeds, as with any fault of all partitions.

// refusals finds the input partitions whose output brokers refuse. The main goroutine owns it.
type refusals struct {
	found map[string][]*partition // by output topic: those quarantined since the last committed cycle with output for it
	whole map[string]bool         // topics that refuse the output of every partition
	doubt doubt
}

// doubt is a series of failed cycles in which batches for one topic were refused without a reason (kafka.Doubtful). Each
// cycle is tried again, until the series is long enough that the batch is to blame and not the broker's moment.
type doubt struct {
	topic string
	from  []kafka.TP // input partitions whose output was in the last batch
	began time.Time
	times int
}

// doubtfulCycles is the least number of cycles of such a series, which also lasts a transaction's time-out at least.
const doubtfulCycles = 3

// persists notes that a batch of cycle c was refused without a reason, and reports whether that has been so for long.
func (rf *refusals) persists(cm *commits, c *cycle.Cycle[*partition], b kafka.Blame, now time.Time) bool {
	if rf.doubt.topic != b.TP.Topic {
		rf.doubt = doubt{topic: b.TP.Topic, began: now}
	}
	rf.doubt.times++
	if rf.doubt.from = c.Payload.Origins(b.TP, b.Batch); rf.doubt.from == nil { // of a changelog
		for tp := range cm.assigned.partitions {
			if t := cm.outputs.Changelog(tp.Topic); t != nil && t.Name == b.TP.Topic && tp.Partition == b.TP.Partition {
				rf.doubt.from = append(rf.doubt.from, tp)
			}
		}
	}
	return rf.doubt.times >= doubtfulCycles && now.Sub(rf.doubt.began) >= cm.cfg.TransactionTimeout
}

// handle handles the refusal of a batch of cycle c.
func (rf *refusals) handle(cm *commits, c *cycle.Cycle[*partition], b kafka.Blame, cause error) {
	topic := b.TP.Topic
	if rf.whole[topic] {
		return
	}
	from := c.Payload.Origins(b.TP, b.Batch)
	if len(from) != 1 {
		cm.apart(topic, true)
		cm.log.Warn("a batch with output of several partitions is refused, looking for the one whose output it is", "output", b.TP.String(),
			"partitions", len(from), "err", cause)
		return
	}
	pt := cm.assigned.partitions[from[0]]
	if pt == nil || pt.confined.Load() != nil {
		return
	}
	if rf.found == nil {
		rf.found, rf.whole = map[string][]*partition{}, map[string]bool{}
	}
	rf.found[topic] = append(rf.found[topic], pt)
	for _, other := range cm.assigned.partitions {
		if other != pt && other.confined.Load() == nil {
			pt.confine(Refused, cause)
			return
		}
	}
	if len(rf.found[topic]) == 1 { // the only partition
		pt.confine(Refused, cause)
		return
	}
	rf.whole[topic] = true
	for _, pt := range rf.found[topic] {
		pt.confined.Store(nil)
	}
	cm.log.Error(
		"the topic refuses the output of every partition, so none is to blame: they are out of quarantine, and the cycle is tried again",
		"topic",
		topic,
		"err",
		cause,
		"decide",
		"compare the clocks of worker and brokers, and the topic's configuration",
	)
}

// committed notes that cycle c is committed.
func (rf *refusals) committed(cm *commits, c *cycle.Cycle[*partition]) {
	if !slices.ContainsFunc(rf.doubt.from, func(tp kafka.TP) bool {
		pt := cm.assigned.partitions[tp]
		return pt != nil && c.Results[pt] == nil
	}) {
		rf.doubt = doubt{} // what was refused is written
	}
	for topic := range rf.found {
		if c.Payload.Has(topic) {
			delete(rf.found, topic)
			delete(rf.whole, topic)
			cm.apart(topic, false)
		}
	}
}

// apart sets whether batches for an output topic have output of one partition alone.
func (cm *commits) apart(topic string, apart bool) {
	cm.cycles.Write(func() { cm.outputs.Output(topic).Apart = apart })
}
