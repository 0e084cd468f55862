package keystate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"odradek/processor/events"
	"odradek/processor/keystate/load"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/survey"
)

// Load reads a record of the changelog into a new State; call it for all records, in the
// order of the log. value is nil for a deletion. Load retains neither slice. Compaction may
// have removed records, and may go on while the log is read, so only the last head of a key
// has to be complete; BeginReplay reports one that is not. Any bytes are safe; those that no
// Snapshot has emitted give ErrCorrupt.
func (s *State) Load(key, value []byte) error {
	if s.journal.Started() {
		return errors.New("keystate: Load into a state that has begun")
	}
	return s.loader().Load(key, value)
}

// loader returns what loads the state.
func (s *State) loader() *load.Loader {
	if s.restore.load == nil {
		to := load.Target{Keys: &s.Keys.Table, Records: &s.records, Decisions: s.Decisions.log}
		s.restore.load = load.New(to, s.sets, s.cfg.Silence > 0, s.restore.drops)
	}
	return s.restore.load
}

// restore holds what a state is restored from: a changelog, and the replay of the input behind it.
type restore struct {
	load      *load.Loader
	drops     func(name []byte) bool // keys that are not loaded; nil: none
	dropped   []*Key                 // keys that were not loaded, until their evictions are committed
	shedAt    int64                  // offset of the last decision to drop keys
	replayEnd int64
	replayed  int
}

// Survey measures a changelog without building its state; see survey.Survey.
type Survey = survey.Survey

// NewSurvey begins the survey of a changelog of a State of cfg.
func NewSurvey(cfg *Config) *Survey {
	return survey.New(series.NewSets(cfg.Windows, cfg.Detectors, cfg.maxRecord()))
}

// DropLoaded says before the first Load which keys there is no room for. Of these
// nothing is loaded but what their eviction needs: what the changelog has of them,
// and the anomalies that are open. They take no samples, and Shed evicts them.
func (s *State) DropLoaded(v *Survey) { s.restore.drops = v.Drops }

// LeftOut is the part of Bytes that dropped keys take while loading.
func (s *State) LeftOut() int64 {
	if s.restore.load == nil {
		return 0
	}
	return s.restore.load.LeftOut()
}

// Dropped is the number of keys that wait for Shed.
func (s *State) Dropped() (n int) {
	for _, k := range s.restore.dropped {
		if !k.Dead {
			n++
		}
	}
	return n
}

// Shed evicts the keys that were dropped while loading, before the record at offset,
// as Trim does. After a Rollback it has to be called again.
func (s *State) Shed(offset int64) (n int) {
	if s.journal.Replaying || offset < s.next {
		panic(fmt.Sprintf("keystate: Shed at %d during replay, or behind %d, which is folded", offset, s.next-1))
	}
	for _, k := range s.restore.dropped {
		if k.Dead {
			continue
		}
		if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
			s.orphans.close(k, s.maxTime, offset)
			s.orphans.drop(k)
		}
		s.Keys.evict(k, offset, events.Evicted)
		n++
	}
	s.restore.shedAt = offset
	return n
}

// findDropped lists the dropped keys when loading ends.
func (s *State) findDropped() {
	for k := range s.Keys.All {
		if k.Dropped {
			s.restore.dropped = append(s.restore.dropped, k)
		}
	}
	slices.SortFunc(s.restore.dropped, func(a, b *Key) int {
		return cmp.Or(cmp.Compare(a.LastOffset, b.LastOffset), cmp.Compare(string(a.Name()), string(b.Name())))
	})
}
