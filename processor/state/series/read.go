package series

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"odradek/detectors/threshold"
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
func (d *Reader) Start(body []byte) {
	d.Decoder = changelog.Decoder{B: body}
	d.Stale, d.Differences, d.Rewrite, d.Missing = nil, nil, false, nil
}

// Rows reads what Writer.Rows has written. list are the segments that may be named, in order
// of their names.
func (d *Reader) Rows(k *Series, list []StoredSegment) error {
	seen := make([]bool, 0, 8)
	for range k.Windows {
		seen = append(seen, false)
	}
	for range d.Len(13) {
		fp, cols, seg := d.Bits(), d.Small(), int64(d.Small())
		count, rows := d.Offset(), d.Offset()
		if d.Bad || cols < 1 || cols > MaxDim || seg&(seg-1) != 0 || rows > count || rows > MaxRows {
			return changelog.ErrCorrupt
		}
		tail := count - rows
		var segs Segments
		if seg > 0 {
			skip := d.Offset()
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
				d.Stale = append(d.Stale, SegmentName{fp, SegmentID(seg, first)})
			}
			d.Rewrite = true
		}
		if at < 0 || seen[at] {
			d.skipWindow(cols)
			continue
		}
		seen[at] = true
		w, sw := &k.Windows[at], &k.Set.Windows[at]
		if err := d.takeSegments(k, sw, w, list, seg, segs); err != nil {
			return err
		}
		if sw.Grid != nil {
			w.Rows = 0 // all tables are there, each in its place
		}
		w.windUp(tail)
		d.loadRows(&d.Decoder, sw, w)
		rows = min(rows, int64(sw.Need))
		if d.Bad || w.Count != count {
			return changelog.ErrCorrupt
		}
		if sw.Grid != nil && rows > 0 && rows != int64(sw.Need) {
			return changelog.ErrCorrupt
		}
		if int64(w.Rows) < rows {
			d.Missing = fmt.Errorf("rows %d to %d of its window are missing: %w", count-rows, count-int64(w.Rows), changelog.ErrCorrupt)
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
func (d *Reader) takeSegments(k *Series, sw *SetWindow, w *Window, list []StoredSegment, seg int64, segs Segments) error {
	for i := range list {
		g := &list[i]
		if g.Window != sw.Fingerprint || g.born != k.Born || g.cols != len(sw.Columns) ||
			!segs.Has(seg, g.first) || g.ID != SegmentID(seg, g.first) {
			continue
		}
		if i+1 < len(list) && list[i+1].Window == g.Window && list[i+1].ID == g.ID {
			continue // written again
		}
		end := g.first&^(seg-1) + seg
		if end <= w.Count && g.first >= w.Count-int64(w.Rows) {
			continue // they are there
		}
		w.windUp(g.first)
		rows := changelog.Decoder{B: g.rows}
		if d.loadRows(&rows, sw, w); rows.Bad || len(rows.B) > 0 || w.Count != end {
			return changelog.ErrCorrupt
		}
	}
	return nil
}

// loadRows appends rows to a window.
func (d *Reader) loadRows(from *changelog.Decoder, sw *SetWindow, w *Window) {
	nc := len(sw.Columns)
	times := from.Times(d.times[:0], nc)
	d.times = times
	if len(times) == 0 {
		return
	}
	// A window that does not begin with the key's first row was full once.
	if size := min(w.Count+int64(len(times)), int64(sw.Need)); size > int64(w.cap) {
		w.grow(sw, int32(size))
	}
	b := from.B
	for _, t := range times {
		w.Reserve(sw)
		at := int(w.push(sw))
		w.slab[at] = t
		row := w.slab[int(w.cap)+at*nc:][:nc]
		for j := range row {
			row[j] = binary.LittleEndian.Uint64(b[8*j:])
		}
		b = b[8*nc:]
	}
	from.B = b
}

// skipWindow skips the rest of a window that is not configured any more.
func (d *Reader) skipWindow(cols int) {
	times := d.Times(d.times[:0], cols)
	d.times = times
	d.Skip(8 * cols * len(times))
}

// Progress reads what Writer.Progress has written.
func (d *Reader) Progress(k *Series) {
	for i := range k.Progress {
		m := &k.Progress[i]
		m.Fresh, m.Carry = 0, m.Carry[:0]
	}
	for range d.Len(26) {
		name, fp, window := d.Bits(), d.Bits(), d.Bits()
		fresh, word := d.fresh[:0], int64(0)
		for range d.Len(1) {
			word += d.Int()
			fresh = append(fresh, uint64(word))
		}
		d.fresh = fresh
		carry := d.Words()
		if d.Bad {
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
					d.Differences = append(d.Differences, Difference{det.Name, true, window, fp})
				case det.Fingerprint != fp:
					d.Differences = append(d.Differences, Difference{det.Name, false, window, fp})
				case len(fresh) > det.waits || len(carry) > det.Most.Carry ||
					len(fresh) > 0 && k.Windows[i].Rows == 0 && d.Missing == nil:
					d.Fail()
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
func (d *Reader) Alerts(k *Series) {
	if k.Alerts == nil {
		k.Alerts = NewAlerts(k.Set.Judged)
	}
	for range d.Len(28) {
		name, fp, window := d.String(), d.Bits(), d.Bits()
		want := threshold.Params{Kind: threshold.Kind(d.Byte())}
		if d.Byte() != 0 {
			want.Span = 1 // any length will do: the layout of the state is the same
		}
		want.Value = math.Float64frombits(d.Bits())
		front := d.Sparse()
		ev := anomaly.Decode(&d.Decoder)
		if d.Bad {
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
			if len(front) > 0 {
				a.Threshold = det.thresholdLike(want, len(front)-threshold.Head)
				if a.Threshold == nil {
					d.Fail()
					return
				}
				a.History = make([]float32, a.Threshold.Size())
				if copy(a.History, front); !a.Threshold.Restore(a.History) {
					d.Fail()
					return
				}
			}
			if det.Events != nil {
				a.Events = ev
				continue
			}
		}
		if a := ev.Anomaly(); a != nil {
			d.addOrphan(k, Orphan{Name: name, Reason: reason, Anomaly: *a})
		}
	}
	switch d.Byte() {
	case 0:
	case 1:
		if a := anomaly.DecodeAnomaly(&d.Decoder); d.Silence && k.Set != None {
			k.Alerts.Silent = &a
		} else if !d.Bad {
			d.addOrphan(k, Orphan{Name: SilenceName, Silence: true, Reason: anomaly.DetectorRemoved, Anomaly: a})
		}
	default:
		d.Fail()
	}
	for range d.Len(20) {
		o := Orphan{Name: d.String(), Silence: d.Byte() == 1, Reason: anomaly.Reason(d.Byte())}
		if o.Anomaly = anomaly.DecodeAnomaly(&d.Decoder); d.Bad {
			return
		}
		d.addOrphan(k, o)
	}
}

func (d *Reader) addOrphan(k *Series, o Orphan) {
	k.Alerts.Orphans = append(k.Alerts.Orphans, o)
	d.Rewrite = true
}

// Summaries reads what Writer.Summaries has written, those that the configuration has a use
// for; Progress has found which are of another one.
func (d *Reader) Summaries(k *Series) {
	for range d.Len(25) {
		name, fp, window := d.Bits(), d.Bits(), d.Bits()
		state := make([]float64, d.Len(8))
		for i := range state {
			state[i] = math.Float64frombits(d.Bits())
		}
		if d.Bad {
			return
		}
		for i := range k.Set.Windows {
			for j := range k.Set.Windows[i].Detectors {
				det := &k.Set.Windows[i].Detectors[j]
				if NameHash(det.Name) != name || det.Summary == nil || det.Fingerprint != fp || k.Set.Windows[i].Fingerprint != window {
					continue
				}
				if !det.Summary.Valid(state) {
					d.Fail()
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
	SegmentName
	born, first int64
	cols        int
	rows        []byte
}

// stagedBytes is the size of a staged without its rows.
const stagedBytes = 80

// Size estimates the memory of a staged segment.
func (g *StoredSegment) Size() int64 { return int64(len(g.rows)) + stagedBytes }

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
