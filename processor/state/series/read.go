package series

import (
	"fmt"
	"math"
	"slices"

	"odradek/detectors/threshold"
	"odradek/detectors/vec"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// Reader reads the sections of a head, in the order in which they were written. It leaves out what no detector of the
// configuration uses.
type Reader struct {
	changelog.Decoder
	Silence bool // the configuration has silences

	Stale       []SegmentName // segments that the head names and the series' next one will not
	Rewrite     bool          // the series' next head has to be written although no sample changes it
	Differences []Difference  // what another configuration made
	Missing     error         // rows of the head are missing; nil: none are

	times, fresh []uint64
}

// Start begins the reading of a head's body.
func (r *Reader) Start(body []byte) {
	r.Decoder = changelog.Decoder{B: body}
	r.Stale, r.Differences, r.Rewrite, r.Missing = nil, nil, false, nil
}

// Rows reads what Writer.Rows has written. list are the segments that may be named, in order
// of their names.
func (r *Reader) Rows(k *Series, list []StoredSegment) error {
	seen := make([]bool, 0, 8)
	for range k.Windows {
		seen = append(seen, false)
	}
	for range r.Len(13) {
		fp, cols, seg := r.Bits(), r.Small(), int64(r.Small())
		count, rows := r.Offset(), r.Offset()
		if r.Bad || cols < 1 || cols > MaxDim || seg&(seg-1) != 0 || rows > count || rows > MaxRows {
			return changelog.ErrCorrupt
		}
		tail := count - rows
		var segs Segments
		if seg > 0 {
			skip := r.Offset()
			start, to := tail&^(seg-1), count&^(seg-1)
			if skip >= seg || (to-start)/seg > maxSegments {
				return changelog.ErrCorrupt
			}
			if tail = max(tail, to); start < to {
				segs = Segments{start + skip, to}
			}
		}
		at := slices.IndexFunc(k.Set.Windows, func(sw SetWindow) bool {
			return sw.Fingerprint == fp && len(sw.Columns) == cols
		})
		if at < 0 || seen[at] || k.Set.Windows[at].SegmentRows != seg {
			for first := range segs.All(seg) {
				r.Stale = append(r.Stale, SegmentName{fp, SegmentID(seg, first)})
			}
			r.Rewrite = true
		}
		if at < 0 || seen[at] {
			r.skipWindow(cols)
			continue
		}
		seen[at] = true
		w, sw := &k.Windows[at], &k.Set.Windows[at]
		if err := r.takeSegments(k, sw, w, list, seg, segs); err != nil {
			return err
		}
		if sw.Grid != nil {
			w.Rows = 0 // all tables are there, each in its place
		}
		w.windUp(tail)
		r.loadRows(&r.Decoder, sw, w)
		rows = min(rows, int64(sw.Need))
		if r.Bad || w.Count != count {
			return changelog.ErrCorrupt
		}
		if sw.Grid != nil && rows > 0 && rows != int64(sw.Need) {
			return changelog.ErrCorrupt
		}
		if int64(w.Rows) < rows {
			r.Missing = fmt.Errorf("rows %d to %d of its window are missing: %w", count-rows, count-int64(w.Rows), changelog.ErrCorrupt)
		} else {
			w.Rows = int32(rows)
		}
		if w.Named = (Segments{}); sw.SegmentRows == seg {
			w.Named = segs
		}
	}
	for i, ok := range seen {
		if !ok {
			w := &k.Windows[i]
			w.clear(&k.Set.Windows[i])
			w.Named = Segments{}
		}
	}
	return nil
}

// takeSegments appends the rows of the segments that a head names to their
// window, unless an earlier head has done so.
func (r *Reader) takeSegments(k *Series, sw *SetWindow, w *Window, list []StoredSegment, seg int64, segs Segments) error {
	if size := min(segs.To-segs.From, int64(sw.Need)); size > int64(w.cap) {
		w.grow(sw, int32(size)) // once, not for each segment
	}
	for i := range list {
		g := &list[i]
		if g.Name.Window != sw.Fingerprint || g.born != k.Born || g.cols != len(sw.Columns) ||
			!segs.Has(seg, g.first) || g.Name.ID != SegmentID(seg, g.first) {
			continue
		}
		if i+1 < len(list) && list[i+1].Name.Window == g.Name.Window && list[i+1].Name.ID == g.Name.ID {
			continue // written again
		}
		end := g.first&^(seg-1) + seg
		if end <= w.Count && g.first >= w.Count-int64(w.Rows) {
			continue // they are there
		}
		w.windUp(g.first)
		rows := changelog.Decoder{B: g.rows}
		if r.loadRows(&rows, sw, w); rows.Bad || len(rows.B) > 0 || w.Count != end {
			return changelog.ErrCorrupt
		}
	}
	return nil
}

// loadRows appends rows to a window.
func (r *Reader) loadRows(from *changelog.Decoder, sw *SetWindow, w *Window) {
	nc := len(sw.Columns)
	times := from.Times(r.times[:0], nc)
	r.times = times
	if len(times) == 0 {
		return
	}
	// A window that does not begin with the key's first row was full once.
	if size := min(w.Count+int64(len(times)), int64(sw.Need)); size > int64(w.cap) {
		w.grow(sw, int32(size))
	}
	for len(times) > 0 {
		w.Reserve(sw)
		n, at := w.pushRun(sw, len(times))
		copy(w.slab[at:], times[:n])
		row := w.slab[int(w.cap)+at*nc:][:n*nc]
		vec.CopyBits(row, from.B)
		times, from.B = times[n:], from.B[8*len(row):]
	}
}

// skipWindow skips the rest of a window that is not configured any more.
func (r *Reader) skipWindow(cols int) {
	times := r.Times(r.times[:0], cols)
	r.times = times
	r.Skip(8 * cols * len(times))
}

// Progress reads what Writer.Progress has written.
func (r *Reader) Progress(k *Series) {
	for i := range k.Progress {
		m := &k.Progress[i]
		m.Fresh, m.Carry = 0, m.Carry[:0]
	}
	for range r.Len(26) {
		name, fp, window := r.Bits(), r.Bits(), r.Bits()
		fresh, word := r.fresh[:0], int64(0)
		for range r.Len(1) {
			word += r.Int()
			fresh = append(fresh, uint64(word))
		}
		r.fresh = fresh
		carry := r.Words()
		if r.Bad {
			return
		}
		for i := range k.Set.Windows {
			if sw := &k.Set.Windows[i]; sw.Grid != nil && sw.Fingerprint == window && len(fresh) > 0 {
				k.joinStride(i, fresh[0])
			}
			for j := range k.Set.Windows[i].Detectors {
				det := &k.Set.Windows[i].Detectors[j]
				if NameHash(det.Name) != name {
					continue
				}
				switch {
				case k.Set.Windows[i].Fingerprint != window:
					r.Differences = append(r.Differences, Difference{det.Name, true, window, fp})
				case det.Fingerprint != fp:
					r.Differences = append(r.Differences, Difference{det.Name, false, window, fp})
				case len(fresh) > det.waits || len(carry) > det.Most.Carry ||
					len(fresh) > 0 && k.Windows[i].Rows == 0 && r.Missing == nil:
					r.Fail()
				default:
					m := &k.Progress[det.Place]
					if m.Carry = carry; det.Grid != nil {
						break
					}
					if m.Fresh = int32(len(fresh)); m.Fresh > 0 && k.Windows[i].slab != nil {
						copy(k.Windows[i].Fresh(&k.Set.Windows[i], det), fresh)
					}
				}
			}
		}
	}
}

// Alerts reads what Writer.Alerts has written. An anomaly that no detector continues
// becomes an orphan, to be closed with the first live sample.
func (r *Reader) Alerts(k *Series) {
	if k.Alerts == nil {
		k.Alerts = NewAlerts(k.Set.Judged)
	}
	for range r.Len(28) {
		name, fp, window := r.String(), r.Bits(), r.Bits()
		judged := r.history()
		ev := anomaly.Decode(&r.Decoder)
		if r.Bad {
			return
		}
		det, configured := k.Set.detector(name)
		reason := anomaly.DetectorRemoved
		switch {
		case det == nil || !det.Judged:
		case det.Fingerprint != fp || configured != window:
			reason = anomaly.Reset
		default:
			a := &k.Alerts.Detectors[det.Alert]
			if len(judged.front) > 0 && !judged.restore(det, a) {
				r.Fail()
				return
			}
			if det.Events != nil {
				a.Events = ev
				continue
			}
		}
		if a := ev.Anomaly(); a != nil {
			r.addOrphan(k, Orphan{Name: name, Reason: reason, Anomaly: *a})
		}
	}
	switch r.Byte() {
	case 0:
	case 1:
		if a := anomaly.DecodeAnomaly(&r.Decoder); r.Silence && k.Set != None {
			k.Alerts.Silent = &a
		} else if !r.Bad {
			r.addOrphan(k, Orphan{Name: SilenceName, Silence: true, Reason: anomaly.DetectorRemoved, Anomaly: a})
		}
	default:
		r.Fail()
	}
	for range r.Len(20) {
		o := Orphan{Name: r.String(), Silence: r.Byte() == 1, Reason: anomaly.Reason(r.Byte())}
		if o.Anomaly = anomaly.DecodeAnomaly(&r.Decoder); r.Bad {
			return
		}
		r.addOrphan(k, o)
	}
}

// storedHistory is a history of a head.
type storedHistory struct {
	threshold      threshold.Params // of the kind, the value and the layout of the one that judged the last score
	front, waiting []float32
}

// history reads what Writer.history has written.
func (r *Reader) history() (h storedHistory) {
	h.threshold.Kind = threshold.Kind(r.Byte())
	flags := r.Flags(spread | admitsLate)
	h.threshold.Value = math.Float64frombits(r.Bits())
	h.front = r.Sparse()
	// Any lengths will do: the layout of the state is the same.
	if flags&spread != 0 {
		h.threshold.Span = 1
	}
	if flags&admitsLate != 0 {
		h.threshold.Late = threshold.Late{Open: 1, Close: 1}
		h.waiting = r.Floats()
	}
	return h
}

// restore sets the history of a detector. It returns false if the detector cannot have it.
func (h *storedHistory) restore(det *SetDetector, a *Alert) bool {
	if a.Threshold = det.thresholdLike(h.threshold, len(h.front)-threshold.Head); a.Threshold == nil {
		return false
	}
	a.History = make([]float32, a.Threshold.Size())
	copy(a.History, h.front)
	return a.Threshold.Restore(a.History) && a.Threshold.SetWaiting(a.History, h.waiting)
}

func (r *Reader) addOrphan(k *Series, o Orphan) {
	k.Alerts.Orphans = append(k.Alerts.Orphans, o)
	r.Rewrite = true
}

// Summaries reads what Writer.Summaries has written, those that the configuration has a use
// for; Progress has found which are of another one.
func (r *Reader) Summaries(k *Series) {
	for range r.Len(25) {
		name, fp, window := r.Bits(), r.Bits(), r.Bits()
		state := make([]float64, r.Len(8))
		for i := range state {
			state[i] = math.Float64frombits(r.Bits())
		}
		if r.Bad {
			return
		}
		for i := range k.Set.Windows {
			for j := range k.Set.Windows[i].Detectors {
				det := &k.Set.Windows[i].Detectors[j]
				if NameHash(det.Name) != name || det.Summary == nil || det.Fingerprint != fp || k.Set.Windows[i].Fingerprint != window {
					continue
				}
				if !det.Summary.Valid(state) {
					r.Fail()
					return
				}
				k.SetSummary(det.Place, &Summary{State: state})
			}
		}
	}
}

// Difference is a detector of another configuration.
type Difference struct {
	Detector       string
	Fields         bool   // the window differs
	Window, Params uint64 // fingerprints of the window and of the detector
}

// SegmentName names a segment: the fingerprint of the window and SegmentID.
type SegmentName struct{ Window, ID uint64 }

// StoredSegment is a segment that waits for the head that names it.
type StoredSegment struct {
	Name        SegmentName
	born, first int64
	cols        int
	rows        []byte
}

// stagedBytes is the size of a staged without its rows.
const stagedBytes = 80

// Size estimates the memory of a staged segment.
func (s *StoredSegment) Size() int64 { return int64(len(s.rows)) + stagedBytes }

// ReadSegment reads what Writer.Segment has written.
func ReadSegment(value []byte, name SegmentName) (StoredSegment, error) {
	d := changelog.Decoder{B: value}
	d.Version()
	born, first, cols := d.Offset(), d.Offset(), d.Small()
	if cols < 1 || cols > MaxDim {
		d.Fail()
	}
	if d.Bad {
		return StoredSegment{}, d.Err()
	}
	return StoredSegment{name, born, first, cols, slices.Clone(d.B)}, nil
}

// maxSegments bounds the segments of a window: a damaged head must not cause
// endless deletions.
const maxSegments = 1 << 17
