package state

import (
	"fmt"
	"math"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// snapshots writes changed keys and decisions to the changelog, and knows where a replay would begin.
type snapshots struct {
	at        *position
	journal   *journal
	dirty     *series.DirtyQueue
	out       *Output
	suspects  *Suspects
	decisions *Decisions
}

// Floor returns the replay floor if the last mark is committed with everything that
// Snapshot has emitted so far.
func (s *snapshots) Floor() Floor { return s.floor().Records(s.at.bits) }

// floor is Floor by the offsets of samples.
func (s *snapshots) floor() Floor {
	if !s.journal.Started() {
		return Floor{MaxTime: NoTime}
	}
	f := *s.journal.Last()
	if k, since := s.dirty.First(); k != nil && since < f.Offset {
		f = s.journal.At(since)
	}
	f.Jump, f.Backfill = s.suspects.votes.Repaired(), s.at.backfill
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
func (s *snapshots) Snapshot(want int64, maxBytes int, emit func(key, value []byte) error) error {
	if !s.journal.Started() {
		return nil
	}
	if s.at.replaying || s.at.next != s.journal.Open.Start() {
		panic("state: Snapshot while a unit is open: Mark comes first")
	}
	if s.journal.Snapshotted() {
		panic("state: a second Snapshot before the first is Committed")
	}
	if s.decisions.log.Crowded() {
		want = math.MaxInt64
	}
	want = s.at.first(want)
	c := changelog.Emitter{Emit: emit}
	s.decisions.emit(&c, maxBytes)
	// Not within maxBytes, and not counted: the floor has to rise nevertheless.
	bytes := c.Bytes
	for _, k := range s.out.changed.Keys {
		if _, dirty := k.Dirty(); dirty && !k.Dead && c.Err == nil {
			s.emit(&c, k)
		}
	}
	s.out.changed.Reset()
	c.Bytes = bytes
	for maxBytes >= 0 && c.Err == nil {
		k, since := s.dirty.First()
		if k == nil || since >= want || maxBytes > 0 && c.Bytes >= maxBytes {
			break
		}
		s.emit(&c, k)
	}
	s.journal.Snapshot(s.floor())
	if c.Err != nil {
		return fmt.Errorf("state: snapshot: %w", c.Err)
	}
	return nil
}

// emit emits a key, and pushes what undoes that.
func (s *snapshots) emit(c *changelog.Emitter, k *Key) {
	u := s.journal.Newest()
	from := len(u.Words)
	words, stale, blocks := s.decisions.records.AppendUndo(u.Words, k)
	u.Words = words
	u.PushValues(opSnapshot, k, 0, len(words)-from, stale, blocks)
	s.decisions.records.Emit(c, k, s.journal.Last().Offset)
	s.dirty.Clean(k)
}
