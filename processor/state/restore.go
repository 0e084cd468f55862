package state

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state/checkpoint"
)

// Errors of a restore.
var (
	// ErrAhead reports that the changelog has state of offsets that are not committed. Another
	// member has committed since the offset was read, or offset and changelog do
	// not belong together. Read the committed offset again.
	ErrAhead = errors.New("the changelog is ahead of the committed offset")
)

// Survey measures a changelog without building its state; see checkpoint.Survey.
type Survey = checkpoint.Survey

// NewSurvey begins the survey of a changelog of a State of cfg.
func NewSurvey(cfg *Config) *Survey {
	return checkpoint.NewSurvey(cfg.sets())
}

// Restore restores a State from its changelog and a replay of the input.
type Restore struct {
	// Mismatched is what BeginReplay has dropped because another configuration made
	// it (Config.DropMismatched).
	Mismatched []Mismatch

	loader   *checkpoint.Loader     // while loading
	drops    func(name []byte) bool // keys that are not loaded; nil: none
	dropped  []*Key                 // keys that were not loaded, until their evictions are committed
	shedAt   int64                  // offset of the last decision to drop keys
	end      int64                  // of the replay
	replayed int
}

// ErrReading reports that records which a replay needs cannot be read as they were when they were live.
var ErrReading = errors.New("the former way of reading them cannot be rebuilt")

// Load reads a record of the changelog into a new State; call it for all records, in the
// order of the log. value is nil for a deletion. Load retains neither slice. Compaction may
// have removed records, and may go on while the log is read, so only the last head of a key
// has to be complete; BeginReplay reports one that is not. Load accepts any bytes, and returns
// ErrCorrupt for those that no Snapshot has emitted.
func (s *State) Load(key, value []byte) error {
	if s.journal.Started() {
		return errors.New("state: Load into a state that has begun")
	}
	s.startLoading()
	return s.Restore.loader.Load(key, value)
}

// startLoading begins loading.
func (s *State) startLoading() {
	if s.Restore.loader == nil {
		to := checkpoint.LoadTarget{Keys: &s.Keys.KeyTable, Records: &s.records, Decisions: s.decisions, Translate: s.heldFormat}
		s.Restore.loader = checkpoint.NewLoader(to, s.sets, s.cfg.Silence > 0, s.Restore.drops)
	}
}

// DropLoaded sets, before the first Load, the keys that do not fit into memory. Load keeps of these
// only what their eviction needs: the names of their records, and the anomalies that are open. They
// take no samples, and Shed evicts them.
func (r *Restore) DropLoaded(v *Survey) { r.drops = v.Drops }

// LeftOut returns how many of LoadingBytes are of dropped keys.
func (r *Restore) LeftOut() int64 {
	if r.loader == nil {
		return 0
	}
	return r.loader.LeftOut
}

// LoadingBytes is Bytes while loading: with the records that wait for their key's head.
func (s *State) LoadingBytes() int64 {
	if s.Restore.loader == nil {
		return s.Bytes()
	}
	return s.Bytes() + s.Restore.loader.Bytes()
}

// finishRestore ends loading, for a replay of the input from f to the committed offset.
func (s *State) finishRestore(f Floor, committed int64, ahead bool) error {
	if s.journal.Started() {
		return errors.New("state: replay into a state that has begun")
	}
	if f.Offset > committed {
		return fmt.Errorf("state: the replay floor %d is above the committed offset %d: %w", s.cfg.Record(f.Offset),
			s.cfg.Record(committed), ErrAhead)
	}
	s.startLoading()
	if err := s.Restore.loader.Finish(); err != nil {
		return err
	}
	var drop []*Key
	var differ checkpoint.Mismatches
	top := int64(math.MinInt64)
	for k := range s.Keys.All {
		if d := s.decisions.Latest(Eviction, k.Name()); !k.InLog || d != nil && k.AsOf <= d.Offset {
			if drop = append(drop, k); k.InLog {
				// An eviction that was cut off before it had deleted the key.
				d.Value = k
				s.decisions.Resume(d)
			}
			continue
		}
		if top = max(top, k.AsOf); k.AsOf > committed && !ahead {
			return fmt.Errorf("state: key %s is at offset %d, the committed offset is %d: %w", Digest(k.Name()), s.cfg.Record(k.AsOf),
				s.cfg.Record(committed), ErrAhead)
		}
		if err := s.Restore.loader.Incomplete(k); err != nil {
			return fmt.Errorf("state: key %s: %w", Digest(k.Name()), err)
		}
		differ.Add(k.Name(), s.Restore.loader.Mismatches(k))
	}
	list, unreadable := s.mismatches(f.Offset, committed)
	if unreadable {
		return fmt.Errorf("state: the records from offset %d to %d were read for a grid that is not configured any more: %w",
			s.cfg.Record(f.Offset), s.cfg.Record(committed), ErrReading)
	}
	for _, m := range list {
		differ.Note(m)
	}
	if err := differ.Err(); err != nil && !s.cfg.DropMismatched {
		return err
	}
	s.Restore.Mismatched = differ.Sorted()
	if d := s.decisions.EndLoading(f.Offset); d != nil {
		if top = max(top, d.Offset); (d.Offset > committed || d.Offset == committed && !d.Kind.BetweenRecords()) && !ahead {
			return fmt.Errorf("state: %s at offset %d, the committed offset is %d: %w", kinds[d.Kind].Name, s.cfg.Record(d.Offset),
				s.cfg.Record(committed), ErrAhead)
		}
	}
	s.loseHeld(s.Restore.loader.RewriteHeld)
	s.forgetSince(s.Restore.loader.Rewrite)
	for _, k := range drop {
		if stale := s.Restore.loader.Unload(k); k.InLog {
			s.records.AddStale(k, stale...)
		}
	}
	s.journal.BeginReplay()
	s.Restore.end, s.replaying, s.backfill, s.ahead = committed, true, f.Backfill, max(committed, top)
	return nil
}

// forget releases what only loading needs, and lists the dropped keys.
func (s *State) forget() {
	s.Restore.loader, s.Restore.drops = nil, nil
	for k := range s.Keys.All {
		if k.Dropped {
			s.Restore.dropped = append(s.Restore.dropped, k)
		}
	}
	slices.SortFunc(s.Restore.dropped, func(a, b *Key) int {
		return cmp.Or(cmp.Compare(a.LastOffset, b.LastOffset), cmp.Compare(string(a.Name()), string(b.Name())))
	})
}

// Dropped returns the number of keys that wait for Shed.
func (r *Restore) Dropped() (n int) {
	for _, k := range r.dropped {
		if !k.Dead {
			n++
		}
	}
	return n
}

// Shed evicts the keys that were dropped while loading, before the record at offset,
// as Trim does. After a Rollback it has to be called again.
func (s *State) Shed(offset int64) (n int) {
	offset = s.first(offset)
	s.mustDecide("Shed", offset)
	for _, k := range s.Restore.dropped {
		if k.Dead {
			continue
		}
		s.evict(k, offset, anomaly.Evicted)
		n++
	}
	s.Restore.shedAt = offset
	return n
}

// replayStride is the number of samples between two marks of a replay. They let
// the floor rise as soon as the keys that were dirty first are snapshotted.
var replayStride = 4096 // changed by tests

// stepReplay sees each sample of a replay before it is folded.
func (s *State) stepReplay(sm *Sample) {
	if sm.Offset >= s.Restore.end {
		panic(fmt.Sprintf("state: replay of offset %d, the committed offset is %d", sm.Offset, s.Restore.end))
	}
	s.Suspects.replay(sm.Offset)
	if s.Restore.replayed++; s.Restore.replayed >= replayStride && s.cfg.Number(sm.Offset) == 0 { // a mark is between two records
		s.Restore.replayed = 0
		s.journal.Pass(s.suspectsFloor(sm.Offset))
	}
}

// EndInput ends the input of a replay: it applies the decisions behind the last sample, with those at its end that were
// made between records. Before them the turn of the last sample ends, as it did when it was live, even if b has no room.
// Fits has to be asked once more after it.
func (s *State) EndInput(b *detectors.Batch) {
	if !s.gate.idle() {
		s.release(b, false)
	}
	s.replayAdvances(s.Restore.end-1, b)
	for d := s.decisions.NextBetween(s.Restore.end); d != nil; d = s.decisions.NextBetween(s.Restore.end) {
		s.actAdvance(d, b)
	}
}
