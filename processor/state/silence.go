package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// silences opens and closes the silences of keys. Keys become silent with a sample that raises
// the watermark: after the samples that it releases are folded, and before the sample itself.
// See silencewatch.go.
type silences struct {
	watch silenceWatch[*Key]
	limit int64 // Config.Silence
	n     int   // keys that are silent
}

// newSilences returns the silences of the keys in a table.
func newSilences(limit int64, table *series.KeyTable) silences {
	return silences{
		limit: limit,
		watch: newSilenceWatch(limit, watchable[*Key]{
			All:     table.All,
			Len:     table.Len,
			Newest:  (*Key).Newest,
			Silent:  (*Key).Silent,
			Gone:    func(k *Key) bool { return k.Dead },
			Compare: series.ByUse,
		}),
	}
}

// openSilences opens the silences that the watermark of the sample at offset brings about.
func (s *State) openSilences(offset int64) {
	wm := s.watermark()
	for _, k := range s.silences.watch.Due(wm) {
		s.openSilence(k, wm, offset)
	}
}

func (s *State) openSilence(k *Key, wm, offset int64) {
	if to, muted := s.mutes.Folded.Silences(series.SilenceName, k.Name(), wm); muted {
		s.silences.watch.Add(k, to-1-s.silences.limit) // due again when the watermark is at to, if the key is still silent
		return
	}
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	if k.Alerts == nil {
		k.Alerts = series.NewAlerts(0)
		s.Keys.Bytes += k.Alerts.Size()
	}
	a := s.silences.watch.Open(anomaly.ID(series.SilenceName, k.Name(), s.source, wm, offset), k.Newest(), wm)
	s.journal.Open.PushValues(opSilent, k, 0, 0, (*anomaly.Anomaly)(nil))
	k.Alerts.Silent = a
	s.silences.n++
	s.tasks.After(func() {
		if fault, open := openFault(k, nil, false); open {
			a.Fault = fault
		}
		if s.groups != nil {
			s.groups.silenced(k, a)
		}
		s.addEvent(&EventRow{Key: k, Detector: SilenceDetector, Name: series.SilenceName,
			Change: anomaly.Change{Kind: anomaly.Open, Time: wm, Offset: offset, Anomaly: *a}})
	})
}

// endSilence ends the silence of a key with a sample.
func (s *State) endSilence(k *Key, sm *Sample) {
	if !k.Silent() || !s.silences.watch.Ends(sm.Time, s.watermark()) {
		return
	}
	s.closeSilence(k, anomaly.Recovered, sm.Time, sm.Offset)
	s.watchSilence(k, sm.Time)
}

// closeSilence closes the silence of a key.
func (s *State) closeSilence(k *Key, reason anomaly.Reason, time, offset int64) {
	if s.silences.limit == 0 {
		return // an orphan
	}
	open := k.Alerts.Silent
	s.journal.Open.PushValues(opSilent, k, 0, 0, open)
	k.Alerts.Silent = nil
	s.silences.n--
	s.tasks.After(func() {
		if s.groups != nil {
			s.groups.endSilence(k, open)
		}
		s.addEvent(&EventRow{Key: k, Detector: SilenceDetector, Name: series.SilenceName,
			Change: anomaly.Change{Kind: anomaly.Close, Reason: reason, Time: time, Offset: offset, Anomaly: s.silences.watch.Close(open, time)}})
	})
}

// watchSilence adds a key that is not silent and whose newest sample is of that time.
func (s *State) watchSilence(k *Key, newest int64) {
	s.silences.watch.Add(k, newest)
	s.sweepAt = min(s.sweepAt, s.silences.watch.Next())
}

// rebuildSilences counts the keys that are silent.
func (s *State) rebuildSilences() {
	s.silences.watch.Reset()
	s.silences.n = 0
	for k := range s.Keys.All {
		if k.Silent() {
			s.silences.n++
		}
	}
}
