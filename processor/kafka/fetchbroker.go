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

// fetchBroker is what a Fetcher does at one broker: three lanes, goroutines that
// each have one request on its way. The third takes only what is ready while the
// other two wait for data, and waits shortly itself, so that a partition that is
// added or goes on after a pause never sits out another one's long wait.
type fetchBroker struct {
	f    *Fetcher
	id   int32
	cond *sync.Cond // on Fetcher.mu; ready, a source's credit, notBefore or closed has changed

	ready     []*Source // attached and not in a request, the longest waiting first
	busy      int       // of the first two lanes, how many have a request on its way
	notBefore time.Time // after a failure, or because the broker asked for it
	delay     retryDelay
	down      bool
}

const (
	lanes = 3
	// shortWait is how long the third lane's requests may wait for data.
	shortWait = 10 * time.Millisecond
)

// newFetchBroker starts the lanes. Fetcher.mu is held.
func newFetchBroker(f *Fetcher, id int32) *fetchBroker {
	b := &fetchBroker{f: f, id: id, cond: sync.NewCond(&f.mu),
		delay: retryDelay{first: 50 * time.Millisecond, max: 2 * time.Second}}
	for i := range lanes {
		f.wg.Go(func() { b.lane(i == lanes-1) })
	}
	return b
}

// detach takes a source that waits in the queue out of it; one in a request is
// dropped when the response comes. Fetcher.mu is held.
func (b *fetchBroker) detach(s *Source) {
	if i := slices.Index(b.ready, s); i >= 0 {
		b.ready = slices.Delete(b.ready, i, i+1)
	}
	s.broker = nil
}

func (b *fetchBroker) lane(third bool) {
	q := &fetchRequest{}
	var taken []*Source // by the index of q.parts
	for {
		if taken = b.take(q, taken[:0], third); len(taken) == 0 {
			return
		}
		ctx, cancel := context.WithCancel(b.f.ctx)
		stop := b.suspect(ctx, cancel, q)
		_, err := b.f.c.roundTripWithin(ctx, q.maxWait+b.f.c.cfg.RequestTimeout, b.id, q)
		stop()
		cancel()
		if b.f.ctx.Err() != nil {
			return // the transport may still write to the request: leave it
		}
		if err == nil && q.code != 0 {
			err = fmt.Errorf("kafka: fetch from broker %d: %w", b.id, q.code)
		}
		if err != nil {
			b.failed(taken, third, err)
			q = &fetchRequest{} // likewise
			continue
		}
		b.finish(q, taken, third)
	}
}

// suspect looks at metadata when a response is overdue, and gives the request up
// when one of its partitions has got another leader: a broker that hangs or is cut
// off says nothing, and would be waited for until the request times out. The
// function returned ends the suspicion.
func (b *fetchBroker) suspect(ctx context.Context, giveUp func(), q *fetchRequest) (stop func()) {
	tps := make([]TP, len(q.parts)) // q belongs to the transport now
	topics := make([]string, len(q.parts))
	for i := range q.parts {
		tps[i], topics[i] = q.parts[i].tp, q.parts[i].tp.Topic
	}
	overdue := b.f.overdue
	t := time.AfterFunc(q.maxWait+overdue, func() {
		for ctx.Err() == nil {
			if b.f.c.refresh(ctx, topics...) == nil {
				for _, tp := range tps {
					if id, err := b.f.c.cachedLeader(tp); err == nil && id != b.id {
						giveUp()
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

// take waits until there is something to ask for and puts it into q and taken;
// nothing when the fetcher is closed.
func (b *fetchBroker) take(q *fetchRequest, taken []*Source, third bool) []*Source {
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
		*q = fetchRequest{maxWait: f.cfg.MaxWait, minBytes: f.cfg.MinBytes, maxBytes: f.cfg.MaxBytes,
			committed: f.cfg.ReadCommitted, parts: q.parts[:0], out: q.out}
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
func (b *fetchBroker) pick(q *fetchRequest, taken []*Source, n int) []*Source {
	kept := b.ready[:0]
	for _, s := range b.ready {
		// Two sources of one partition go into two requests.
		if len(q.parts) == n || s.held >= b.f.cfg.BufferedChunks ||
			slices.ContainsFunc(taken, func(t *Source) bool { return t.tp == s.tp }) {
			kept = append(kept, s)
			continue
		}
		if !s.told { // its offsets are wanted at once, data or not
			q.maxWait = min(shortWait, q.maxWait)
		}
		q.parts = append(q.parts, fetchPart{tp: s.tp, offset: s.position, leader: s.leaderEpoch, maxBytes: s.maxBytes})
		taken = append(taken, s)
	}
	clear(b.ready[len(kept):])
	b.ready = kept
	return taken
}

// failed handles a request without a usable response: the broker is left alone
// for a while, and its partitions look for their leaders again.
func (b *fetchBroker) failed(taken []*Source, third bool, err error) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !third {
		b.busy--
	}
	if !b.down {
		b.down = true
		f.log.Warn("kafka: fetch failed, trying on", "broker", b.id, "error", err)
	}
	b.notBefore = time.Now().Add(b.delay.duration())
	for _, s := range taken {
		if !s.closed {
			s.broker = nil
			f.putOff(s, err)
		}
	}
	b.cond.Broadcast()
}

// finish hands out a response.
func (b *fetchBroker) finish(q *fetchRequest, taken []*Source, third bool) {
	for i := range q.parts {
		p := &q.parts[i]
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
	b.delay.next = 0
	if q.throttle > 0 {
		b.notBefore = time.Now().Add(min(q.throttle, f.c.cfg.RequestTimeout))
	}
	for i, s := range taken {
		b.answer(s, &q.parts[i])
	}
	b.cond.Broadcast()
}

// answer hands out one partition's part of a response. Fetcher.mu is held.
func (b *fetchBroker) answer(s *Source, p *fetchPart) {
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
		f.putOff(s, errors.New("the broker's response leaves the partition out"))
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
		s.end(fmt.Errorf("kafka: fetch %s: %w", s.tp, p.code))
		return
	default:
		// The leader has moved or begun a new term, or something is wrong at the
		// broker that only time can settle. An unknown topic is judged by metadata.
		s.broker = nil
		f.putOff(s, p.code)
		return
	}
	s.failing, s.delay.next = false, 0
	s.seen.answered(time.Now(), f.cfg.LostAfter, p)
	switch {
	case p.whole > 0:
		s.send(p)
	case p.err == nil && p.need > 0:
		// The first batch did not fit, for this partition was not the first with data
		// in the response (KIP-74). Ask for enough, and ask first.
		s.ask(p.need)
		b.ready = slices.Insert(b.ready, 0, s)
		return
	default:
		s.tell(p)
	}
	if errors.Is(p.err, record.ErrNowhere) && s.mayLag() {
		p.err = nil
	}
	if p.err != nil {
		// Before s.position, everything was good.
		s.broker = nil
		s.end(&record.CorruptError{TP: s.tp, Offset: s.position, Err: p.err})
		return
	}
	s.ask(p.need)
	b.ready = append(b.ready, s)
}

// mayLag reports whether a batch at the position that leads past the end of the log
// may be good all the same. A broker takes the high watermark of its answer before it
// reads, and what is appended meanwhile lies past it; a new leader's may lag as well.
// The answer to a later request has one that is later. Fetcher.mu is held.
func (s *Source) mayLag() bool {
	if s.pastAt != s.position {
		s.pastAt, s.past = s.position, 0
	}
	s.past++
	return s.past < mostPast
}

// mostPast is how many answers in a row have to say that a batch leads past the end of
// the log before it is taken to be damaged.
const mostPast = 5

// ask sets how much the next request asks for: enough for a batch that is known
// to come, whatever the limit.
func (s *Source) ask(need int) {
	s.maxBytes = max(s.f.cfg.PartitionBytes, min(need, record.MaxInflated))
}

// send hands out batches. Fetcher.mu is held.
func (s *Source) send(p *fetchPart) {
	c := &Chunk{Chunk: record.Chunk{TP: s.tp, From: s.position, Next: p.next, Raw: p.records.b[:p.whole], Aborted: p.aborted}, Epoch: p.epoch,
		HighWatermark: p.highWatermark, LastStable: p.stable, LogStart: p.logStart, source: s}
	c.buf.Store(p.records)
	if p.next <= s.position {
		// Only batches that end before the position: a broker that does not do
		// what was asked, and would be asked the same for ever.
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

// tell hands out offsets without batches: at first, when they have moved, and
// once a second, unless something else is waiting to be received. Fetcher.mu is
// held.
func (s *Source) tell(p *fetchPart) {
	if len(s.ch) > 0 || s.told && p.highWatermark == s.toldHW && p.stable == s.toldLS && p.logStart == s.toldStart &&
		time.Since(s.toldAt) < time.Second {
		return
	}
	s.remember(p)
	s.ch <- &Chunk{Chunk: record.Chunk{TP: s.tp, From: s.position, Next: s.position}, HighWatermark: p.highWatermark, LastStable: p.stable,
		LogStart: p.logStart, Empty: true, source: s}
}

func (s *Source) remember(p *fetchPart) {
	s.told, s.toldAt = true, time.Now()
	s.toldHW, s.toldLS, s.toldStart = p.highWatermark, p.stable, p.logStart
}

// outOfRange asks what the log holds. A replica that has just become leader may
// not know its end yet: a position that is inside after all is tried again.
func (f *Fetcher) outOfRange(s *Source) {
	ctx, cancel := context.WithTimeout(f.ctx, f.c.cfg.RequestTimeout)
	defer cancel()
	tps := []TP{s.tp}
	start, err := f.c.ListOffsets(ctx, tps, Earliest)
	var end map[TP]int64
	if err == nil {
		end, err = f.c.ListOffsets(ctx, tps, Latest)
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
