package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"odradek/processor/kafka/record"
)

// broker sends a Fetcher's requests to one broker, by three lanes: goroutines with one
// request in flight each. The third takes only what is ready while the other two wait
// for data, and waits shortly itself, so that a partition that is added or resumes
// after a pause need not wait until another one's long poll ends.
type broker struct {
	f    *Fetcher
	id   int32
	cond *sync.Cond // on Fetcher.mu; ready, a source's credit, notBefore or closed has changed

	ready     []*FetchSource // attached and not in a request, the longest waiting first
	busy      int            // how many of the first two lanes have a request in flight
	notBefore time.Time      // after a failure, or because the broker asked for it
	delay     backoff
	down      bool
}

const (
	lanes = 3
	// shortWait is how long the third lane's requests may wait for data.
	shortWait = 10 * time.Millisecond
)

// newBroker starts the lanes. Fetcher.mu is held.
func newBroker(f *Fetcher, id int32) *broker {
	b := &broker{f: f, id: id, cond: sync.NewCond(&f.mu),
		delay: newBackoff(50*time.Millisecond, 2*time.Second)}
	for i := range lanes {
		f.wg.Go(func() { b.lane(i == lanes-1) })
	}
	return b
}

// detach removes a source from the queue. One that is in a request is dropped when
// the response comes. Fetcher.mu is held.
func (b *broker) detach(s *FetchSource) {
	if i := slices.Index(b.ready, s); i >= 0 {
		b.ready = slices.Delete(b.ready, i, i+1)
	}
	s.broker = nil
}

// lane sends one request after the other until the fetcher is closed.
func (b *broker) lane(third bool) {
	q := &fetchRequest{}
	var taken []*FetchSource // by the index of q.parts
	for {
		if taken = b.collect(q, taken[:0], third); len(taken) == 0 {
			return
		}
		ctx, cancel := context.WithCancel(b.f.ctx)
		stop := b.watch(ctx, cancel, q)
		_, err := b.f.c.RoundTripWithin(ctx, q.maxWait+b.f.c.RequestTimeout(), b.id, q)
		stop()
		cancel()
		if b.f.ctx.Err() != nil {
			return // the transport may still write to the request
		}
		if err == nil && q.code != 0 {
			err = fmt.Errorf("kafka: fetch from broker %d: %w", b.id, newCodeError(q.code))
		}
		if err != nil {
			b.failed(taken, third, err)
			q = &fetchRequest{} // the transport may still write to the old one
			continue
		}
		b.finish(q, taken, third)
	}
}

// watch refreshes metadata when a response is overdue, and cancels the request when one
// of its partitions has another leader: a broker that hangs or is cut off does not
// answer, and the lane would wait for it until the request times out. stop ends the
// watch.
func (b *broker) watch(ctx context.Context, cancel func(), q *fetchRequest) (stop func()) {
	tps := make([]record.TP, len(q.partitions)) // copies: the transport writes to q from now on
	topics := make([]string, len(q.partitions))
	for i := range q.partitions {
		tps[i], topics[i] = q.partitions[i].tp, q.partitions[i].tp.Topic
	}
	overdue := b.f.overdue
	t := time.AfterFunc(q.maxWait+overdue, func() {
		for ctx.Err() == nil {
			if b.f.c.Refresh(ctx, topics...) == nil {
				for _, tp := range tps {
					if id, _, err := b.f.c.Leader(tp); err == nil && id != b.id {
						cancel()
						return
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(overdue):
			}
		}
	})
	return func() { t.Stop() }
}

// collect waits until there is something to ask for and puts it into q and taken;
// it returns none when the fetcher is closed.
func (b *broker) collect(q *fetchRequest, taken []*FetchSource, third bool) []*FetchSource {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.closed {
			return nil
		}
		if wait := time.Until(b.notBefore); wait > 0 {
			t := time.AfterFunc(wait, func() {
				f.mu.Lock()
				b.cond.Broadcast()
				f.mu.Unlock()
			})
			b.cond.Wait()
			t.Stop()
			continue
		}
		n := 0
		for _, s := range b.ready {
			if s.held < f.cfg.BufferedChunks {
				n++
			}
		}
		if n == 0 || third && b.busy < lanes-1 {
			b.cond.Wait()
			continue
		}
		*q = fetchRequest{maxWait: f.cfg.MaxWait, maxBytes: f.cfg.MaxBytes,
			committed: f.cfg.ReadCommitted, partitions: q.partitions[:0], out: q.out}
		if third {
			q.maxWait = min(shortWait, q.maxWait)
		} else {
			if b.busy == 0 {
				n = (n + 1) / 2 // the other lane takes the rest
			}
			b.busy++
		}
		taken = b.pick(q, taken, n)
		b.cond.Broadcast() // there may be more for the other lanes
		return taken
	}
}

// pick moves up to n sources from the queue into q and taken.
func (b *broker) pick(q *fetchRequest, taken []*FetchSource, n int) []*FetchSource {
	kept := b.ready[:0]
	for _, s := range b.ready {
		// Two sources of one partition go into two requests.
		if len(q.partitions) == n || s.held >= b.f.cfg.BufferedChunks ||
			slices.ContainsFunc(taken, func(t *FetchSource) bool { return t.tp == s.tp }) {
			kept = append(kept, s)
			continue
		}
		if !s.reported { // its offsets are wanted at once, data or not
			q.maxWait = min(shortWait, q.maxWait)
		}
		q.partitions = append(q.partitions, fetchedPartition{tp: s.tp, offset: s.position, leader: s.leaderEpoch, maxBytes: s.maxBytes})
		taken = append(taken, s)
	}
	clear(b.ready[len(kept):])
	b.ready = kept
	return taken
}

// failed handles a request without a usable response: the broker is not asked for a
// while, and findLeaders gets the request's partitions.
func (b *broker) failed(taken []*FetchSource, third bool, err error) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !third {
		b.busy--
	}
	if !b.down {
		b.down = true
		f.log.Warn("kafka: fetch failed, trying again", "broker", b.id, "error", err)
	}
	b.notBefore = time.Now().Add(b.delay.Next())
	for _, s := range taken {
		if !s.closed {
			s.broker = nil
			f.putOff(s, err)
		}
	}
	b.cond.Broadcast()
}

// finish hands out the partitions of a response.
func (b *broker) finish(q *fetchRequest, taken []*FetchSource, third bool) {
	for i := range q.partitions {
		p := &q.partitions[i]
		p.next, p.whole = p.offset, 0
		if p.records != nil {
			p.next, p.whole, p.need, p.err = record.Scan(p.records.b, p.offset, p.highWatermark)
			p.epoch = min(record.LastEpoch(p.records.b[:p.whole]), p.leader)
		}
	}
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !third {
		b.busy--
	}
	if b.down {
		b.down = false
		f.log.Info("kafka: broker is back", "broker", b.id)
	}
	b.delay.Reset()
	if q.throttle > 0 {
		b.notBefore = time.Now().Add(min(q.throttle, f.c.RequestTimeout()))
	}
	for i, s := range taken {
		b.answer(s, &q.partitions[i])
	}
	b.cond.Broadcast()
}

// answer hands out one partition's part of a response. Fetcher.mu is held.
func (b *broker) answer(s *FetchSource, p *fetchedPartition) {
	f := b.f
	if p.whole == 0 || s.closed {
		putBuffer(p.records)
		p.records = nil
	}
	if s.closed {
		return
	}
	if !p.answered {
		s.broker = nil
		f.putOff(s, errMissing)
		return
	}
	switch p.code {
	case 0:
	case kafkago.OffsetOutOfRange:
		s.broker = nil
		f.wg.Go(func() { f.outOfRange(s) })
		return
	case kafkago.TopicAuthorizationFailed, kafkago.InvalidTopic, kafkago.UnsupportedCompressionType:
		s.broker = nil
		s.end(fmt.Errorf("kafka: fetch %s: %w", s.tp, newCodeError(p.code)))
		return
	default:
		// The leader has moved or begun a new term, or the broker has a fault that passes
		// by itself. Whether a topic is unknown is decided by metadata.
		s.broker = nil
		f.putOff(s, p.code)
		return
	}
	s.failing = false
	s.delay.Reset()
	s.seen.answered(time.Now(), f.cfg.LostAfter, p)
	switch {
	case p.whole > 0:
		s.send(p)
	case p.err == nil && p.need > 0:
		// The first batch did not fit, because this partition was not the first with
		// data in the response (KIP-74). Ask for enough, and ask first.
		s.ask(p.need)
		b.ready = slices.Insert(b.ready, 0, s)
		return
	default:
		s.report(p)
	}
	if errors.Is(p.err, record.ErrNowhere) && s.mayLag() {
		p.err = nil
	}
	if p.err != nil {
		// The batches before s.position were good and have been sent.
		s.broker = nil
		s.end(&record.CorruptError{TP: s.tp, Offset: s.position, Err: p.err})
		return
	}
	s.ask(p.need)
	b.ready = append(b.ready, s)
}

// mayLag reports whether a batch at the position that leads past the end of the log
// may be good nevertheless, because the response has an old high watermark. A broker takes it before it
// reads, so records that are appended meanwhile lie past it, and a new leader's may lag.
// The response to a later request has a later one. Fetcher.mu is held.
func (s *FetchSource) mayLag() bool {
	if s.pastAt != s.position {
		s.pastAt, s.past = s.position, 0
	}
	s.past++
	return s.past < mostPast
}

// mostPast is how many responses in a row have to say that a batch leads past the end of
// the log before it is taken to be damaged.
const mostPast = 5

// ask sets how much the next request asks for: enough for a batch that is known
// to come, regardless of the limit.
func (s *FetchSource) ask(need int) {
	s.maxBytes = max(s.f.cfg.PartitionBytes, min(need, record.MaxInflated))
}

// send hands out batches. Fetcher.mu is held.
func (s *FetchSource) send(p *fetchedPartition) {
	c := &Chunk{Chunk: record.Chunk{TP: s.tp, From: s.position, Next: p.next, Raw: p.records.b[:p.whole], Aborted: p.aborted}, Epoch: p.epoch,
		HighWatermark: p.highWatermark, LastStable: p.stable, LogStart: p.logStart, source: s}
	c.buf.Store(p.records)
	if p.next <= s.position {
		// Only batches that end before the position: the same request would get the
		// same response again and again.
		putBuffer(p.records)
		p.err = errors.New("the broker sent only batches before the position asked for")
		return
	}
	s.position = p.next
	if p.epoch > 0 {
		s.read, s.checked = max(s.read, p.epoch), p.leader
	}
	s.held++
	s.remember(p)
	s.ch <- c
}

// report hands out offsets without batches: at first, when they have moved, and once a
// second, unless another chunk waits to be received. Fetcher.mu is held.
func (s *FetchSource) report(p *fetchedPartition) {
	if len(s.ch) > 0 || s.reported && p.highWatermark == s.reportedHigh && p.stable == s.reportedStable && p.logStart == s.reportedStart &&
		time.Since(s.reportedAt) < time.Second {
		return
	}
	s.remember(p)
	s.ch <- &Chunk{Chunk: record.Chunk{TP: s.tp, From: s.position, Next: s.position}, HighWatermark: p.highWatermark, LastStable: p.stable,
		LogStart: p.logStart, Empty: true, source: s}
}

func (s *FetchSource) remember(p *fetchedPartition) {
	s.reported, s.reportedAt = true, time.Now()
	s.reportedHigh, s.reportedStable, s.reportedStart = p.highWatermark, p.stable, p.logStart
}

// outOfRange asks where the log begins and ends. A replica that has just become leader may
// not know its end yet, so a position that turns out to be inside is tried again.
func (f *Fetcher) outOfRange(s *FetchSource) {
	ctx, cancel := context.WithTimeout(f.ctx, f.c.RequestTimeout())
	defer cancel()
	tps := []record.TP{s.tp}
	start, err := f.offsets.ListOffsets(ctx, tps, Earliest)
	var end map[record.TP]int64
	if err == nil {
		end, err = f.offsets.ListOffsets(ctx, tps, Latest)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.closed:
	case err != nil:
		f.putOff(s, err)
	case s.position >= start[s.tp] && s.position <= end[s.tp]:
		s.failing = true // not at once
		f.putOff(s, kafkago.OffsetOutOfRange)
	default:
		s.end(&OffsetOutOfRangeError{TP: s.tp, Offset: s.position, LogStart: start[s.tp], End: end[s.tp]})
	}
}
