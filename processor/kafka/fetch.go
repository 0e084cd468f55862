package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"odradek/processor/kafka/record"
)

// FetchConfig says how to fetch. The zero value reads uncommitted data too.
type FetchConfig struct {
	ReadCommitted bool // only committed transactions, up to the last stable offset

	MaxWait        time.Duration // how long a broker holds a request without data; default 100 ms
	MaxBytes       int           // of one response; default 50 MiB, as the Java client's
	PartitionBytes int           // of one partition in one response, default 1 MiB; a larger batch comes whole nevertheless
	BufferedChunks int           // of one partition, fetched or being fetched and not yet released; default 2

	// LostAfter is how long a partition may wait for a response before its broker
	// counts as lost; default the larger of 10 s and three times MaxWait.
	LostAfter time.Duration

	Log *slog.Logger // brokers that go away and come back; nil: none
}

// Fetcher reads partitions, each from its leader. For every broker two requests
// are in flight, each for about half of its partitions, and a third for those
// that become ready to be asked for while the two are waiting for data. The next
// request for a partition leaves before its last chunk is decoded: the position
// comes from the batch headers.
//
// A partition with BufferedChunks chunks not yet released is left out of requests
// until one is. Nothing is dropped, and its bytes in memory stay at about
// BufferedChunks*PartitionBytes.
//
// The fetcher waits without limit for a leader that moves, a broker that is down and a
// partition without a leader. A new leader is first asked whether its log has what was
// read from those before it (KIP-320, see DivergedError).
type Fetcher struct {
	c       *Cluster
	offsets *Offsets
	cfg     FetchConfig
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	wake    chan struct{} // leaderless has changed

	// patience is how long a topic may be unknown before its sources end.
	patience time.Duration
	// overdue is how long after MaxWait a response counts as late.
	overdue time.Duration

	mu         sync.Mutex
	brokers    map[int32]*broker
	sources    map[*FetchSource]struct{}
	leaderless []*FetchSource // no leader is known, or the one known may be out of date
	closed     bool
}

// FetchSource is a partition that is fetched from a position on. A new position takes a new
// FetchSource, which gets no chunk of the old one.
type FetchSource struct {
	f  *Fetcher
	tp record.TP
	ch chan *Chunk

	// Fetcher.mu guards all below.
	position int64   // of the next request
	held     int     // chunks sent and not released
	broker   *broker // who is asked for it; nil: leaderless, being checked, or ended
	ended    bool    // an error chunk was sent
	closed   bool
	maxBytes int

	leaderEpoch record.Epoch // of the leader that is asked; it refuses another
	read        record.Epoch // of the last record before position
	checked     record.Epoch // of the leader whose log has what was read before position

	stale        bool      // the leader that metadata named has failed: refresh before the next attempt
	retryAt      time.Time // not before
	delay        backoff
	failing      bool
	unknownSince time.Time // zero: the topic is known

	seen seen

	pastAt int64 // position of a batch that leads past the end of the log
	past   int   // responses in a row that said so

	// The offsets in the last chunk.
	reported       bool // a chunk was sent
	reportedAt     time.Time
	reportedHigh   int64
	reportedStable int64
	reportedStart  int64
}

// Chunk is what one request brought for one partition: whole record batches, or
// none and just the offsets, or the error that ended the source.
type Chunk struct {
	record.Chunk              // Next is behind the last of the batches, or as From where there are none
	Epoch        record.Epoch // of the leader that wrote the last of the batches: what Next is to be committed with

	HighWatermark int64 // the offset that the next record written gets
	LastStable    int64 // where an open transaction begins, or HighWatermark
	LogStart      int64 // first offset still there, -1 when the broker is too old to say

	Empty bool  // no batches
	Err   error // *OffsetOutOfRangeError, *DivergedError, *CorruptError, authorisation, unknown topic; nothing comes after it

	source *FetchSource
	buf    atomic.Pointer[buffer]
}

// OffsetOutOfRangeError says that a position is not in the log: removed by
// retention, or lost with a leader that had not replicated it.
type OffsetOutOfRangeError struct {
	TP            record.TP
	Offset        int64 // asked for
	LogStart, End int64 // bounds of the log: LogStart <= offset < End
}

func (e *OffsetOutOfRangeError) Error() string {
	return fmt.Sprintf("kafka: %s: offset %d is outside of the log, which has offsets %d to %d", e.TP, e.Offset, e.LogStart, e.End)
}

// Is makes errors.Is(err, kafkago.OffsetOutOfRange) true.
func (e *OffsetOutOfRangeError) Is(target error) bool {
	return target == error(kafkago.OffsetOutOfRange)
}

// Release gives the chunk's memory back and lets the fetcher ask for its partition
// again. Records of the chunk must not be used after it. A second call does nothing.
func (c *Chunk) Release() {
	b := c.buf.Swap(nil)
	if b == nil {
		return
	}
	c.Raw = nil
	putBuffer(b)
	s := c.source
	s.f.mu.Lock()
	s.held--
	if s.held == s.f.cfg.BufferedChunks-1 {
		s.seen.since = time.Now() // a pause ends: from now on it waits for a response
	}
	if s.broker != nil {
		s.broker.cond.Broadcast()
	}
	s.f.mu.Unlock()
}

// NewFetcher returns a Fetcher without partitions.
func NewFetcher(c *Client, cfg FetchConfig) *Fetcher {
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 100 * time.Millisecond
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 50 << 20
	}
	if cfg.PartitionBytes <= 0 {
		cfg.PartitionBytes = 1 << 20
	}
	if cfg.BufferedChunks <= 0 {
		cfg.BufferedChunks = 2
	}
	if cfg.LostAfter <= 0 {
		cfg.LostAfter = max(10*time.Second, 3*cfg.MaxWait)
	}
	f := &Fetcher{
		c: c.Cluster, offsets: c.Offsets, cfg: cfg, log: cfg.Log,
		wake:     make(chan struct{}, 1),
		patience: 30 * time.Second,
		overdue:  2 * time.Second,
		brokers:  map[int32]*broker{},
		sources:  map[*FetchSource]struct{}{},
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.wg.Go(f.findLeaders)
	return f
}

// Add begins to fetch a partition at an offset.
func (f *Fetcher) Add(tp record.TP, offset int64) *FetchSource { return f.Resume(tp, offset, 0) }

// Resume begins to fetch a partition at an offset and checks that the log is still the one
// that was read: read is the leader epoch of the last record before the offset. Where the
// log has another epoch there, the source ends with a DivergedError.
func (f *Fetcher) Resume(tp record.TP, offset int64, read record.Epoch) *FetchSource {
	s := &FetchSource{
		f: f, tp: tp, position: offset, read: read,
		// Room for all that can be sent at once, so that sending never blocks:
		// chunks with data, one without, and an error.
		ch:       make(chan *Chunk, f.cfg.BufferedChunks+2),
		maxBytes: f.cfg.PartitionBytes,
		seen:     seen{high: -1, stable: -1, since: time.Now()},
		delay:    newBackoff(20*time.Millisecond, time.Second),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		s.closed = true
		close(s.ch)
		return s
	}
	f.sources[s] = struct{}{}
	f.requeue(s)
	return s
}

// TP returns the partition.
func (s *FetchSource) TP() record.TP { return s.tp }

// C returns the channel of the chunks. It is closed by Close.
func (s *FetchSource) C() <-chan *Chunk { return s.ch }

// Close ends the fetching. Chunks not yet received are released; those received
// remain good until their own Release.
func (s *FetchSource) Close() {
	s.f.mu.Lock()
	if s.closed {
		s.f.mu.Unlock()
		return
	}
	s.closed = true
	delete(s.f.sources, s)
	if b := s.broker; b != nil {
		b.detach(s)
	}
	close(s.ch)
	s.f.mu.Unlock()
	for c := range s.ch {
		c.Release()
	}
}

// Close ends all sources.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	sources := make([]*FetchSource, 0, len(f.sources))
	for s := range f.sources {
		sources = append(sources, s)
	}
	for _, b := range f.brokers {
		b.cond.Broadcast()
	}
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
	for _, s := range sources {
		s.Close()
	}
}

// requeue gives a source to findLeaders. f.mu is held.
func (f *Fetcher) requeue(s *FetchSource) {
	f.leaderless = append(f.leaderless, s)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// findLeaders attaches sources without a leader to the brokers that lead them.
func (f *Fetcher) findLeaders() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
		now := time.Now()
		var due []*FetchSource
		wait := time.Hour
		f.mu.Lock()
		kept := f.leaderless[:0]
		for _, s := range f.leaderless {
			switch {
			case s.closed || s.ended:
			case s.retryAt.After(now):
				kept = append(kept, s)
				wait = min(wait, s.retryAt.Sub(now))
			default:
				due = append(due, s)
			}
		}
		clear(f.leaderless[len(kept):])
		f.leaderless = kept
		var topics []string
		for _, s := range due {
			if _, _, err := f.c.Leader(s.tp); err != nil {
				s.stale = true
			}
			if s.stale {
				topics = append(topics, s.tp.Topic)
			}
		}
		f.mu.Unlock()
		timer.Reset(wait)
		if len(due) == 0 {
			continue
		}
		var refreshErr error
		if len(topics) > 0 {
			if refreshErr = f.c.Refresh(f.ctx, topics...); f.ctx.Err() != nil {
				return
			}
		}
		check := map[int32][]*FetchSource{}
		f.mu.Lock()
		for _, s := range due {
			if s.closed {
				continue
			}
			if s.stale && refreshErr != nil {
				f.putOff(s, refreshErr)
				continue
			}
			leader, epoch, err := f.c.Leader(s.tp)
			if err != nil {
				f.noLeader(s, err)
				continue
			}
			s.stale, s.unknownSince, s.leaderEpoch = false, time.Time{}, epoch
			if s.read > 0 && epoch > 0 && s.checked != epoch && keepsEpochs(f.c) {
				check[leader] = append(check[leader], s)
				continue
			}
			f.attach(s, leader)
		}
		f.mu.Unlock()
		for id, sources := range check {
			f.wg.Go(func() { f.check(id, sources) })
		}
	}
}

// noLeader puts a source without a leader off, or ends it where waiting does not help.
// f.mu is held.
func (f *Fetcher) noLeader(s *FetchSource, err error) {
	switch {
	case errors.Is(err, kafkago.UnknownTopicOrPartition):
		if s.unknownSince.IsZero() {
			s.unknownSince = time.Now()
		}
		if time.Since(s.unknownSince) >= f.patience {
			s.end(fmt.Errorf("kafka: %s: %w", s.tp, err))
			return
		}
	case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.InvalidTopic):
		s.end(fmt.Errorf("kafka: %s: %w", s.tp, err))
		return
	}
	f.putOff(s, err)
}

// putOff tries a source again later, with fresh metadata: at once after the first
// failure, because the leader may have moved, then at growing intervals. f.mu is held.
func (f *Fetcher) putOff(s *FetchSource, err error) {
	s.stale = true
	s.retryAt = time.Time{}
	if s.failing {
		s.retryAt = time.Now().Add(s.delay.Next())
	} else {
		s.failing = true
		f.log.Debug("kafka: partition cannot be fetched, trying again", "partition", s.tp.String(), "error", err)
	}
	f.requeue(s)
}

// attach puts a source into its leader's queue. f.mu is held.
func (f *Fetcher) attach(s *FetchSource, id int32) {
	b := f.brokers[id]
	if b == nil {
		b = newBroker(f, id)
		f.brokers[id] = b
	}
	s.broker = b
	b.ready = append(b.ready, s)
	b.cond.Broadcast()
}

// end sends the chunk with the error that ends a source. Fetcher.mu is held.
func (s *FetchSource) end(err error) {
	s.ended = true
	s.ch <- &Chunk{Chunk: record.Chunk{TP: s.tp, From: s.position, Next: s.position},
		HighWatermark: s.reportedHigh, LastStable: s.reportedStable, LogStart: s.reportedStart, Empty: true, Err: err, source: s}
}
