package checkpoint

import (
	"fmt"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// loadHead sets a key to the content of a head.
func (l *Loader) loadHead(name, value []byte) error {
	if value == nil {
		if k := l.to.Keys.Get(name); k != nil {
			l.Unload(k)
		}
		l.unstage(name)
		delete(l.held, string(name))
		return nil
	}
	d := changelog.Decoder{B: value}
	start := d.HeadStart()
	if d.Bad {
		return d.Err()
	}
	if start.Fragments > 0 {
		prefix := value[:len(value)-len(d.B)]
		size := d.Small()
		if d.Bad {
			return changelog.ErrCorrupt
		}
		body, err := l.fragments.Join(name, prefix, start.Generation, int(start.Fragments), size)
		if err != nil {
			if k := l.find(name, start.Born, start.Alerts); k != nil {
				l.broken[k] = broken{err, slices.Clone(value)}
				setStart(k, &start)
			}
			return nil
		}
		d.B = body
	}
	k := l.find(name, start.Born, start.Alerts)
	if k == nil {
		return nil
	}
	l.forget(k)
	before := l.to.Keys.Bytes - k.Size()
	if k.Dropped {
		l.LeftOut -= k.Size()
	}
	setStart(k, &start)
	k.Held = nil
	err := l.readBody(k, d.B)
	if err == nil && l.dropped(name) {
		strip(k)
		l.drop(k)
		l.LeftOut += k.Size()
	}
	l.to.Keys.Bytes = before + k.Size()
	if k.Set == series.None && !l.retainOrphans(k) {
		return err
	}
	if b, ok := l.broken[k]; ok {
		l.broken[k] = broken{b.err, slices.Clone(value)}
	} else {
		l.unstage(name)
		l.fragments.Forget(name)
	}
	return err
}

// setStart sets what the start of a head says of its key.
func setStart(k *series.Key, h *changelog.HeadStart) {
	k.AsOf, k.Fragments, k.Generation, k.InLog = h.AsOf, h.Fragments, h.Generation, true
}

// readBody sets a key to the body of a head; see Writer.appendBody.
func (l *Loader) readBody(k *series.Key, body []byte) error {
	h := &l.head
	h.Silence = l.silence
	h.Start(body)
	k.LastOffset, k.LastTime = h.Int(), h.Int()
	k.Alerts.Clear()
	k.Former.Clear()
	k.Interval.Clear()
	progress := false
	err := h.Sections(func(kind byte) (known bool, err error) {
		switch kind {
		case changelog.RowsSection:
			return true, h.Rows(&k.Series, l.stored(k.Name()))
		case changelog.ProgressSection:
			progress = true
			h.Progress(&k.Series)
			l.takeFindings(k, h)
		case changelog.HeldSection:
			l.readHeld(&h.Decoder, k)
			if behind := h.Int(); behind < 0 {
				h.Fail()
			} else if k.Held != nil {
				k.Held.Behind = behind
			}
		case changelog.AlertsSection:
			h.Alerts(&k.Series)
		case changelog.SummariesSection:
			h.Summaries(&k.Series)
		case changelog.ScoreStatesSection:
			h.Differences = nil
			h.ScoreStates(&k.Series)
			l.differences(k, h.Differences)
		case changelog.FormerSection:
			h.Former(&k.Series)
		case changelog.IntervalSection:
			h.Interval(&k.Series)
		default:
			return false, nil
		}
		return true, nil
	})
	if h.Rewrite {
		l.rewrite[k] = struct{}{}
	}
	if err == nil && !progress {
		err = changelog.ErrCorrupt
	}
	return err
}

// readHeld reads the held samples of a head, with the segments.
func (l *Loader) readHeld(d *changelog.Decoder, k *series.Key) {
	format := *l.to.Records.Format()
	var t rules.Translation
	segment := func(name HeldName) []byte { return l.held[string(k.Name())][name] }
	saved := *d
	r := format.Read(d, k.LastTime, k.Born, segment)
	if r.Other && !d.Bad {
		from, to, ok := l.to.Translate(r.Layout)
		switch {
		case ok:
			*d, format, t = saved, from, to
			r = format.Read(d, k.LastTime, k.Born, segment)
		case !l.whole: // the decision on its reading may follow
			l.broken[k] = broken{err: fmt.Errorf("samples that it holds are of an unknown layout: %w", changelog.ErrCorrupt)}
			return
		}
	}
	for _, name := range r.Foreign {
		l.to.Records.AddStale(k, HeldRecord(name))
	}
	switch {
	case d.Bad:
	case r.Other:
		l.mismatched(k, Mismatch{Fields: true, Window: r.Layout})
	case r.Missing:
		l.broken[k] = broken{err: fmt.Errorf("samples that it holds are missing: %w", changelog.ErrCorrupt)}
	case t != nil:
		k.Held = LoadedSamples(k, format.Dim, &r).Translated(len(t), t.Apply)
		for i := range r.Segments {
			l.to.Records.AddStale(k, HeldRecord(r.Segments[i].Name()))
		}
		l.rewrite[k] = struct{}{}
	default:
		k.Held = LoadedSamples(k, format.Dim, &r)
		l.to.Records.SetHeldSegments(k, r.Segments)
	}
}

// takeFindings notes what the reader has found of a key's rows and progress.
func (l *Loader) takeFindings(k *series.Key, h *series.Reader) {
	for _, name := range h.Stale {
		l.to.Records.AddStale(k, Record{Kind: changelog.Segment, Window: name.Window, ID: name.ID})
	}
	l.differences(k, h.Differences)
	if h.Missing != nil {
		l.broken[k] = broken{err: h.Missing}
	}
}

// find finds or makes a key. Of one that no detector reads any more it makes a key without a set if unread:
// its open anomalies have to be closed. Otherwise it returns nil.
func (l *Loader) find(name []byte, born int64, unread bool) *series.Key {
	k, set := l.to.Keys.Get(name), l.sets.For(name)
	if k == nil && set == nil {
		if !unread {
			return nil
		}
		set = series.None
	}
	if k == nil {
		k = series.NewKey(name, set)
		k.Born = born
		l.to.Keys.Add(k)
	}
	if k.Born != born { // the key was evicted and created again
		before := k.Size()
		k.Clear()
		l.to.Keys.Bytes += k.Size() - before
		k.Born = born
	}
	return k
}

// retainOrphans reports whether a key that no detector reads has anomalies to close;
// one without is removed.
func (l *Loader) retainOrphans(k *series.Key) bool {
	delete(l.mismatch, k)
	if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
		return true
	}
	l.Unload(k)
	return false
}
