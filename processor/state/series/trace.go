package series

import "slices"

// Trace is the state of a detector's scores beside the history of its threshold: the scores whose mean is
// judged and, for an ensemble, the state that package ensemble defines. All zeros are no state.
type Trace struct {
	State []uint64 // as Setup.TraceSize says; nil before the first score
	Unit  uint64   // the undo unit that has a copy of State
}

// TraceBytes is the size of a Trace in memory; TestSizes compares it.
const TraceBytes = 32

// TraceSize returns the length of a trace's state: the ensemble's, then the smoother's.
func (d *Setup) TraceSize() int { return d.combinedSize() + d.Smooth.Size() }

func (d *Setup) combinedSize() int {
	if d.Combined == nil {
		return 0
	}
	return d.Combined.Size()
}

// Split splits a trace's state into the ensemble's and the smoother's.
func (d *Setup) Split(state []uint64) (combined, smooth []uint64) {
	n := d.combinedSize()
	return state[:n], state[n:]
}

// validTrace reports whether stored words are a trace's state.
func (d *Setup) validTrace(state []uint64) bool {
	if len(state) != d.TraceSize() {
		return false
	}
	combined, smooth := d.Split(state)
	return (d.Combined == nil || d.Combined.Valid(combined)) && d.Smooth.Valid(smooth)
}

// Trace returns the trace of a traced detector, with a state, and the bytes that this added to the series.
func (k *Series) Trace(d *SetDetector) (t *Trace, added int64) {
	if k.Alerts == nil {
		k.Alerts = NewAlerts(k.Set.Judged)
		added = k.Alerts.Size()
	}
	if k.Alerts.Traces == nil {
		k.Alerts.Traces = make([]Trace, k.Set.Traced)
		added += TraceBytes * int64(k.Set.Traced)
	}
	t = &k.Alerts.Traces[d.Trace]
	if t.State == nil {
		t.State = make([]uint64, d.TraceSize())
		added += 8 * int64(len(t.State))
	}
	return t, added
}

// used reports whether the trace has any state.
func (t *Trace) used() bool {
	return slices.ContainsFunc(t.State, func(w uint64) bool { return w != 0 })
}

// Traced reports whether there is a trace of anything.
func (a *Alerts) Traced() bool {
	return a != nil && slices.ContainsFunc(a.Traces, func(t Trace) bool { return t.used() })
}

// Traces reads what Writer.Traces has written, those that the configuration has a use for. Progress
// has found which are of another one, but for ensembles.
func (d *Reader) Traces(k *Series) {
	for range d.Len(25) {
		name, fp, window := d.Bits(), d.Bits(), d.Bits()
		state := make([]uint64, d.Len(8))
		for i := range state {
			state[i] = d.Bits()
		}
		if d.Bad {
			return
		}
		for det, configured := range k.Set.All {
			if NameHash(det.Name) != name {
				continue
			}
			if det.Ensemble != nil && (det.Fingerprint != fp || configured != window) {
				d.Differences = append(d.Differences, Difference{det.Name, false, window, fp})
			}
			if !det.Traced || det.Fingerprint != fp || configured != window {
				continue
			}
			if size := det.TraceSize(); len(state) < size {
				state = slices.Concat(state, make([]uint64, size-len(state)))
			}
			if !det.validTrace(state) {
				d.Fail()
				return
			}
			t, _ := k.Trace(det)
			t.State = state
		}
	}
}
