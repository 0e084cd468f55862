package keystate

import (
	"odradek/processor/events"
	"odradek/processor/keystate/series"
)

// Keys become silent with a sample that raises the watermark: after the samples that it
// releases are folded, and before the sample itself. See package silence.

func (s *State) openSilence(k *Key, wm, offset int64) {
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	if k.Alerts == nil {
		k.Alerts = series.NewAlerts(0)
		s.keys.Bytes += k.Alerts.Size()
	}
	a := s.silence.Open(events.ID(series.SilenceName, k.Name(), s.judge.source, wm, offset), k.Newest(), wm)
	s.journal.Open.PushValues(opSilent, k, 0, 0, (*events.Anomaly)(nil))
	k.Alerts.Silent = a
	s.silent++
	s.inTurn(EventRow{k, SilenceDetector, series.SilenceName, events.Change{Kind: events.Open, Time: wm, Offset: offset, Anomaly: *a}})
}

// heard ends the silence of a key with a sample.
func (s *State) heard(k *Key, sm *Sample) {
	if !k.Silent() || !s.silence.Ends(sm.Time, s.watermark()) {
		return
	}
	s.closeSilence(k, events.Recovered, sm.Time, sm.Offset)
	s.watch(k, sm.Time)
}

func (s *State) closeSilence(k *Key, reason events.Reason, time, offset int64) {
	if s.cfg.Silence == 0 {
		return // an orphan
	}
	open := k.Alerts.Silent
	s.journal.Open.PushValues(opSilent, k, 0, 0, open)
	k.Alerts.Silent = nil
	s.silent--
	s.inTurn(EventRow{k, SilenceDetector, series.SilenceName,
		events.Change{Kind: events.Close, Reason: reason, Time: time, Offset: offset, Anomaly: s.silence.Close(open, time)}})
}

// watch adds a key that is not silent to the silence watch.
func (s *State) watch(k *Key, newest int64) {
	if s.journal.Replaying {
		return
	}
	s.silence.Add(k, newest)
	s.nextSweep = min(s.evictor.Next(), s.silence.Next())
}
