package state

import (
	"maps"
	"slices"

	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// orphans are the keys with orphaned anomalies: their detector was removed, or has another
// fingerprint now, so nothing continues them. The first live sample after a restore closes them, or an eviction before it.
type orphans struct {
	orphaned map[*Key]struct{}
	cfg      *Config
	keys     *Keys
	judge    *judge
	journal  *journal
	edits    edits
}

// closeAll closes the anomalies with a live sample. A key without detectors is forgotten.
func (s *orphans) closeAll(sm *Sample) {
	for _, k := range slices.SortedFunc(maps.Keys(s.orphaned), series.ByName) {
		s.close(k, sm.Time, sm.Offset)
		if k.Set == series.None {
			s.keys.evict(k, sm.Offset, anomaly.DetectorRemoved)
		}
	}
}

// close closes the orphaned anomalies of a key, if it has any, after what another reading has released of held samples.
func (s *orphans) close(k *Key, time, offset int64) {
	if _, has := s.orphaned[k]; !has {
		return
	}
	delete(s.orphaned, k)
	if k.Unit != uint32(s.journal.Number) {
		s.edits.touch(k)
	}
	s.judge.out.inTurn(func() { s.judge.closeOrphans(k, s.cfg.detectorOf, time, offset) })
}

// dropHeld drops the held samples of the keys that no detector reads any more, behind a replay, which has released what was released.
func (s *orphans) dropHeld() {
	for k := range s.orphaned {
		if n := k.Held.Len(); k.Set == series.None && n > 0 {
			s.keys.held.N -= n
			s.keys.held.Drop(k.Held)
			s.keys.Bytes -= k.Held.Bytes()
			k.Held = nil
		}
	}
}

// rebuild finds the keys.
func (s *orphans) rebuild() {
	clear(s.orphaned)
	for k := range s.keys.All {
		if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
			s.orphaned[k] = struct{}{}
		}
	}
}

// detectorOf returns EventRow.Detector for an orphan.
func (c *Config) detectorOf(o *series.Orphan) int32 {
	if o.Silence {
		return SilenceDetector
	}
	for i := range c.Detectors {
		if c.Detectors[i].Name == o.Name {
			return int32(i)
		}
	}
	return RemovedDetector
}
