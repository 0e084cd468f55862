package state

import (
	"fmt"
	"math"

	"odradek/processor/state/changelog"
)

// Floor returns the replay floor if the last mark is committed with everything that
// Snapshot has emitted so far.
func (s *State) Floor() Floor { return s.floorAt().Records(s.bits) }

// floorAt is Floor by the offsets of samples.
func (s *State) floorAt() Floor {
	if !s.journal.Started() {
		return Floor{MaxTime: NoTime}
	}
	f := *s.journal.Last()
	if k, since := s.dirty.First(); k != nil && since < f.Offset {
		f = s.journal.At(since)
	}
	f.Jump, f.Backfill = s.Suspects.votes.Repaired(), s.backfill
	return f
}

// Snapshot emits changelog records for the cycle that commits the last mark: the
// decisions since the last Snapshot, deletions of what is not needed any more,
// the keys of which an anomaly has changed, and the keys that have been dirty for
// longest, until the floor is at want or maxBytes of the last kind are emitted (0: no
// limit, negative: none). At least one key is emitted if the floor is below want.
// value is nil for a deletion; both slices are valid until emit returns.
//
// It has to be called between every Mark and the commit of its cycle, because
// decisions and changes of anomalies are emitted in no other, and before anything
// else is folded. Once
// the mark is Committed it may be called again without a new one, to bring the
// floor of an idle partition to the committed offset: that cycle commits the
// same offset, and Committed and Rollback with it mean that cycle. After an
// error the cycle cannot be committed: Rollback.
func (s *State) Snapshot(want int64, maxBytes int, emit func(key, value []byte) error) error {
	if !s.journal.Started() {
		return nil
	}
	if s.replaying || s.next != s.journal.Open.Start() {
		panic("state: Snapshot while a unit is open: Mark comes first")
	}
	if s.journal.Snapshotted() {
		panic("state: a second Snapshot before the first is Committed")
	}
	if s.decisions.Crowded() {
		want = math.MaxInt64
	}
	want = s.first(want)
	c := changelog.Emitter{Emit: emit}
	s.emitDecisions(&c, maxBytes)
	// Not within maxBytes, and not counted: the floor has to rise nevertheless.
	bytes := c.Bytes
	for _, k := range s.changed.Keys {
		if _, dirty := k.Dirty(); dirty && !k.Dead && c.Err == nil {
			s.emitSnapshot(&c, k)
		}
	}
	s.changed.Reset()
	c.Bytes = bytes
	for maxBytes >= 0 && c.Err == nil {
		k, since := s.dirty.First()
		if k == nil || since >= want || maxBytes > 0 && c.Bytes >= maxBytes {
			break
		}
		s.emitSnapshot(&c, k)
	}
	s.journal.Snapshot(s.floorAt())
	if c.Err != nil {
		return fmt.Errorf("state: snapshot: %w", c.Err)
	}
	return nil
}

// emitSnapshot emits a key, and pushes what undoes that.
func (s *State) emitSnapshot(c *changelog.Emitter, k *Key) {
	u := s.journal.Newest()
	from := len(u.Words)
	words, stale, segments := s.records.AppendUndo(u.Words, k)
	u.Words = words
	u.PushValues(opSnapshot, k, 0, len(words)-from, stale, segments)
	s.records.Emit(c, k, s.journal.Last().Offset)
	s.dirty.Clean(k)
}
