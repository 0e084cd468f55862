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
func (e Writer) Rows(k *Series) {
	e.Uint(uint64(len(k.Windows)))
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		e.Bits(sw.Fingerprint)
		e.Uint(uint64(len(sw.Columns)))
		e.Uint(uint64(sw.SegmentRows))
		e.Uint(uint64(w.Count))
		e.Uint(uint64(w.Rows))
		first := w.Count - int64(w.Rows)
		if sw.SegmentRows > 0 {
			e.Uint(uint64(w.Named.From & (sw.SegmentRows - 1)))
			first = max(first, w.Count&^(sw.SegmentRows-1))
		}
		e.rows(w, len(sw.Columns), first, w.Count)
	}
}

// Progress appends a section of a head:
//
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
func (e Writer) Progress(k *Series) {
	e.Uint(uint64(len(k.Progress)))
	for i := range k.Set.Windows {
		for j := range k.Set.Windows[i].Detectors {
			d := &k.Set.Windows[i].Detectors[j]
			e.Bits(NameHash(d.Name))
			e.Bits(d.Fingerprint)
			e.Bits(k.Set.Windows[i].Fingerprint)
			e.progressOf(k, i, d)
		}
	}
}

// progressOf appends the progress of a detector of the i-th window.
func (e Writer) progressOf(k *Series, i int, d *SetDetector) {
	m := &k.Progress[d.Place]
	e.Uint(uint64(m.Fresh))
	if m.Fresh > 0 {
		last := int64(0)
		for _, word := range k.Windows[i].Fresh(&k.Set.Windows[i], d)[:m.Fresh] {
			e.Int(int64(word) - last)
			last = int64(word)
		}
	}
	e.Words(m.Carry)
}

// Content appends the windows' rows and the detectors' progress for Export: regardless of the
// changelog has of them.
func (e Writer) Content(k *Series) {
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		e.Bits(sw.Fingerprint)
		e.Int(w.Count)
		e.rows(w, len(sw.Columns), w.Count-int64(w.Rows), w.Count)
		for j := range sw.Detectors {
			e.progressOf(k, i, &sw.Detectors[j])
		}
	}
}

// Segment appends a segment's value, rows first to end of the i-th window: version,
// born, number of its first row, columns, rows.
func (e Writer) Segment(k *Series, i int, first, end int64) {
	e.Byte(changelog.Version)
	e.Uint(uint64(k.Born))
	e.Uint(uint64(first))
	cols := len(k.Set.Windows[i].Columns)
	e.Uint(uint64(cols))
	e.rows(&k.Windows[i], cols, first, end)
}

// rows appends rows first to end of the window: their number, the first time, the
// differences of the differences of times, and the values.
func (e Writer) rows(w *Window, cols int, first, end int64) {
	n := end - first
	e.Uint(uint64(n))
	if n == 0 {
		return
	}
	// Rows first to end are the last of what was there then.
	then := *w
	then.unpush(w.Count - end)
	a, b := then.Times(int32(n), 0)
	last, step := int64(a[0]), int64(0)
	e.Int(last)
	for _, times := range [2][]uint64{a[1:], b} {
		for _, t := range times {
			d := int64(t) - last
			e.Int(d - step)
			last, step = int64(t), d
		}
	}
	a, b = then.Values(cols, int32(n))
	for _, values := range [2][]uint64{a, b} {
		for _, v := range values {
			e.Bits(v)
		}
	}
}

// Alerts appends the state of thresholds, anomalies and silence, a section of a head:
//
//	judged detectors with a state: number, and for each
//	    name, fingerprint, the window's fingerprint, kind, 1 with a span, and value of the
//	    threshold that judged the last score, the front of its state, the state of its anomalies (package anomaly)
//	1 if the key is silent, and the anomaly
//	anomalies that nothing continues: number, and for each
//	    name, 1 if of silence, reason, the anomaly
func (e Writer) Alerts(k *Series) {
	n := 0
	for i := range k.Alerts.Detectors {
		if k.Alerts.Detectors[i].used() {
			n++
		}
	}
	e.Uint(uint64(n))
	for d, window := range k.Set.All {
		if !d.Judged || !k.Alerts.Detectors[d.Alert].used() {
			continue
		}
		e.String(d.Name)
		e.Bits(d.Fingerprint)
		e.Bits(window)
		a := &k.Alerts.Detectors[d.Alert]
		params := new(threshold.Params)
		if a.judged() {
			params = a.Threshold
		}
		e.Byte(byte(params.Kind))
		e.Flag(params.Span > 0)
		e.Bits(math.Float64bits(params.Value))
		e.Sparse(a.History[:params.Stored()])
		e.Encoder.B = a.Events.Append(e.B)
	}
	e.Flag(k.Alerts.Silent != nil)
	if k.Alerts.Silent != nil {
		e.Encoder.B = k.Alerts.Silent.Append(e.B)
	}
	e.Uint(uint64(len(k.Alerts.Orphans)))
	for i := range k.Alerts.Orphans {
		o := &k.Alerts.Orphans[i]
		e.String(o.Name)
		e.Flag(o.Silence)
		e.Byte(byte(o.Reason))
		e.Encoder.B = o.Anomaly.Append(e.B)
	}
}

// Summaries appends the summaries, a section of a head: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the numbers of the state
func (e Writer) Summaries(k *Series) {
	n := 0
	for i := range k.Progress {
		if !k.Summary(i).Empty() {
			n++
		}
	}
	e.Uint(uint64(n))
	for i := range k.Set.Windows {
		for j := range k.Set.Windows[i].Detectors {
			d := &k.Set.Windows[i].Detectors[j]
			m := k.Summary(d.Place)
			if m.Empty() {
				continue
			}
			e.Bits(NameHash(d.Name))
			e.Bits(d.Fingerprint)
			e.Bits(k.Set.Windows[i].Fingerprint)
			e.Uint(uint64(len(m.State)))
			for _, v := range m.State {
				e.Bits(math.Float64bits(v))
			}
		}
	}
}

// ScoreStates appends the states of scores, a section of a head: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the words of the state up to the last that is not 0
func (e Writer) ScoreStates(k *Series) {
	n := 0
	for i := range k.Alerts.ScoreStates {
		if k.Alerts.ScoreStates[i].used() {
			n++
		}
	}
	e.Uint(uint64(n))
	for d, window := range k.Set.All {
		if !d.HasScoreState || !k.Alerts.ScoreStates[d.ScoreState].used() {
			continue
		}
		e.Bits(NameHash(d.Name))
		e.Bits(d.Fingerprint)
		e.Bits(window)
		state := k.Alerts.ScoreStates[d.ScoreState].State
		for state[len(state)-1] == 0 {
			state = state[:len(state)-1]
		}
		e.Uint(uint64(len(state)))
		for _, w := range state {
			e.Bits(w)
		}
	}
}
