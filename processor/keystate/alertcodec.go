package keystate

import (
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/events"
)

// alerts is the end of a head of version 2:
//
//	judged detectors that remember something: number, and for each
//	    name, fingerprint, the window's fingerprint, kind (and in the upper half of the
//	    byte threshold.Layout) and value of the threshold that judged the last score,
//	    the front of its state, what events remember (package events)
//	1 if the key is silent, and the anomaly
//	anomalies that nothing continues: number, and for each
//	    name, 1 if of silence, reason, the anomaly
func (e *encoder) alerts(s *State, k *Key) {
	n := 0
	for i := range k.alerts.dets {
		if k.alerts.dets[i].used() {
			n++
		}
	}
	e.Uint(uint64(n))
	for i := range k.set.wins {
		for j := range k.set.wins[i].dets {
			d := &k.set.wins[i].dets[j]
			if !d.judged || !k.alerts.dets[d.alert].used() {
				continue
			}
			e.String(d.Name)
			e.Bits(d.Fingerprint)
			e.Bits(s.cfg.Windows[d.Window].Fingerprint)
			a := &k.alerts.dets[d.alert]
			rule := a.rule
			if rule == nil {
				rule = new(threshold.Rule)
			}
			e.Byte(byte(rule.Kind) | threshold.Layout<<4)
			e.Bits(math.Float64bits(rule.Value))
			e.Sparse(a.history[:rule.Stored()])
			e.B = a.events.Append(e.B)
		}
	}
	if k.alerts.silent == nil {
		e.Byte(0)
	} else {
		e.Byte(1)
		e.B = k.alerts.silent.Append(e.B)
	}
	e.Uint(uint64(len(k.alerts.orphans)))
	for i := range k.alerts.orphans {
		o := &k.alerts.orphans[i]
		e.String(o.name)
		if o.silence {
			e.Byte(1)
		} else {
			e.Byte(0)
		}
		e.Byte(byte(o.reason))
		e.B = o.Anomaly.Append(e.B)
	}
}

func (d *decoder) anomaly() events.Anomaly {
	a, rest, err := events.DecodeAnomaly(d.B)
	if d.B = rest; err != nil {
		d.Fail()
	}
	return a
}

// startHead is start for a head: the version.
func (d *decoder) startHead() byte {
	v := d.Byte()
	if v != version && v != versionAlerts && v != versionSummaries && v != versionHeld {
		d.Fail()
	}
	return v
}

// clearAlerts forgets what an earlier head has said.
func (s *State) clearAlerts(k *Key) {
	if k.alerts != nil {
		clear(k.alerts.dets)
		k.alerts.silent, k.alerts.orphans, k.alerts.summaries = nil, nil, nil
	}
}

// loadAlerts reads the end of a head. What the configuration does not continue
// becomes an orphan: it is closed with the first live sample.
func (s *State) loadAlerts(d *decoder, k *Key) {
	if k.alerts == nil {
		k.alerts = newAlerts(k.set.alerts)
	}
	for range d.Len(28) {
		name, fp, window := d.String(), d.Bits(), d.Bits()
		kind, value := d.Byte(), floatOf(d.Bits())
		front := d.Sparse()
		switch layout := kind >> 4; {
		case layout > threshold.Layout:
			d.Newer = true
			d.Fail()
		case layout < threshold.Layout:
			front = threshold.Upgrade(front)
		}
		ev, rest, err := events.Decode(d.B)
		if d.B = rest; err != nil {
			d.Fail()
		}
		if d.Bad {
			return
		}
		det := k.set.detector(name)
		reason := events.DetectorRemoved
		switch {
		case det == nil || !det.judged:
		case det.Fingerprint != fp || s.cfg.Windows[det.Window].Fingerprint != window:
			reason = events.Reset
		default:
			a := &k.alerts.dets[det.alert]
			if len(front) > 0 {
				a.rule = s.ruleLike(det.detector, threshold.Kind(kind&15), value, len(front)-threshold.Head)
				if a.rule == nil {
					d.Fail()
					return
				}
				a.history = make([]float32, a.rule.Size())
				if copy(a.history, front); !a.rule.Restore(a.history) {
					d.Fail()
					return
				}
			}
			if det.Events != nil {
				a.events = ev
				continue
			}
		}
		if a := ev.Anomaly(); a != nil {
			s.addOrphan(k, orphan{name: name, reason: reason, Anomaly: *a})
		}
	}
	switch d.Byte() {
	case 0:
	case 1:
		if a := d.anomaly(); s.cfg.Silence > 0 && k.set != emptySet {
			k.alerts.silent = &a
		} else if !d.Bad {
			s.addOrphan(k, orphan{name: SilenceName, silence: true, reason: events.DetectorRemoved, Anomaly: a})
		}
	default:
		d.Fail()
	}
	for range d.Len(20) {
		o := orphan{name: d.String(), silence: d.Byte() == 1, reason: events.Reason(d.Byte())}
		if o.Anomaly = d.anomaly(); d.Bad {
			return
		}
		s.addOrphan(k, o)
	}
}

func (s *State) addOrphan(k *Key, o orphan) {
	k.alerts.orphans = append(k.alerts.orphans, o)
	s.restore.load.rewrite[k] = struct{}{}
}

// detector returns the detector of a name; nil without one.
func (set *detectorSet) detector(name string) *keyDetector {
	for i := range set.wins {
		for j := range set.wins[i].dets {
			if d := &set.wins[i].dets[j]; d.Name == name {
				return d
			}
		}
	}
	return nil
}

// loadUnread makes a key that no detector reads: its open anomalies have to be
// closed.
func (s *State) loadUnread(name []byte, born int64) *Key {
	k := newKey(name, emptySet)
	k.born = born
	s.insert(k)
	return k
}

// keepUnread reports whether a key that no detector reads has anomalies to close, and
// removes it if not.
func (s *State) keepUnread(k *Key) bool {
	s.bytes -= k.held.Bytes()
	k.held = nil
	delete(s.restore.load.mismatch, k)
	if k.alerts != nil && len(k.alerts.orphans) > 0 {
		return true
	}
	s.unload(k)
	return false
}

func floatOf(bits uint64) float64 { return math.Float64frombits(bits) }
