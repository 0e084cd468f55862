package keystate

import "odradek/processor/keystate/changelog"

// version is the first byte of every value, but for heads of a key with thresholds,
// anomalies or silence: these have more at the end.
const (
	version       = changelog.Version
	versionAlerts = 2
	// versionSummaries is that of a head that ends with summaries. Before them
	// is 1 and what a head of versionAlerts ends with, or 0.
	versionSummaries = 3
	// versionHeld is that of a head with held samples: see heldblocks.go. Before its
	// anomalies and summaries are 1 or 0 for each, and then those that there are.
	versionHeld = 4
)

// encoder writes the content of a key for the changelog.
type encoder struct{ changelog.Encoder }

// decoder reads the output of encoder.
type decoder struct{ changelog.Decoder }

func newDecoder(value []byte) decoder { return decoder{changelog.Decoder{B: value}} }

// headStart begins a head and each of its parts: version, number of parts with
// their generation, asOf, born.
func (e *encoder) headStart(k *Key, asOf int64) {
	switch {
	case k.held.Len() > 0:
		e.Byte(versionHeld)
	case k.summarised():
		e.Byte(versionSummaries)
	case !k.alerts.empty():
		e.Byte(versionAlerts)
	default:
		e.Byte(version)
	}
	e.Uint(uint64(k.parts)*generations + uint64(k.gen))
	e.Uint(uint64(asOf))
	e.Uint(uint64(k.born))
}

// head is a head's body:
//
//	last offset, last time
//	windows: number, and for each
//	    fingerprint, columns, rows of a segment, rows ever, rows there,
//	    where in its segment the first one begins (if there are segments),
//	    the rows after the last full segment
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
//	held samples, if the version is 4: see heldblocks.go; before, their number,
//	    and if there are any, which versions before 4 have written,
//	    fingerprint of the values, values a sample, and for each time, offset, values
//	thresholds, anomalies and silence, if the version is 2: see alertcodec.go
//	1 and these, or 0, and summaries, if the version is 3: see summary.go
func (e *encoder) head(s *State, k *Key) {
	e.Int(k.lastOffset)
	e.Int(k.lastTime)
	e.Uint(uint64(len(k.wins)))
	for i := range k.wins {
		w, sw := &k.wins[i], &k.set.wins[i]
		e.Bits(s.cfg.Windows[sw.index].Fingerprint)
		e.Uint(uint64(len(sw.cols)))
		e.Uint(uint64(sw.seg))
		e.Uint(uint64(w.count))
		e.Uint(uint64(w.rows))
		first := w.count - int64(w.rows)
		if sw.seg > 0 {
			e.Uint(uint64(w.segs.from & (sw.seg - 1)))
			first = max(first, w.count&^(sw.seg-1))
		}
		e.rows(w, len(sw.cols), first, w.count)
	}
	e.Uint(uint64(len(k.marks)))
	for i := range k.set.wins {
		for j := range k.set.wins[i].dets {
			d := &k.set.wins[i].dets[j]
			e.Bits(nameHash(d.Name))
			e.Bits(d.Fingerprint)
			e.Bits(s.cfg.Windows[d.Window].Fingerprint)
			e.mark(&k.wins[i], &k.set.wins[i], d, &k.marks[d.mark])
		}
	}
	full, summarised, held := !k.alerts.empty(), k.summarised(), k.held.Len() > 0
	if held {
		e.heldSamples(s, k)
	} else {
		e.Uint(0)
	}
	if held || summarised {
		e.Flag(full)
	}
	if held {
		e.Flag(summarised)
	}
	if full {
		e.alerts(s, k)
	}
	if summarised {
		e.summaries(s, k)
	}
}

func (e *encoder) mark(w *win, sw *keyWindow, d *keyDetector, m *mark) {
	e.Uint(uint64(m.n))
	if m.n > 0 {
		last := int64(0)
		for _, word := range w.fresh(sw, d)[:m.n] {
			e.Int(int64(word) - last)
			last = int64(word)
		}
	}
	e.Words(m.carry)
}

func (e *encoder) held(w []uint64) {
	e.Int(int64(w[0]))
	e.Int(int64(w[1]))
	for _, v := range w[2:] {
		e.Bits(v)
	}
}

// segment is a segment's value: version, born, number of its first row, columns,
// rows.
func (e *encoder) segment(k *Key, sw *keyWindow, w *win, first, end int64) {
	e.Byte(version)
	e.Uint(uint64(k.born))
	e.Uint(uint64(first))
	e.Uint(uint64(len(sw.cols)))
	e.rows(w, len(sw.cols), first, end)
}

// rows are rows first to end of the window: their number, the first time, the
// differences of the differences of times, and the values.
func (e *encoder) rows(w *win, cols int, first, end int64) {
	n := end - first
	e.Uint(uint64(n))
	if n == 0 {
		return
	}
	// The run of rows that ends at end is the last of what was there then.
	then := *w
	then.unpush(w.count - end)
	a, b := then.times(int32(n), 0)
	last, step := int64(a[0]), int64(0)
	e.Int(last)
	for _, run := range [2][]uint64{a[1:], b} {
		for _, t := range run {
			d := int64(t) - last
			e.Int(d - step)
			last, step = int64(t), d
		}
	}
	a, b = then.values(cols, int32(n))
	for _, run := range [2][]uint64{a, b} {
		for _, v := range run {
			e.Bits(v)
		}
	}
}
