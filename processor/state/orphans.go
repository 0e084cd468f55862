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
}

// closeAllOrphans closes the anomalies with a live sample. A key without detectors is forgotten.
func (s *State) closeAllOrphans(sm *Sample) {
	for _, k := range slices.SortedFunc(maps.Keys(s.orphans.orphaned), series.ByName) {
		s.closeOrphansOf(k, sm.Time, sm.Offset)
		if k.Set == series.None {
			s.evict(k, sm.Offset, anomaly.DetectorRemoved)
		}
	}
}

// closeOrphansOf closes the orphaned anomalies of a key, if it has any, after what another reading has released of held samples.
func (s *State) closeOrphansOf(k *Key, time, offset int64) {
	if _, has := s.orphans.orphaned[k]; !has {
		return
	}
	delete(s.orphans.orphaned, k)
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	s.tasks.After(func() { s.closeOrphans(k, s.cfg.detectorOf, time, offset) })
}

// dropHeld drops the held samples of the keys that no detector reads any more, behind a replay, which has released what was released.
func (s *State) dropHeld() {
	for k := range s.orphans.orphaned {
		if n := k.Held.Len(); k.Set == series.None && n > 0 {
			s.held.N -= n
			s.held.Drop(k.Held)
			s.Keys.Bytes -= k.Held.Bytes()
			k.Held = nil
		}
	}
}

// rebuildOrphans finds the keys.
func (s *State) rebuildOrphans() {
	clear(s.orphans.orphaned)
	for k := range s.Keys.All {
		if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
			s.orphans.orphaned[k] = struct{}{}
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
