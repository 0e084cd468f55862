package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// outgoing is a partition's way through Produce.
type outgoing struct {
	tp      TP
	b       *Batches
	batch   int // the one to be sent
	batches int
	leader  int32
	sealed  []byte
	unknown int   // how often this batch's fate was unknown
	last    error // why it is being retried
}

// Produce sends the batches and returns when all in-sync replicas have them.
// Batches of a partition go one after the other, those of all partitions
// together: each round has one batch a partition, one request a leader, all
// leaders at the same time. What a broker cannot take at the moment (no leader,
// too few replicas, ...) is sent again with the same sequence number, so the log
// gets it once. An error about a batch is a *ProduceError. Batches are left as
// they are; a failed Produce may have written some of them.
func (p *Producer) Produce(ctx context.Context, out map[TP]*Batches) error {
	if err := p.usable(); err != nil {
		return err
	}
	var todo []*outgoing
	for tp, b := range out {
		if b.Count() == 0 {
			continue
		}
		if _, ok := p.added[tp]; !ok && p.transactional() {
			return fmt.Errorf("kafka: produce to %s, which AddPartitions has not made part of the transaction", tp)
		}
		todo = append(todo, &outgoing{tp: tp, b: b, batches: b.sealed()})
	}
	slices.SortFunc(todo, func(a, b *outgoing) int { return compareTP(a.tp, b.tp) })
	err := p.produce(ctx, todo)
	if err != nil {
		p.note(err, &p.outputs)
	}
	return err
}

func (p *Producer) produce(ctx context.Context, todo []*outgoing) error {
	retry := newPatience(p.cfg.Timeout)
	for len(todo) > 0 {
		p.seal(todo)
		failed := p.round(ctx, todo)

		// What went through advances, what failed for now stays.
		var stuck []*outgoing
		for _, o := range todo {
			if o.last != nil {
				stuck = append(stuck, o)
			}
		}
		if len(failed) > 0 {
			return gravest(append(failed, giveUp(stuck)...)...)
		}
		todo = slices.DeleteFunc(todo, func(o *outgoing) bool { return o.batch == o.batches })
		if len(stuck) == 0 {
			retry = newPatience(p.cfg.Timeout)
			continue
		}
		err := retry.wait(ctx, stuck[0].last)
		if err == nil {
			_ = p.c.refresh(ctx, topicsOf(stuck)...) // without news the old leaders are asked again
			if ctx.Err() == nil {
				continue
			}
			err = fmt.Errorf("%w; gave up: %w", stuck[0].last, context.Cause(ctx))
		}
		return gravest(append(giveUp(stuck), err)...)
	}
	return nil
}

// giveUp returns the errors of batches that are not retried any more. Where one
// may have been written its sequence number is used up, or is not: only Init
// makes that known again.
func giveUp(stuck []*outgoing) []error {
	var errs []error
	for _, o := range stuck {
		if mayBeWritten(o.last) {
			errs = append(errs, &classed{Unknown, o.last})
		} else {
			errs = append(errs, o.last)
		}
	}
	return errs
}

// mayBeWritten reports a retriable error after which the batch may be in the log.
func mayBeWritten(err error) bool {
	for _, code := range []kafkago.Error{kafkago.RequestTimedOut, kafkago.NotEnoughReplicasAfterAppend,
		kafkago.NetworkException, kafkago.KafkaStorageError} {
		if errors.Is(err, code) {
			return true
		}
	}
	return ClassOf(err) == Unknown
}

func topicsOf(todo []*outgoing) []string {
	var topics []string
	for _, o := range todo {
		topics = append(topics, o.tp.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// seal stamps each partition's current batch. The first time a batch is sealed
// it is compressed, which is worth several processors.
func (p *Producer) seal(todo []*outgoing) {
	one := func(o *outgoing) {
		o.sealed = o.b.seal(o.batch, p.id, p.epoch, p.next[o.tp], p.transactional())
	}
	workers := min(runtime.GOMAXPROCS(0), len(todo))
	size := 0
	for _, o := range todo {
		size += o.b.Bytes()
	}
	if workers < 2 || size < 128<<10 {
		for _, o := range todo {
			one(o)
		}
		return
	}
	var at atomic.Int32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := at.Add(1) - 1; int(i) < len(todo); i = at.Add(1) - 1 {
				one(todo[i])
			}
		})
	}
	wg.Wait()
}

// round sends the current batch of every partition and takes in the answers. It
// returns the errors that end Produce; a batch to be sent again has its reason in
// last.
func (p *Producer) round(ctx context.Context, todo []*outgoing) (failed []error) {
	ready := p.route(ctx, todo, &failed)
	slices.SortFunc(ready, func(a, b *outgoing) int { // a topic may stand in a request once
		return cmp.Or(cmp.Compare(a.leader, b.leader), compareTP(a.tp, b.tp))
	})
	type answer struct {
		sent []*outgoing
		res  *produceResponse
		err  error
	}
	answers := make(chan answer)
	requests := 0
	for i := 0; i < len(ready); {
		j, size := i, 0
		for j < len(ready) && ready[j].leader == ready[i].leader && (j == i || size+len(ready[j].sealed) <= maxRequestBytes) {
			size += len(ready[j].sealed)
			j++
		}
		sent, req := ready[i:j], p.request(ready[i:j], size)
		requests++
		go func() {
			m, err := p.c.roundTripWithin(ctx, replicationTimeout+5*time.Second, sent[0].leader, req)
			a := answer{sent: sent, err: err}
			if err == nil {
				a.res = m.(*produceResponse)
				p.recycle(req.buf)
			} // else a connection may still be reading the buffer
			answers <- a
		}()
		i = j
	}
	for range requests {
		a := <-answers
		for _, o := range a.sent {
			if err := p.take(o, a.res, a.err); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return failed
}

// route finds the leaders, asking for metadata once if some are not known.
func (p *Producer) route(ctx context.Context, todo []*outgoing, failed *[]error) (ready []*outgoing) {
	var unknown []*outgoing
	for _, o := range todo {
		var err error
		if o.leader, err = p.c.cachedLeader(o.tp); err != nil {
			unknown = append(unknown, o)
		} else {
			ready = append(ready, o)
		}
	}
	if len(unknown) == 0 {
		return ready
	}
	reason := p.c.refresh(ctx, topicsOf(unknown)...)
	for _, o := range unknown {
		var err error
		o.leader, err = p.c.cachedLeader(o.tp)
		if err == nil {
			ready = append(ready, o)
			continue
		}
		if reason != nil {
			err = reason
		}
		err = fmt.Errorf("kafka: produce to %s: no leader: %w", o.tp, err)
		if ClassOf(err) == Fatal {
			*failed = append(*failed, err)
		} else if !mayBeWritten(o.last) { // a fate still unknown stays so
			o.last = &classed{Retriable, err} // nothing was sent, whatever it was
		}
	}
	return ready
}

// request builds the request for some partitions of one leader.
func (p *Producer) request(parts []*outgoing, size int) *produceRequest {
	var buf []byte
	p.mu.Lock()
	if n := len(p.buffers); n > 0 {
		buf = p.buffers[n-1]
		p.buffers = p.buffers[:n-1]
	}
	p.mu.Unlock()
	topics := 0
	for i, o := range parts {
		size += len(o.tp.Topic) + 16
		if i == 0 || o.tp.Topic != parts[i-1].tp.Topic {
			topics++
		}
	}
	if cap(buf) < size+256 {
		buf = make([]byte, 0, size+size/8+256)
	}
	r := &produceRequest{}
	r.begin(buf, p.c.cfg.ClientID, p.cfg.TransactionalID, int32(replicationTimeout.Milliseconds()), topics)
	for i := 0; i < len(parts); {
		j := i
		for j < len(parts) && parts[j].tp.Topic == parts[i].tp.Topic {
			j++
		}
		r.topic(parts[i].tp.Topic, j-i)
		for ; i < j; i++ {
			r.partition(parts[i].tp.Partition, parts[i].sealed)
		}
	}
	return r
}

func (p *Producer) recycle(buf []byte) {
	p.mu.Lock()
	if len(p.buffers) < 16 {
		p.buffers = append(p.buffers, buf)
	}
	p.mu.Unlock()
}

// take applies the answer for one batch: the partition advances, or stays for
// another try, or has failed.
func (p *Producer) take(o *outgoing, res *produceResponse, err error) error {
	records := o.b.records(o.batch)
	if err != nil {
		err = fmt.Errorf("kafka: produce to %s: %w", o.tp, err)
	} else if i := slices.IndexFunc(res.results, func(r produceResult) bool { return r.tp == o.tp }); i < 0 {
		err = &classed{Unknown, fmt.Errorf("kafka: produce to %s: the answer does not name the partition", o.tp)}
	} else if r := &res.results[i]; r.code != 0 && r.code != kafkago.DuplicateSequenceNumber {
		err = &ProduceError{TP: o.tp, Code: r.code, Message: r.message, Batch: o.batch, Records: records, Bytes: len(o.sealed) - sizePrefix}
	} else {
		// A duplicate is a batch that an earlier try has written.
		p.next[o.tp] = int32(uint32(p.next[o.tp]+int32(records)) & 0x7fffffff)
		o.batch++
		o.unknown, o.last = 0, nil
		return nil
	}
	switch ClassOf(err) {
	case Retriable:
		// If an earlier try may have been written, this one's "no" does not undo it.
		if !mayBeWritten(o.last) {
			o.last = err
		}
		return nil
	case Unknown:
		o.last = err
		if !p.transactional() && o.unknown < unknownRetries {
			o.unknown++ // the same sequence again: the log takes it once
			return nil
		}
	}
	return err
}
