package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
)

// The commit cycle. This file alone begins and ends transactions.
//
// A cycle is a set of results: for each partition that has joined it, the
// outputs of the records from its last committed offset to `next`, the
// snapshots of some of its keys, and the replay floor. Partitions add to the
// open cycle as they finish chunks (join.go); the main goroutine
// closes it, puts a fresh one in its place and commits:
//
//	partitions    fold score encode -> open cycle n+1 ...
//	main          close n: AddPartitions, AddOffsets | Produce, TxnOffsetCommit | EndTxn
//
// so the work on cycle n+1 overlaps the commit of n, and a transaction is open
// only while its bytes travel.
//
// What breaks, and what is done about it. Transactions of version 1 can be torn
// when a request of unknown outcome is followed by anything else of the same
// producer id and epoch (KIP-890 tells how). So after any error but a definite
// success the producer is abandoned: abort if it can still be said, Init again
// (a new epoch: whatever is still under way is refused), and only then ask for
// the committed offsets. Init returns after the old transaction has ended one
// way or the other, so the offsets read after it are the truth: they equal the
// cycle's (it was committed, the reply was lost), or the previous ones (it was
// not). Each partition goes back to the mark that equals them; a partition
// whose offsets are neither has been taken by another member and is dropped.
//
// EndTxn(commit) alone is repeated when its outcome is not known, with the same
// epoch (kafka/end.go): a coordinator that dies with it in hand may have told some
// partitions already, and Init at its successor could abort the rest. If a
// repetition is answered with success, the cycle is committed and nothing goes back.
// But a request of before may still be on its way, and would end the transaction
// that follows: Init comes first then, too (commitOpen). What a repetition is
// refused with, or no answer until the transaction's time-out is near, leaves the
// outcome open: Init, and the offsets tell.

// cycle collects the results of one transaction.
type cycle struct {
	outs       *outputs
	codec      record.Codec
	newBatches func(maxBytes int, codec record.Codec) *record.Batches
	sinks      [outputCount][]sink // by output and partition of its topic
	changelog  sync.Map            // kafka.TP of the changelog -> *sink

	mu      sync.Mutex
	parts   map[*partition]*part
	room    room
	bytes   int
	records int
	full    bool
	spoilt  error // results were added in part: the cycle must not be committed
}

// part is what one partition has in a cycle.
type part struct {
	next    int64 // offset after the last record
	leader  record.Epoch
	floor   keystate.Floor
	log     string // the changelog's incarnation
	counts  counts
	held    int64   // samples that are held for order after the last record
	samples []int64 // event times (us) of a sample of the rows, for the latency
	recent  []RecentAnomaly
	fetched time.Time
}

// latencyRows is about how many rows of a part have their latency observed.
const latencyRows = 256

// extend adds the results that follow.
func (have *part) extend(r *part) {
	have.next, have.leader, have.floor, have.held = r.next, r.leader, r.floor, r.held
	have.counts.add(&r.counts)
	have.recent = append(have.recent, r.recent...)
	if over := len(have.recent) - maxRecent; over > 0 {
		have.recent = have.recent[over:]
	}
	if len(have.samples) < latencyRows {
		have.samples = append(have.samples, r.samples...)
	}
}

// sink is the growing batches of one output partition.
type sink struct {
	mu  sync.Mutex
	b   *record.Batches
	max int // bytes of a batch in b
}

// newCycle returns an empty cycle. Batches begin with a small one where they are those
// of a transaction; without one there is nothing that it would help.
func newCycle(o *outputs, codec record.Codec, g Guarantee) *cycle {
	newBatches := record.NewBatches
	if g == ExactlyOnce {
		newBatches = record.NewTransactionBatches
	}
	c := &cycle{outs: o, codec: codec, newBatches: newBatches, parts: map[*partition]*part{}}
	for i := range o.topics {
		c.sinks[i] = make([]sink, o.topics[i].partitions)
	}
	return c
}

// lock locks s, making its batches for topic t at first use.
func (c *cycle) lock(s *sink, t *topic) *record.Batches {
	s.mu.Lock()
	if s.b == nil || s.max != t.batchBytes && s.b.Count() == 0 {
		s.b, s.max = c.newBatches(t.batchBytes, c.codec), t.batchBytes
	}
	return s.b
}

// each calls f for the sink of every partition of the topics but the changelogs.
func (c *cycle) each(f func(tp kafka.TP, s *sink)) {
	for o, sinks := range c.sinks {
		for i := range sinks {
			f(kafka.TP{Topic: c.outs.topics[o].name, Partition: int32(i)}, &sinks[i])
		}
	}
}

// written returns how many records the cycle has for an output.
func (c *cycle) written(o Output) (records int) {
	for i := range c.sinks[o] {
		if b := c.sinks[o][i].b; b != nil {
			records += b.Count()
		}
	}
	return records
}

// reset empties the cycle and keeps its memory: the batches of a cycle of 32 MB
// cost more to make anew than to fill.
func (c *cycle) reset() {
	reset := func(_ kafka.TP, s *sink) {
		if s.b != nil {
			s.b.Reset()
		}
	}
	c.each(reset)
	c.changelog.Range(func(k, v any) bool {
		reset(k.(kafka.TP), v.(*sink))
		return true
	})
	c.parts = map[*partition]*part{} // its offsets may be on their way still
	c.bytes, c.records, c.full = 0, 0, false
}

// add makes a partition's results up to r.next part of the cycle.
func (c *cycle) add(pt *partition, r part, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.parts[pt]
	if have == nil {
		have = &part{fetched: r.fetched}
		c.parts[pt] = have
	}
	have.extend(&r)
	have.log = pt.owner.now.Incarnation
	c.bytes += bytes
	c.records += int(r.counts.consumed)
	c.full = c.bytes >= c.room.bytes || c.records >= cycleRecords
}

// spoil keeps the cycle from being committed.
func (c *cycle) spoil(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoilt == nil {
		c.spoilt = err
	}
}

// batches lists what the cycle writes; changelogs apart, because at least once
// they go after the outputs.
func (c *cycle) batches() (outs, logs map[kafka.TP]*record.Batches, tps []kafka.TP) {
	outs, logs = map[kafka.TP]*record.Batches{}, map[kafka.TP]*record.Batches{}
	put := func(m map[kafka.TP]*record.Batches, tp kafka.TP, s *sink) {
		if s.b != nil && s.b.Count() > 0 {
			m[tp] = s.b
			tps = append(tps, tp)
		}
	}
	c.each(func(tp kafka.TP, s *sink) { put(outs, tp, s) })
	c.changelog.Range(func(k, v any) bool {
		put(logs, k.(kafka.TP), v.(*sink))
		return true
	})
	return outs, logs, tps
}

// sourceOffsets are the source offsets of results with the replay floors as
// metadata.
func sourceOffsets(parts map[*partition]*part) map[kafka.TP]kafka.Offset {
	m := make(map[kafka.TP]kafka.Offset, len(parts))
	for pt, r := range parts {
		m[pt.tp] = kafka.Offset{Offset: r.next, Metadata: pt.metadata(r), Epoch: r.leader}
	}
	return m
}

// forwarded is the commit metadata of a partition under ODRADEK_REKEY. It is no
// replay floor, so that state from before is not taken for present when the
// setting is turned off again.
const forwarded = "forwarded"

// promptBytes is the size from which on a cycle does not wait for the commit
// interval: what a transaction costs by itself is little beside its bytes then, and
// what came first in it would only wait longer.
const promptBytes = 4 << 20

// prompt reports whether the open cycle is to be committed as soon as the last
// commit is done, whatever the commit interval.
func (p *Processor) prompt() bool {
	p.joinMu.RLock()
	defer p.joinMu.RUnlock()
	p.open.mu.Lock()
	defer p.open.mu.Unlock()
	return p.open.full || p.open.bytes >= promptBytes
}

// closeOpen takes the open cycle and puts an empty one in its place.
func (p *Processor) closeOpen() *cycle {
	p.joinMu.Lock()
	c := p.open
	if p.open = p.spare; p.open == nil {
		p.open = newCycle(&p.outputs, p.cfg.Codec, p.cfg.Guarantee)
	}
	p.open.room = p.pace.room(len(p.parts))
	p.spare = nil
	close(p.swapped)
	p.swapped = make(chan struct{})
	p.joinMu.Unlock()
	return c
}

// commitOpen commits the open cycle, if there is anything in it. An error is
// one that ends the worker; everything else is recovered from here.
func (p *Processor) commitOpen(ctx context.Context) error {
	c := p.closeOpen()
	if c.spoilt != nil {
		return p.discard(ctx, c)
	}
	if len(c.parts) == 0 {
		p.spare = c
		return nil
	}
	if p.producer.NeedsInit() { // after a commit that took more than one request
		if err := p.reinit(ctx); err != nil {
			return err
		}
	}
	p.recountOnce(ctx)
	p.lastCommit = time.Now()
	resent := p.producer.Resent()
	err := p.commit(ctx, c)
	p.cfg.Metrics.resent(p.producer.Resent() - resent)
	p.trouble.over(p.log, "cycle")
	took := time.Since(p.lastCommit)
	if err != nil {
		p.pace.failed(c.bytes, c.records, took)
		p.cfg.Metrics.aborted(err)
		return p.recover(ctx, c, err)
	}
	p.cfg.Metrics.committed(c, took)
	p.pace.committed(c.bytes, c.records, took)
	if p.cfg.Guarantee == ExactlyOnce {
		p.settled(c.parts)
	} else {
		p.offsets.add(c.parts)
		p.commitOffsets(ctx)
	}
	// Every request was answered, so nothing reads the batches any more.
	c.reset()
	p.spare = c
	return nil
}

// settled takes in that the offsets of these results are committed.
func (p *Processor) settled(parts map[*partition]*part) {
	for pt, r := range parts {
		p.cfg.Metrics.committedPart(pt, r)
		pt.committed.Store(r.next)
		pt.committedAt.Store(time.Now().UnixNano())
		pt.fresh.Store(false)
		if pt.starting.Swap(false) {
			pt.send(goOn)
		}
	}
}

// commit makes the cycle's results visible together. A nil error is the only
// definite outcome.
func (p *Processor) commit(work context.Context, c *cycle) error {
	ctx, cancel := context.WithTimeout(work, p.cfg.TransactionTimeout)
	defer cancel()
	outs, logs, _ := c.batches()
	if p.cfg.Guarantee == ExactlyOnce {
		for tp, b := range logs {
			outs[tp] = b
		}
		offs := sourceOffsets(c.parts)
		p.cfg.Hooks.step(BeforeSend, c)
		// A rebalance may be in the way of the offsets. What this cycle holds is still
		// ours until a Revoked event is done or a Lost one comes, so they go again.
		sent := false
		err := p.member.Commit(ctx, func(gen kafka.Generation) error {
			if sent {
				return p.producer.CommitOffsets(ctx, gen, p.cfg.Group, offs)
			}
			sent = true
			return p.producer.Send(ctx, outs, gen, p.cfg.Group, offs)
		})
		if err != nil {
			return fmt.Errorf("processor: send cycle: %w", err)
		}
		p.cfg.Hooks.step(BeforeEnd, c)
		if err := p.producer.End(ctx, true); err != nil {
			return fmt.Errorf("processor: commit transaction: %w", err)
		}
		p.cfg.Hooks.step(AfterEnd, c)
		return nil
	}
	// At least once: the outputs must be there before the state that has
	// forgotten them, and both before the offsets (offsets.go).
	err := p.cfg.Hooks.beforeOutputs(c, func() error { return p.commitOutside(work, sourceOffsets(c.parts)) })
	if err != nil {
		return err
	}
	if err := p.producer.Produce(ctx, outs); err != nil {
		return fmt.Errorf("processor: produce outputs: %w", err)
	}
	p.cfg.Hooks.step(BeforeChangelog, c)
	if err := p.producer.Produce(ctx, logs); err != nil {
		return fmt.Errorf("processor: produce state: %w", err)
	}
	p.cfg.Hooks.step(BeforeOffsets, c)
	return nil
}

// recover brings every partition back to its committed offset after a cycle
// whose outcome is not a definite success. See the head of this file.
func (p *Processor) recover(ctx context.Context, c *cycle, cause error) error {
	p.giveUpOffsets()
	class := kafka.ClassOf(cause)
	p.trouble.warn(p.log, "cycle: "+class.String(), "cycle failed, going back to the committed offsets", "err", cause, "class", class.String())
	switch class {
	case kafka.InstanceFenced:
		// While the membership lasts, the instance id is ours: the commit carried
		// the member id of a session that was lost, and a Lost event is on its way.
		if p.member.Err() != nil {
			return fmt.Errorf("%w: %w", ErrInstanceFenced, cause)
		}
	case kafka.Fatal:
		if !p.blame(cause) {
			return cause
		}
	case kafka.Abortable:
		p.blame(cause)
	}
	// Refuse further results before the producer is touched: partitions see the
	// new epoch at their next join and throw away what they have.
	p.stopJoins()
	var refused *kafka.ProduceError
	if class == kafka.TooLarge && errors.As(cause, &refused) {
		p.shrink(refused.TP.Topic)
	}
	if class == kafka.Fenced {
		if err := p.stillMember(ctx); err != nil {
			return err
		}
	}
	if p.cfg.Guarantee == ExactlyOnce && class != kafka.Unknown && class != kafka.Fenced {
		actx, cancel := context.WithTimeout(ctx, p.cfg.TransactionTimeout)
		if err := p.producer.End(actx, false); err != nil {
			p.trouble.warn(p.log, "cycle: abort", "abort failed, the producer is abandoned", "err", err)
		}
		cancel()
	}
	if err := p.reinit(ctx); err != nil {
		return err
	}
	return p.rollback(ctx, c)
}

// stopJoins starts a new epoch with an empty open cycle.
func (p *Processor) stopJoins() {
	p.joinMu.Lock()
	p.epoch++
	p.open = newCycle(&p.outputs, p.cfg.Codec, p.cfg.Guarantee)
	p.open.room = p.pace.room(len(p.parts))
	close(p.swapped)
	p.swapped = make(chan struct{})
	p.joinMu.Unlock()
}

// shrink halves the batches of a topic that takes less than it did: its
// max.message.bytes was lowered. The same batches again would be refused again.
func (p *Processor) shrink(name string) {
	p.joinMu.Lock()
	defer p.joinMu.Unlock()
	for _, t := range p.outputs.all() {
		if t.name == name {
			t.batchBytes = max(t.batchBytes/2, leastBatch)
			p.log.Warn("the topic takes smaller batches than it did", "topic", name, "bytes", t.batchBytes)
		}
	}
}

// reinit gives the producer a new epoch; whatever the old one has under way is
// refused by the brokers from here on.
func (p *Processor) reinit(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		ictx, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := p.producer.Init(ictx)
		cancel()
		if err == nil {
			return nil
		}
		if kafka.ClassOf(err) == kafka.Fatal || ctx.Err() != nil {
			return fmt.Errorf("processor: restart the producer: %w", err)
		}
		p.trouble.warn(p.log, "cycle: restart", "producer restart failed, trying again", "err", err)
		select {
		case <-time.After(wait):
		case err := <-p.fatal:
			return err
		}
	}
}

// rollback puts every partition at its committed offset. c, which may be nil,
// is the cycle whose outcome was not known; its partitions may have advanced.
func (p *Processor) rollback(ctx context.Context, c *cycle) error {
	var tps []kafka.TP
	for tp, pt := range p.parts {
		if pt.running.Load() {
			tps = append(tps, tp)
		}
	}
	if len(tps) == 0 {
		return nil
	}
	offs, err := p.known(ctx, tps)
	if err != nil {
		return err
	}
	// A partition that was restored while the producer began anew may have results
	// in the open cycle already. They are dropped and it goes back as all others:
	// told to go back with its results kept, it would bring them twice.
	p.stopJoins()
	for tp, pt := range p.parts {
		if !pt.running.Load() {
			continue // it will begin with the epoch of now
		}
		known, ok := offs[tp]
		if !ok {
			pt.restart(false)
			continue
		}
		off, before := known.Offset, pt.committed.Load()
		if off != before && c != nil && c.parts[pt] != nil && c.parts[pt].next == off {
			// The transaction was committed after all, only its reply was lost.
			pt.committed.Store(off)
			p.cfg.Metrics.committedPart(pt, c.parts[pt])
		} else if off != before && !(off == -1 && pt.fresh.Load()) {
			// Neither mark is ours: another member has committed. Whatever we
			// have is worthless; start over from what is committed.
			p.log.Warn("committed offset is another member's, restoring", "topic", tp.Topic, "partition", tp.Partition,
				"committed", off, "ours", before)
			pt.restart(true)
			continue
		}
		pt.restart(false)
	}
	return nil
}

// committedOffsets reads stable offsets, for as long as it takes: while a
// transaction of a dead worker is open its offsets are not known.
func (p *Processor) committedOffsets(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		offs, err := p.cfg.Client.Committed(cctx, p.cfg.Group, tps)
		cancel()
		if err == nil {
			p.trouble.over(p.log, "committed")
			return offs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if kafka.ClassOf(err) == kafka.Fatal {
			return nil, fmt.Errorf("processor: read committed offsets of group %q: %w", p.cfg.Group, err)
		}
		p.trouble.warn(p.log, "committed", "committed offsets cannot be read yet", "err", err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

var errStaleEpoch = errors.New("processor: the result is of an abandoned epoch")
