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
	e.uint(uint64(n))
	for i := range k.shape.wins {
		for j := range k.shape.wins[i].dets {
			d := &k.shape.wins[i].dets[j]
			if !d.judged || !k.alerts.dets[d.alert].used() {
				continue
			}
			e.string(d.Name)
			e.bits(d.Fingerprint)
			e.bits(s.cfg.Windows[d.Window].Fingerprint)
			a := &k.alerts.dets[d.alert]
			rule := a.rule
			if rule == nil {
				rule = new(threshold.Rule)
			}
			e.byte(byte(rule.Kind) | threshold.Layout<<4)
			e.bits(math.Float64bits(rule.Value))
			e.sparse(a.history[:rule.Stored()])
			e.b = a.events.Append(e.b)
		}
	}
	if k.alerts.silent == nil {
		e.byte(0)
	} else {
		e.byte(1)
		e.b = k.alerts.silent.Append(e.b)
	}
	e.uint(uint64(len(k.alerts.orphans)))
	for i := range k.alerts.orphans {
		o := &k.alerts.orphans[i]
		e.string(o.name)
		if o.silence {
			e.byte(1)
		} else {
			e.byte(0)
		}
		e.byte(byte(o.reason))
		e.b = o.Anomaly.Append(e.b)
	}
}

func (e *encoder) string(v string) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

// sparse is a number of floats, and then runs in turn of zeros, of which there is
// only the number, and of others: a young key's history is mostly zeros.
func (e *encoder) sparse(v []float32) {
	e.uint(uint64(len(v)))
	for len(v) > 0 {
		n := 0
		for n < len(v) && math.Float32bits(v[n]) == 0 {
			n++
		}
		e.uint(uint64(n))
		v = v[n:]
		// A run of others ends where two zeros save more than they cost.
		for n = 0; n < len(v) && (math.Float32bits(v[n]) != 0 || n+1 < len(v) && math.Float32bits(v[n+1]) != 0); n++ {
		}
		e.floats(v[:n])
		v = v[n:]
	}
}

// maxHistory bounds a threshold's state: zeros cost nothing to claim.
const maxHistory = 1 << 18

func (d *decoder) sparse() []float32 {
	n := d.small()
	if n > maxHistory {
		d.fail()
	}
	if n == 0 || d.bad {
		return nil
	}
	v := make([]float32, n)
	for at := 0; at < n && !d.bad; {
		zeros := d.small()
		others := d.floats()
		if zeros > n-at || len(others) > n-at-zeros || zeros+len(others) == 0 {
			d.fail()
			return nil
		}
		copy(v[at+zeros:], others)
		at += zeros + len(others)
	}
	return v
}

func (d *decoder) string() string {
	n := d.len(1)
	v := string(d.b[:n])
	d.b = d.b[n:]
	return v
}

func (d *decoder) anomaly() events.Anomaly {
	a, rest, err := events.DecodeAnomaly(d.b)
	if d.b = rest; err != nil {
		d.fail()
	}
	return a
}

// startHead is start for a head: the version.
func (d *decoder) startHead() byte {
	v := d.byte()
	if v != version && v != versionAlerts && v != versionSummaries && v != versionHeld {
		d.fail()
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
		k.alerts = newAlerts(k.shape.alerts)
	}
	for range d.len(28) {
		name, fp, window := d.string(), d.bits(), d.bits()
		kind, value := d.byte(), floatOf(d.bits())
		front := d.sparse()
		switch layout := kind >> 4; {
		case layout > threshold.Layout:
			d.newer = true
			d.fail()
		case layout < threshold.Layout:
			front = threshold.Upgrade(front)
		}
		ev, rest, err := events.Decode(d.b)
		if d.b = rest; err != nil {
			d.fail()
		}
		if d.bad {
			return
		}
		det := k.shape.detector(name)
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
					d.fail()
					return
				}
				a.history = make([]float32, a.rule.Size())
				if copy(a.history, front); !a.rule.Restore(a.history) {
					d.fail()
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
	switch d.byte() {
	case 0:
	case 1:
		if a := d.anomaly(); s.cfg.Silence > 0 && k.shape != noShape {
			k.alerts.silent = &a
		} else if !d.bad {
			s.addOrphan(k, orphan{name: SilenceName, silence: true, reason: events.DetectorRemoved, Anomaly: a})
		}
	default:
		d.fail()
	}
	for range d.len(20) {
		o := orphan{name: d.string(), silence: d.byte() == 1, reason: events.Reason(d.byte())}
		if o.Anomaly = d.anomaly(); d.bad {
			return
		}
		s.addOrphan(k, o)
	}
}

func (s *State) addOrphan(k *Key, o orphan) {
	k.alerts.orphans = append(k.alerts.orphans, o)
	s.restore.load.rewrite[k] = struct{}{}
}

// detector is the one of that name; nil if there is none.
func (sh *shape) detector(name string) *shapeDet {
	for i := range sh.wins {
		for j := range sh.wins[i].dets {
			if d := &sh.wins[i].dets[j]; d.Name == name {
				return d
			}
		}
	}
	return nil
}

// loadNoShape makes a key that no detector looks at: its open anomalies have to be
// closed.
func (s *State) loadNoShape(name []byte, born int64) *Key {
	k := newKey(name, noShape)
	k.born = born
	s.insert(k)
	return k
}

// keepNoShape reports whether such a key is needed, and forgets it if not.
func (s *State) keepNoShape(k *Key) bool {
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
