package series

import (
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/state/changelog"
)

// Writer writes the sections of a head, and segments. A Reader reads them.
type Writer struct{ *changelog.Encoder }

// Rows appends a section of a head:
//
//	windows: number, and for each
//	    fingerprint, columns, rows of a segment, rows ever, rows there,
//	    where in its segment the first one begins (if there are segments),
//	    the rows after the last full segment
func (wr Writer) Rows(k *Series) {
	wr.Uint(uint64(len(k.Windows)))
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		wr.Bits(sw.Fingerprint)
		wr.Uint(uint64(len(sw.Columns)))
		wr.Uint(uint64(sw.SegmentRows))
		wr.Uint(uint64(w.Count))
		wr.Uint(uint64(w.Rows))
		first := w.Count - int64(w.Rows)
		if sw.SegmentRows > 0 {
			wr.Uint(uint64(w.Named.From & (sw.SegmentRows - 1)))
			first = max(first, w.Count&^(sw.SegmentRows-1))
		}
		wr.rows(w, len(sw.Columns), first, w.Count)
	}
}

// Progress appends a section of a head:
//
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
func (wr Writer) Progress(k *Series) {
	wr.Uint(uint64(len(k.Progress)))
	for i := range k.Set.Windows {
		for j := range k.Set.Windows[i].Detectors {
			d := &k.Set.Windows[i].Detectors[j]
			wr.Bits(NameHash(d.Name))
			wr.Bits(d.Fingerprint)
			wr.Bits(k.Set.Windows[i].Fingerprint)
			wr.progressOf(k, i, d)
		}
	}
}

// progressOf appends the progress of a detector of the i-th window.
func (wr Writer) progressOf(k *Series, i int, d *SetDetector) {
	m := &k.Progress[d.Place]
	wr.Uint(uint64(m.Fresh))
	if m.Fresh > 0 {
		last := int64(0)
		for _, word := range k.Windows[i].Fresh(&k.Set.Windows[i], d)[:m.Fresh] {
			wr.Int(int64(word) - last)
			last = int64(word)
		}
	}
	wr.Words(m.Carry)
}

// Content appends the windows' rows and the detectors' progress for Export: regardless of the
// changelog has of them.
func (wr Writer) Content(k *Series) {
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		wr.Bits(sw.Fingerprint)
		wr.Int(w.Count)
		wr.rows(w, len(sw.Columns), w.Count-int64(w.Rows), w.Count)
		for j := range sw.Detectors {
			wr.progressOf(k, i, &sw.Detectors[j])
		}
	}
}

// Segment appends a segment's value, rows first to end of the i-th window: version,
// born, number of its first row, columns, rows.
func (wr Writer) Segment(k *Series, i int, first, end int64) {
	wr.Byte(changelog.Version)
	wr.Uint(uint64(k.Born))
	wr.Uint(uint64(first))
	cols := len(k.Set.Windows[i].Columns)
	wr.Uint(uint64(cols))
	wr.rows(&k.Windows[i], cols, first, end)
}

// rows appends rows first to end of the window: their number, the first time, the
// differences of the differences of times, and the values.
func (wr Writer) rows(w *Window, cols int, first, end int64) {
	n := end - first
	wr.Uint(uint64(n))
	if n == 0 {
		return
	}
	// Rows first to end are the last of what was there then.
	then := *w
	then.unpush(w.Count - end)
	a, b := then.Times(int32(n), 0)
	last, step := a[0], int64(0)
	wr.Int(last)
	for _, times := range [2][]int64{a[1:], b} {
		for _, t := range times {
			d := t - last
			wr.Int(d - step)
			last, step = t, d
		}
	}
	x, y := then.Values(cols, int32(n))
	for _, values := range [2][]uint64{x, y} {
		for _, v := range values {
			wr.Bits(v)
		}
	}
}

// Alerts appends the state of thresholds, anomalies and silence, a section of a head:
//
//	judged detectors with a state: number, and for each
//	    name, fingerprint, the window's fingerprint, the history, the state of its anomalies (package anomaly)
//	1 if the key is silent, and the anomaly
//	anomalies that nothing continues: number, and for each
//	    name, 1 if of silence, reason, the anomaly
func (wr Writer) Alerts(k *Series) {
	n := 0
	for i := range k.Alerts.Detectors {
		if k.Alerts.Detectors[i].used() {
			n++
		}
	}
	wr.Uint(uint64(n))
	for d, window := range k.Set.All {
		if !d.Judged || !k.Alerts.Detectors[d.Alert].used() {
			continue
		}
		wr.String(d.Name)
		wr.Bits(d.Fingerprint)
		wr.Bits(window)
		a := &k.Alerts.Detectors[d.Alert]
		wr.history(a)
		wr.Encoder.B = a.Events.Append(wr.B)
	}
	wr.Flag(k.Alerts.Silent != nil)
	if k.Alerts.Silent != nil {
		wr.Encoder.B = k.Alerts.Silent.Append(wr.B)
	}
	wr.Uint(uint64(len(k.Alerts.Orphans)))
	for i := range k.Alerts.Orphans {
		o := &k.Alerts.Orphans[i]
		wr.String(o.Name)
		wr.Flag(o.Silence)
		wr.Byte(byte(o.Reason))
		wr.Encoder.B = o.Anomaly.Append(wr.B)
	}
}

// The flags of a history.
const (
	spread     = 1 << iota // over time: the threshold has a span
	admitsLate             // the threshold has late admission: scores may wait
)

// history appends the scores of a detector: kind, flags and value of the threshold that judged the last one, the front of the
// threshold's state, and with late admission the scores that wait.
func (wr Writer) history(a *Alert) {
	params := new(threshold.Params)
	if a.judged() {
		params = a.Threshold
	}
	flags := uint64(0)
	if params.Span > 0 {
		flags |= spread
	}
	if params.Late.Close > 0 {
		flags |= admitsLate
	}
	wr.Byte(byte(params.Kind))
	wr.Uint(flags)
	wr.Bits(math.Float64bits(params.Value))
	wr.Sparse(a.History[:params.Stored()])
	if flags&admitsLate != 0 {
		wr.Floats(params.Waiting(a.History))
	}
}

// Summaries appends the summaries, a section of a head: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the numbers of the state
func (wr Writer) Summaries(k *Series) {
	n := 0
	for i := range k.Progress {
		if !k.Summary(i).Empty() {
			n++
		}
	}
	wr.Uint(uint64(n))
	for i := range k.Set.Windows {
		for j := range k.Set.Windows[i].Detectors {
			d := &k.Set.Windows[i].Detectors[j]
			m := k.Summary(d.Place)
			if m.Empty() {
				continue
			}
			wr.Bits(NameHash(d.Name))
			wr.Bits(d.Fingerprint)
			wr.Bits(k.Set.Windows[i].Fingerprint)
			wr.Uint(uint64(len(m.State)))
			for _, v := range m.State {
				wr.Bits(math.Float64bits(v))
			}
		}
	}
}

// ScoreStates appends the states of scores, a section of a head: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the words of the state up to the last that is not 0
func (wr Writer) ScoreStates(k *Series) {
	n := 0
	for i := range k.Alerts.ScoreStates {
		if k.Alerts.ScoreStates[i].used() {
			n++
		}
	}
	wr.Uint(uint64(n))
	for d, window := range k.Set.All {
		if !d.HasScoreState || !k.Alerts.ScoreStates[d.ScoreState].used() {
			continue
		}
		wr.Bits(NameHash(d.Name))
		wr.Bits(d.Fingerprint)
		wr.Bits(window)
		state := k.Alerts.ScoreStates[d.ScoreState].State
		for state[len(state)-1] == 0 {
			state = state[:len(state)-1]
		}
		wr.Uint(uint64(len(state)))
		for _, w := range state {
			wr.Bits(w)
		}
	}
}
