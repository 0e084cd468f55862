package keystate

import (
	"slices"

	"odradek/processor/events"
	"odradek/processor/keystate/keys"
	"odradek/processor/keystate/series"
)

// endKey closes what is open of a key that is evicted at offset.
func (s *State) endKey(k *Key, reason events.Reason, offset int64) {
	a := k.Alerts
	if a == nil {
		return
	}
	wm := s.watermark()
	if len(a.Detectors) > 0 {
		if s.folder.tasks.Empty() {
			s.judge.endAlerts(k, reason, wm, offset)
		} else {
			s.folder.tasks.Defer(func() { s.judge.endAlerts(k, reason, wm, offset) })
		}
	}
	if a.Silent != nil {
		s.silences.close(k, reason, wm, offset)
	}
}

// closeOrphans closes, with the first live sample after a restore, the anomalies
// that nothing continues. A key that is there for nothing else is forgotten.
func (s *State) closeOrphans(sm *Sample) {
	list := s.orphaned
	slices.SortFunc(list, keys.ByName)
	for _, k := range list {
		s.closeOrphansOf(k, sm.Time, sm.Offset)
		if k.Set == series.None {
			s.evict(k, sm.Offset, events.DetectorRemoved)
		}
	}
	clear(list)
	s.orphaned = list[:0]
}

// closeOrphansOf closes the anomalies of a key that nothing continues.
func (s *State) closeOrphansOf(k *Key, time, offset int64) {
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	s.judge.closeOrphans(k, s.cfg.detectorOf, time, offset)
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
