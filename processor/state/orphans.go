package state

import (
	"slices"

	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// orphans are the keys with orphaned anomalies: their detector was removed, or has another
// fingerprint now, so nothing continues them. The first live sample after a restore closes them.
type orphans struct {
	list    []*Key
	cfg     *Config
	keys    *Keys
	judge   *judge
	journal *journal
	edits   edits
}

// closeAll closes the anomalies with a live sample. A key without detectors is forgotten.
func (s *orphans) closeAll(sm *Sample) {
	list := s.list
	slices.SortFunc(list, series.ByName)
	for _, k := range list {
		s.close(k, sm.Time, sm.Offset)
		if k.Set == series.None {
			s.keys.evict(k, sm.Offset, anomaly.DetectorRemoved)
		}
	}
	clear(list)
	s.list = list[:0]
}

// close closes the orphaned anomalies of a key, after what another reading has released of held samples.
func (s *orphans) close(k *Key, time, offset int64) {
	if k.Unit != uint32(s.journal.Number) {
		s.edits.touch(k)
	}
	s.judge.out.inTurn(func() { s.judge.closeOrphans(k, s.cfg.detectorOf, time, offset) })
}

// dropHeld drops the held samples of the keys that no detector reads any more, as loading such a key does.
func (s *orphans) dropHeld() {
	for _, k := range s.list {
		if n := k.Held.Len(); k.Set == series.None && n > 0 {
			s.keys.held.N -= n
			s.keys.held.Drop(k.Held)
			s.keys.Bytes -= k.Held.Bytes()
			k.Held = nil
		}
	}
}

// drop removes a key from the list.
func (s *orphans) drop(k *Key) {
	s.list = slices.DeleteFunc(s.list, func(o *Key) bool { return o == k })
}

// rebuild lists the keys.
func (s *orphans) rebuild() {
	s.list = s.list[:0]
	for k := range s.keys.All {
		if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
			s.list = append(s.list, k)
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
