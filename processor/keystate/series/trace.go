package series

import (
	"slices"

	"odradek/processor/keystate/changelog"
)

// Trace is what is remembered of a detector's scores beside the history of its threshold: those that
// are smoothed. All zero is nothing.
type Trace struct {
	State []uint64 // as Setup.TraceSize says; nil before the first score
	Unit  uint64   // the undo unit that has a copy of State
}

// TraceBytes is the size of a Trace in memory; TestSizes compares it.
const TraceBytes = 32

// TraceSize returns the length of a trace's state.
func (d *Setup) TraceSize() int { return d.Smooth.Size() }

// validTrace reports whether stored words are a trace's state.
func (d *Setup) validTrace(state []uint64) bool { return d.Smooth.Valid(state) }

// Trace returns that of a traced detector, with a state, and the bytes that this added to the series.
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

// used reports whether there is anything to remember.
func (t *Trace) used() bool {
	return slices.ContainsFunc(t.State, func(w uint64) bool { return w != 0 })
}

// Traced reports whether there is a trace of anything.
func (k *Series) Traced() bool {
	return k.Alerts != nil && slices.ContainsFunc(k.Alerts.Traces, func(t Trace) bool { return t.used() })
}

// EncodeTraces appends the traces, in a head: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the words of the state
func (k *Series) EncodeTraces(e *changelog.Encoder) {
	n := 0
	for i := range k.Alerts.Traces {
		if k.Alerts.Traces[i].used() {
			n++
		}
	}
	e.Uint(uint64(n))
	for d, window := range k.Set.All {
		if !d.Traced || !k.Alerts.Traces[d.Trace].used() {
			continue
		}
		e.Bits(NameHash(d.Name))
		e.Bits(d.Fingerprint)
		e.Bits(window)
		state := k.Alerts.Traces[d.Trace].State
		e.Uint(uint64(len(state)))
		for _, w := range state {
			e.Bits(w)
		}
	}
}

// Traces reads what EncodeTraces has written, those that the configuration has a use for; Progress
// has found which are of another one.
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
		for det, of := range k.Set.All {
			if NameHash(det.Name) != name || !det.Traced || det.Fingerprint != fp || of != window {
				continue
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
