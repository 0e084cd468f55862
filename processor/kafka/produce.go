package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"odradek/processor/kafka/record"
)

// outgoing is a partition's way through Produce.
type outgoing struct {
	tp      TP
	b       *record.Batches
	batch   int // the one to be sent
	batches int
	leader  int32
	next    int32 // sequence number of the batch
	sealed  []byte
	last    error // why it is being retried
	waited  bool  // and has waited since it last went through
}

// Produce sends the batches and returns when all in-sync replicas have them.
// Batches of a partition go one after the other, as sequence numbers ask; batches
// of different partitions do not wait for one another: a leader has up to
// leaderRequests requests in flight, and while it works on these the next batches
// are sealed. What a broker cannot take at the moment (no leader, too few
// replicas, ...) is sent again with the same sequence number, so the log gets it
// once. An error about a batch is a *ProduceError. Batches are left as they are; a
// failed Produce may have written some of them.
func (p *Producer) Produce(ctx context.Context, out map[TP]*record.Batches) error {
	if err := p.usable(); err != nil {
		return err
	}
	var todo []*outgoing
	for tp, b := range out {
		if b.Count() == 0 {
			continue
		}
		if _, ok := p.txn.added[tp]; !ok && p.identity.transactional() {
			return fmt.Errorf("kafka: produce to %s, which AddPartitions has not made part of the transaction", tp)
		}
		todo = append(todo, &outgoing{tp: tp, b: b, batches: b.Finish()})
	}
	slices.SortFunc(todo, func(a, b *outgoing) int { return record.TP.Compare(a.tp, b.tp) })
	err := p.send.all(ctx, todo)
	if err != nil {
		p.txn.note(err, &p.txn.outputs)
	}
	return err
}

// sender sends batches to the leaders of their partitions.
type sender struct {
	identity *identity
	cluster  *Cluster
	txn      *transaction
	gates    *gates
	timeout  time.Duration // of retries

	next    map[TP]int32   // the next sequence number, where it is not 0
	buffers requestBuffers // memory of requests that are over
	resent  atomic.Int64
}

// all sends every batch of the partitions in ready, and returns when the last is answered.
func (s *sender) all(ctx context.Context, ready []*outgoing) error {
	var (
		stuck   []*outgoing // to be sent again, after a while
		failed  []error     // what ends Produce, when no request is in flight any more
		answers = make(chan produceAnswer, len(ready))
		flying  = map[int32]*flight{} // by leader
		total   int
		retry   *patience
	)
	for {
		if len(failed) == 0 && len(ready) > 0 {
			ready = s.route(ctx, ready, &stuck, &failed)
		}
		if len(failed) == 0 {
			var n int
			ready, n = s.send(ctx, ready, flying, answers)
			total += n
		}
		if total > 0 {
			a := <-answers
			total--
			f := flying[a.sent[0].leader]
			f.requests--
			if s.isFirst(a.sent[0]) { // take has not counted the batch yet
				f.first = false
			}
			for _, o := range a.sent {
				err := s.apply(o, a.res, a.err)
				switch {
				case err != nil:
					failed = append(failed, err)
				case o.last != nil:
					s.resent.Add(1)
					stuck = append(stuck, o)
				case o.batch < o.batches:
					ready = append(ready, o)
				}
			}
			continue
		}
		if len(failed) > 0 {
			return gravest(append(failed, giveUp(append(stuck, ready...))...)...)
		}
		if len(stuck) == 0 {
			return nil
		}
		if retry == nil || !slices.ContainsFunc(stuck, func(o *outgoing) bool { return o.waited }) {
			retry = newPatience(s.timeout)
		}
		err := retry.wait(ctx, stuck[0].last)
		if err == nil {
			_ = s.cluster.Refresh(ctx, topicsOf(stuck)...) // without news the old leaders are asked again
			if ctx.Err() != nil {
				err = fmt.Errorf("%w; gave up: %w", stuck[0].last, context.Cause(ctx))
			}
		}
		if err != nil {
			return gravest(append(giveUp(stuck), err)...)
		}
		for _, o := range stuck {
			o.waited = true
		}
		ready, stuck = stuck, nil
	}
}

// giveUp returns the errors of batches that are not retried any more. Where one
// may have been written its sequence number is used up, or is not: only Init
// makes that known again.
func giveUp(stuck []*outgoing) []error {
	var errs []error
	for _, o := range stuck {
		if o.last == nil {
			continue // nothing of its batch has been sent
		}
		if mayBeWritten(o.last) {
			errs = append(errs, &classed{Unknown, o.last})
		} else {
			errs = append(errs, o.last)
		}
	}
	return errs
}

// mayBeWritten reports whether the batch may be in the log after a retriable error.
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

// flight counts the requests in flight at a leader.
type flight struct {
	requests int
	first    bool // one of them has first batches
}

// produceAnswer is the outcome of a request.
type produceAnswer struct {
	sent []*outgoing
	res  *produceResponse
	err  error
}

// isFirst reports whether the batch would be the transaction's first in its partition.
func (s *sender) isFirst(o *outgoing) bool { return s.identity.transactional() && !s.txn.added[o.tp] }

// send starts requests with the current batches of the partitions, in their
// order, as far as their leaders have room, and returns those that have to wait
// and how many requests there are. A request holds about requestBytes, so that the
// leader works on several at a time and none waits for a large one to be sealed.
// First batches go in one request at a time, beside others (see gates).
func (s *sender) send(ctx context.Context, ready []*outgoing, flying map[int32]*flight,
	answers chan<- produceAnswer) (rest []*outgoing, requests int) {
	for len(ready) > 0 {
		leader, first := ready[0].leader, s.isFirst(ready[0])
		f := flying[leader]
		if f == nil {
			f = &flight{}
			flying[leader] = f
		}
		if f.requests == leaderRequests || first && f.first {
			rest = append(rest, ready[0])
			ready = ready[1:]
			continue
		}
		var sent, others []*outgoing
		size := 0
		for _, o := range ready {
			n := o.b.Size(o.batch)
			if o.leader != leader || s.isFirst(o) != first || len(sent) > 0 && size+n > requestBytes {
				others = append(others, o)
				continue
			}
			size += n
			o.next = s.next[o.tp]
			sent = append(sent, o)
		}
		ready = others
		slices.SortFunc(sent, func(a, b *outgoing) int { return record.TP.Compare(a.tp, b.tp) }) // a topic may stand in a request once
		f.requests++
		f.first = f.first || first
		requests++
		go func() { answers <- s.exchange(ctx, leader, first, sent) }()
	}
	return rest, requests
}

// exchange seals the batches, which compresses a partition's last one the first time, and sends
// them to their leader.
func (s *sender) exchange(ctx context.Context, leader int32, first bool, sent []*outgoing) produceAnswer {
	size := 0
	for _, o := range sent {
		o.sealed = o.b.Seal(o.batch, s.identity.id, s.identity.epoch, o.next, s.identity.transactional())
		size += len(o.sealed)
	}
	req := s.request(sent, size)
	if first {
		g := s.gates.gate(leader)
		g.Lock()
		defer g.Unlock()
	}
	m, err := s.cluster.RoundTripWithin(ctx, replicationTimeout+5*time.Second, leader, req)
	if err != nil {
		return produceAnswer{sent: sent, err: err} // a connection may still be reading the buffer
	}
	s.buffers.put(req.buf)
	return produceAnswer{sent: sent, res: m.(*produceResponse)}
}

// route finds the leaders, asking for metadata once if some are not known.
// Partitions that have none become stuck.
func (s *sender) route(ctx context.Context, todo []*outgoing, stuck *[]*outgoing, failed *[]error) (ready []*outgoing) {
	var unknown []*outgoing
	for _, o := range todo {
		var err error
		if o.leader, _, err = s.cluster.Leader(o.tp); err != nil {
			unknown = append(unknown, o)
		} else {
			ready = append(ready, o)
		}
	}
	if len(unknown) == 0 {
		return ready
	}
	reason := s.cluster.Refresh(ctx, topicsOf(unknown)...)
	for _, o := range unknown {
		var err error
		o.leader, _, err = s.cluster.Leader(o.tp)
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
			continue
		}
		if !mayBeWritten(o.last) { // an outcome that is unknown stays so
			o.last = &classed{Retriable, err} // nothing was sent
		}
		*stuck = append(*stuck, o)
	}
	return ready
}

// request builds the request for some partitions of one leader.
func (s *sender) request(parts []*outgoing, size int) *produceRequest {
	topics := 0
	for i, o := range parts {
		size += len(o.tp.Topic) + 16
		if i == 0 || o.tp.Topic != parts[i-1].tp.Topic {
			topics++
		}
	}
	r := &produceRequest{}
	buf := s.buffers.get(size+256, size/8)
	r.start(buf, s.cluster.transport.dialer.cfg.ClientID, s.identity.transactionalID, int32(replicationTimeout.Milliseconds()), topics)
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

// requestBuffers is memory for requests.
type requestBuffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns memory for size bytes; what is made for it has extra bytes more.
func (b *requestBuffers) get(size, extra int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var buf []byte
	if n := len(b.free); n > 0 {
		buf = b.free[n-1]
		b.free = b.free[:n-1]
	}
	if cap(buf) < size {
		buf = make([]byte, 0, size+extra)
	}
	return buf
}

// put takes memory back that nothing reads or writes any more.
func (b *requestBuffers) put(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) < 16 {
		b.free = append(b.free, buf)
	}
}

// apply applies the answer for one batch: the partition advances, or stays for
// another try, or has failed.
func (s *sender) apply(o *outgoing, res *produceResponse, err error) error {
	records := o.b.Records(o.batch)
	if err != nil {
		err = fmt.Errorf("kafka: produce to %s: %w", o.tp, err)
	} else if i := slices.IndexFunc(res.results, func(r produceResult) bool { return r.tp == o.tp }); i < 0 {
		err = &classed{Unknown, fmt.Errorf("kafka: produce to %s: the broker's response lacks the partition", o.tp)}
	} else if r := &res.results[i]; r.code != 0 && r.code != kafkago.DuplicateSequenceNumber {
		err = &ProduceError{TP: o.tp, Code: r.code, Message: r.message, Batch: o.batch, Records: records,
			Bytes: len(o.sealed) - record.SizePrefix}
	} else {
		// A duplicate is a batch that an earlier try has written.
		s.next[o.tp] = int32(uint32(s.next[o.tp]+int32(records)) & 0x7fffffff)
		o.batch++
		if s.identity.transactional() {
			s.txn.added[o.tp] = true
		}
		o.last, o.waited = nil, false
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
		if !s.identity.transactional() {
			return nil // the same sequence again: the log takes it once
		}
	}
	return err
}
