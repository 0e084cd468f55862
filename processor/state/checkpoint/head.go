package checkpoint

import (
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// appendStart appends what begins the key's head and each of its fragments.
func appendStart(e *changelog.Encoder, k *series.Key, asOf int64) {
	h := changelog.HeadStart{Version: changelog.Version, Fragments: k.Fragments, Generation: k.Generation, AsOf: asOf, Born: k.Born}
	switch {
	case k.Alerts.Traced():
		h.Version = changelog.VersionTraces
	case k.Held.Len() > 0:
		h.Version = changelog.VersionHeld
	case k.Alerts.Summarised():
		h.Version = changelog.VersionSummaries
	case !k.Alerts.Empty():
		h.Version = changelog.VersionAlerts
	}
	e.HeadStart(&h)
}

// appendBody appends a head's body:
//
//	last offset, last time
//	windows: number, and for each
//	    fingerprint, columns, rows of a segment, rows ever, rows there,
//	    where in its segment the first one begins (if there are segments),
//	    the rows after the last full segment
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
//	held samples, if the version is 4: see package heldblock; before, their number,
//	    and if there are any, which versions before 4 have written,
//	    fingerprint of the values, values a sample, and for each time, offset, values
//	thresholds, anomalies and silence, if the version is 2: see series.Writer.Alerts
//	1 and these, or 0, and summaries, if the version is 3: see series.Writer.Summaries
//	1 or 0 for each of held samples, thresholds and summaries, those that there are, and traces, if the
//	    version is 5: see series.Writer.Traces
func (w *Writer) appendBody(k *series.Key) {
	e, s := &w.enc, series.Writer{Encoder: &w.enc}
	s.Rows(&k.Series)
	s.Progress(&k.Series)
	full, summarised, held, traced := !k.Alerts.Empty(), k.Alerts.Summarised(), k.Held.Len() > 0, k.Alerts.Traced()
	if traced {
		e.Flag(held)
	}
	if held {
		w.held.AppendHead(e, k.Held, w.blocks[k])
	} else if !traced {
		e.Uint(0)
	}
	if held || summarised || traced {
		e.Flag(full)
	}
	if held || traced {
		e.Flag(summarised)
	}
	if full {
		s.Alerts(&k.Series)
	}
	if summarised {
		s.Summaries(&k.Series)
	}
	if traced {
		s.Traces(&k.Series)
	}
}
