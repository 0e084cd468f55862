package processor

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// This file holds what the partitions of a worker show to an operator: their
// goroutines set it, and metrics, pages and probes read it at any time.

// partitionStatus holds what one assigned partition shows. Its methods may be called by several
// goroutines.
type partitionStatus struct {
	tp       kafka.TP
	lateness int64 // of its state, us

	committedAt atomic.Int64 // unix ns
	behindAt    atomic.Int64 // unix ns; when there was first something to commit again
	keys        atomic.Int64
	bytes       atomic.Int64 // of memory, about
	held        atomic.Int64
	suspects    atomic.Int64
	late        atomic.Int64
	maxTime     atomic.Int64 // largest event time folded, us; state.NoTime without one
	remaining   atomic.Int64
	open        atomic.Pointer[map[string]int64]
	hold        atomic.Pointer[hold]              // nil: not held
	fastClock   atomic.Pointer[string]            // of a series; nil: none is known
	source      atomic.Pointer[kafka.FetchSource] // what is being fetched now: the partition, or its changelog
	restoring   ends
}

// ends are the committed offset and the log's ends as a restore knows them; -1: not
// known yet. A partition that runs learns the ends from its fetches.
type ends struct {
	committed, stable, high atomic.Int64
}

// hold is what a partition waits for outside of Kafka. A held partition is not stalled:
// it tries again until there is an answer, and a restarted worker would be held at the
// same record.
type hold struct {
	why    string
	since  time.Time
	offset int64 // of the record that waits
}

// newPartitionStatus returns the status of tp, of which nothing is known yet but its state's lateness, in us.
func newPartitionStatus(tp kafka.TP, lateness int64) *partitionStatus {
	p := &partitionStatus{tp: tp, lateness: lateness}
	p.restoring.committed.Store(-1)
	p.restoring.stable.Store(-1)
	p.restoring.high.Store(-1)
	return p
}

// SetState sets the numbers of the partition's state.
func (p *partitionStatus) SetState(s *state.State) {
	p.keys.Store(int64(s.Keys.Len()))
	p.held.Store(int64(s.Held()))
	p.suspects.Store(int64(s.Suspects.Len()))
	p.late.Store(s.Tally.Counts[state.Late])
	p.bytes.Store(s.Bytes())
	p.maxTime.Store(s.MaxTime())
}

// SetBytes sets the memory of the partition's state.
func (p *partitionStatus) SetBytes(bytes int64) { p.bytes.Store(bytes) }

// SetOpen sets the number of open anomalies by detector.
func (p *partitionStatus) SetOpen(open map[string]int64) {
	open = maps.Clone(open)
	p.open.Store(&open)
}

// SetSource sets what is being fetched; nil for nothing.
func (p *partitionStatus) SetSource(s *kafka.FetchSource) { p.source.Store(s) }

// SetRemaining sets the number of offsets that a restore has yet to read, of the log that
// it is reading.
func (p *partitionStatus) SetRemaining(offsets int64) { p.remaining.Store(offsets) }

// SetRestoring sets the committed offset that a restore works towards.
func (p *partitionStatus) SetRestoring(committed int64) { p.restoring.committed.Store(committed) }

// CommittedNow notes that the partition's results have just been committed.
func (p *partitionStatus) CommittedNow() { p.committedAt.Store(time.Now().UnixNano()) }

// BehindNow notes that there is something to commit from now on.
func (p *partitionStatus) BehindNow() { p.behindAt.Store(time.Now().UnixNano()) }

// SetFastClock sets what is known of a series whose clock is ahead of the others; "": nothing.
func (p *partitionStatus) SetFastClock(text string) { p.fastClock.Store(&text) }

// Hold notes that the record at offset cannot be read before why is over. It reports
// whether that is news: a partition tries again and again.
func (p *partitionStatus) Hold(why string, offset int64) bool {
	if h := p.hold.Load(); h != nil && h.why == why && h.offset == offset {
		return false
	}
	p.hold.Store(&hold{why: why, since: time.Now(), offset: offset})
	return true
}

// Release ends a hold, if there is one, and returns its record's offset and how long it
// lasted. Nothing was committed meanwhile, so the time that Stalled allows begins again.
func (p *partitionStatus) Release() (offset int64, lasted time.Duration, held bool) {
	h := p.hold.Load()
	if h == nil {
		return 0, 0, false
	}
	p.hold.Store(nil)
	p.BehindNow()
	return h.offset, time.Since(h.since), true
}

// ClearHold ends a hold whose partition is restored.
func (p *partitionStatus) ClearHold() { p.hold.Store(nil) }

// endsInterval is the time between two requests for the ends of the log of a partition
// that is being restored.
const endsInterval = 5 * time.Second

// FollowEnds asks for the log's ends until ctx ends. A broker that does not answer is
// asked again; the restore meets the same fault and reports it.
func (p *partitionStatus) FollowEnds(ctx context.Context, offsets *kafka.Offsets) {
	for {
		actx, cancel := context.WithTimeout(ctx, endsInterval)
		tps := []kafka.TP{p.tp}
		if m, err := offsets.ListStable(actx, tps); err == nil {
			p.restoring.stable.Store(m[p.tp])
		}
		if m, err := offsets.ListOffsets(actx, tps, kafka.Latest); err == nil {
			p.restoring.high.Store(m[p.tp])
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(endsInterval):
		}
	}
}

// progress is how far a partition has come, as its goroutine and the one that commits
// know it.
type progress struct {
	Running, Starting        bool
	Position, Committed, End int64
	Quarantine               *metrics.Quarantine
}

// Status returns what the partition shows. at must have been read before: Since must not
// be older than what there is to commit.
func (p *partitionStatus) Status(at progress) metrics.PartitionStatus {
	s := metrics.PartitionStatus{
		Topic: p.tp.Topic, Partition: p.tp.Partition, Running: at.Running, Starting: at.Starting,
		Position: at.Position, Committed: at.Committed, End: at.End, Quarantine: at.Quarantine,
		Keys: p.keys.Load(), Held: p.held.Load(), Late: p.late.Load(), Suspects: p.suspects.Load(), Bytes: p.bytes.Load(),
		Remaining: p.remaining.Load(), Watermark: state.NoTime,
	}
	if t := p.maxTime.Load(); t != 0 && t > state.NoTime+p.lateness {
		s.Watermark = t - p.lateness
	}
	if open := p.open.Load(); open != nil {
		s.Open = *open
	}
	if text := p.fastClock.Load(); text != nil {
		s.FastClock = *text
	}
	if h := p.hold.Load(); h != nil {
		s.Hold, s.HoldSince = h.why, h.since
	}
	s.Behind = s.End - s.Committed
	p.setEnds(&s)
	if s.Running {
		s.CommittedAt = time.Unix(0, p.committedAt.Load())
		s.Since = time.Unix(0, max(p.committedAt.Load(), p.behindAt.Load()))
		if s.Back.After(s.Since) {
			s.Since = s.Back
		}
	}
	return s
}

// setEnds sets the ends of the log and the lag. A source knows the end of an idle
// partition, and how long there has been no answer.
func (p *partitionStatus) setEnds(s *metrics.PartitionStatus) {
	s.HighWatermark = -1
	if src := p.source.Load(); src != nil {
		seen := src.Seen()
		s.Fetching, s.FetchAge, s.Lost, s.Back = true, seen.Age, seen.Lost, seen.Back
		if src.TP() == p.tp && s.Running && seen.LastStable >= 0 {
			s.End, s.HighWatermark = seen.LastStable, seen.HighWatermark
		}
	}
	if !s.Running {
		s.Committed, s.End, s.HighWatermark = p.restoring.committed.Load(), p.restoring.stable.Load(), p.restoring.high.Load()
	}
	s.LagKnown = s.Committed >= 0 && s.End >= 0
	if s.LagKnown {
		s.Lag = max(0, s.End-s.Committed)
	}
	if s.HighLagKnown = s.Committed >= 0 && s.HighWatermark >= 0; s.HighLagKnown {
		s.HighLag = max(0, s.HighWatermark-s.Committed)
	}
}
