package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// The watermark moves with the samples of the partition. Where none comes any more, the partition's owner decides that it
// moves all the same: a decision of kind Advance, whose content is the largest event time from then on, as if a sample of
// no series had it. It takes effect before the record at its offset, the next one of the log, which need not be there
// yet. Held samples are released, windows of grids end and series become silent, in that order. Series past their TTL
// stay until the next sample that raises the watermark: an eviction is a decision of its own.
//
// The decision and what it brings about follow the last mark and precede the next sample. So they are committed with a
// Snapshot without a new mark, in a cycle that commits the same offset again (Snapshot), and a restore of that
// offset includes what the changelog has of them. Of several at one offset the changelog keeps the last, which leads to
// the same state.

// DecideAdvance makes an advance: a decision of kind Advance, by which the largest event time of an idle partition rises to
// the time to without a sample. It begins with what follows from the later watermark; Fits does the rest, as for a sample.
// Everything folded has to be Committed, and a Snapshot has to follow. Before the first sample, in a backfill, and for a time
// that is not later it decides nothing and returns false.
func (s *State) DecideAdvance(to int64) bool {
	if s.maxTime == NoTime || to <= s.maxTime || !s.publishes() {
		return false
	}
	record := s.cfg.Record(s.next)
	if s.journal.Newest() != s.journal.Open || s.next != s.journal.Open.Start() {
		panic(fmt.Sprintf("state: an advance at offset %d, behind samples that are not committed", record))
	}
	s.Decide(Advance, nil, encodeAdvance(to), record)
	return true
}

// NextAdvance returns the least largest event time at which something follows from the watermark: held samples are released, a
// window of a grid ends, or a series becomes silent. MaxInt64: nothing does.
func (s *State) NextAdvance() int64 {
	at := s.silences.watch.Earliest()
	if k, ok := s.held.Due(math.MaxInt64); ok {
		at = min(at, k.Held.Due())
	}
	if _, end, ok := s.Grids.due(math.MaxInt64); ok {
		at = min(at, end)
	}
	if k, end, ok := s.intervals.first(); ok && (k.Held.Len() == 0 || k.Held.First() >= end) {
		at = min(at, end)
	}
	if at > math.MaxInt64-s.order.Lateness {
		return math.MaxInt64
	}
	return at + s.order.Lateness
}

// replayAdvances applies the loaded decisions that take effect up to the record at offset, and releases what an advance among them
// reaches before the next of them.
func (s *State) replayAdvances(offset int64, b *detectors.Batch) {
	for d := s.decisions.Next(offset); d != nil; d = s.decisions.Next(offset) {
		s.actAdvance(d, b)
	}
}

// actAdvance applies a decision, and releases what it reaches.
func (s *State) actAdvance(d *rules.Decision, b *detectors.Batch) {
	if s.act(d); s.gate.advancing {
		s.release(b, false)
	}
}

// advance raises the largest event time, as a decision at an offset says.
func (s *State) advance(to, decided int64) {
	if to > s.maxTime {
		s.maxTime, s.gate.advancing, s.gate.decided, s.gate.passed = to, true, decided, true
	}
}

// endAdvance ends an advance of which everything is released.
func (s *State) endAdvance() {
	s.gate.advancing, s.gate.passed = false, false
	if s.publishes() {
		s.openSilences(s.turn())
	}
	s.planSweep()
}

func encodeAdvance(to int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(to)) }

func decodeAdvance(content []byte) (any, error) {
	if len(content) != 8 {
		return nil, changelog.ErrCorrupt
	}
	return int64(binary.BigEndian.Uint64(content)), nil
}
