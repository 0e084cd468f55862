package checkpoint

import (
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// appendStart appends what begins the key's head and each of its fragments.
func appendStart(e *changelog.Encoder, k *series.Key, asOf int64) {
	e.HeadStart(&changelog.HeadStart{
		Alerts: !k.Alerts.Empty(), Fragments: k.Fragments, Generation: k.Generation, AsOf: asOf, Born: k.Born,
	})
}

// appendBody appends a head's body: last offset, last time, and the sections: the rows and the progress of detectors, and the
// others that are not empty.
func (w *Writer) appendBody(k *series.Key) {
	e, s := &w.enc, series.Writer{Encoder: &w.enc}
	e.Int(k.LastOffset)
	e.Int(k.LastTime)
	section := func(kind byte, write func(*series.Series)) {
		start := e.BeginSection(kind)
		write(&k.Series)
		e.EndSection(start)
	}
	section(changelog.RowsSection, s.Rows)
	section(changelog.ProgressSection, s.Progress)
	if k.Held.Len() > 0 {
		start := e.BeginSection(changelog.HeldSection)
		w.held.AppendHead(e, k.Held, w.heldSegments[k])
		e.Int(k.Held.Behind)
		e.EndSection(start)
	}
	if !k.Alerts.Empty() {
		section(changelog.AlertsSection, s.Alerts)
	}
	if k.Alerts.Summarised() {
		section(changelog.SummariesSection, s.Summaries)
	}
	if k.Alerts.HasScoreStates() {
		section(changelog.ScoreStatesSection, s.ScoreStates)
	}
	if k.Former.Any() {
		section(changelog.FormerSection, s.Former)
	}
	if k.Interval.Any() {
		section(changelog.IntervalSection, s.Interval)
	}
}
