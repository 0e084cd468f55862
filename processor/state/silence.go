package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// silences opens and closes the silences of keys. Keys become silent with a sample that raises
// the watermark: after the samples that it releases are folded, and before the sample itself.
// See package silence.
type silences struct {
	watch   silenceWatch[*Key]
	limit   int64 // Config.Silence
	n       int   // keys that are silent
	at      *position
	journal *journal
	keys    *series.KeyTable
	edits   edits
	out     *Output
	mutes   *muteRules
}

// newSilences returns the silences of the keys in a table.
func newSilences(limit int64, table *series.KeyTable) silences {
	return silences{
		limit: limit, keys: table,
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

// open opens the silences that the watermark of the sample at offset brings about.
func (s *silences) open(offset int64) {
	wm := s.at.watermark()
	for _, k := range s.watch.Due(wm) {
		s.openOf(k, wm, offset)
	}
}

func (s *silences) openOf(k *Key, wm, offset int64) {
	if to, muted := s.mutes.Folded.Silences(series.SilenceName, k.Name(), wm); muted {
		s.watch.Add(k, to-1-s.limit) // due again when the watermark is at to, if the key is still silent
		return
	}
	if k.Unit != uint32(s.journal.Number) {
		s.edits.touch(k)
	}
	if k.Alerts == nil {
		k.Alerts = series.NewAlerts(0)
		s.keys.Bytes += k.Alerts.Size()
	}
	a := s.watch.Open(anomaly.ID(series.SilenceName, k.Name(), s.out.source, wm, offset), k.Newest(), wm)
	s.journal.Open.PushValues(opSilent, k, 0, 0, (*anomaly.Anomaly)(nil))
	k.Alerts.Silent = a
	s.n++
	s.out.inTurn(func() {
		if s.out.groups != nil {
			s.out.groups.silenced(k, a)
		}
		s.out.addEvent(&EventRow{Key: k, Detector: SilenceDetector, Name: series.SilenceName,
			Change: anomaly.Change{Kind: anomaly.Open, Time: wm, Offset: offset, Anomaly: *a}})
	})
}

// heard ends the silence of a key with a sample.
func (s *silences) heard(k *Key, sm *Sample) {
	if !k.Silent() || !s.watch.Ends(sm.Time, s.at.watermark()) {
		return
	}
	s.close(k, anomaly.Recovered, sm.Time, sm.Offset)
	s.add(k, sm.Time)
}

// close closes the silence of a key.
func (s *silences) close(k *Key, reason anomaly.Reason, time, offset int64) {
	if s.limit == 0 {
		return // an orphan
	}
	open := k.Alerts.Silent
	s.journal.Open.PushValues(opSilent, k, 0, 0, open)
	k.Alerts.Silent = nil
	s.n--
	s.out.inTurn(func() {
		if s.out.groups != nil {
			s.out.groups.heard(k, open)
		}
		s.out.addEvent(&EventRow{Key: k, Detector: SilenceDetector, Name: series.SilenceName,
			Change: anomaly.Change{Kind: anomaly.Close, Reason: reason, Time: time, Offset: offset, Anomaly: s.watch.Close(open, time)}})
	})
}

// add adds a key that is not silent and whose newest sample is of that time.
func (s *silences) add(k *Key, newest int64) {
	s.watch.Add(k, newest)
	s.at.sweepAt = min(s.at.sweepAt, s.watch.Next())
}

// rebuild counts the keys that are silent.
func (s *silences) rebuild() {
	s.watch.Reset()
	s.n = 0
	for k := range s.keys.All {
		if k.Silent() {
			s.n++
		}
	}
}
