package rules

import (
	"bytes"
	"fmt"
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// This file has what a detector's scores are judged by: which are too high, and which of these
// make an anomaly. It encodes it as the content of a decision (package decisions).
//
// # Rulings are decisions
//
// Which scores enter a key's history depends on the threshold that judged them; which
// anomalies are open, and how soon others open, depends on guards and rules of anomalies. A user may
// change these without losing state, also while the worker runs. So the rulings in force are
// decisions of the kind Thresholds, a standing one for each detector's name. With the first live
// sample after a start, a restore or a change, and whenever a decision of another owner takes effect
// after it, the owner decides for the rulings of its configuration that differ from those in force.
// A replay judges by the ruling that was in force at the sample or, for one that was held, when it was
// released.
//
// Below a detector's first decision no sample was live under it. A replay judges them by the rule of that decision or,
// before it is made, of the configuration.
//
// When a threshold changes, a key's history is converted with the key's next score (series.Alert.Rule names the
// rule that it was made by), so that keys without another sample cost nothing. A rule with
// another number of scores begins with an empty history.
//
// Whether a detector is in shadow mode is part of its ruling, so that promotion and demotion are decisions, too; histories
// and pending anomalies do not depend on it.
//
// A detector that is removed leaves its decision in the changelog. If it is configured again,
// its keys use it again, with the histories that they still have.

// Ruling is what is in force for a detector.
type Ruling struct {
	Threshold *threshold.Rule
	Alarm     *RulingAlarm // nil: decided by a version that left it to the configuration
}

// RulingAlarm says which scores above the threshold make anomalies, and how.
type RulingAlarm struct {
	MaxP   float64       // see series.DetectorConfig
	Guard  *Guard        // nil: none
	Events *anomaly.Rule // nil: no anomalies
	Shadow bool          // its anomalies are published apart
}

// The formats of a ruling, its first byte.
const (
	ThresholdFormat = 1 // a threshold alone
	SpanFormat      = 2 // a threshold alone that has a span
	AlarmFormat     = 3 // a threshold with its span, and an alarm
	ShadowFormat    = 4 // the same, in shadow mode
	UpdatesFormat   = 5 // an alarm whose updates are due by event time, which ends with these and the mode
)

// timed reports whether the alarm's updates are due by event time.
func (a *RulingAlarm) timed() bool { return a != nil && a.Events != nil && a.Events.UpdateAfter > 0 }

// Equal reports whether two rulings say the same.
func (r *Ruling) Equal(o *Ruling) bool { return bytes.Equal(r.Encode(), o.Encode()) }

// Encode returns the ruling as the content of a decision: format, kind, value, margin, history, warm-up,
// distance of added scores, whether scores are bounded, span; then the largest p-value, the guard and the
// rule of events, and when its updates are due by event time. The format says whether the detector is in shadow mode. Without an alarm
// it is one of those before.
func (r *Ruling) Encode() []byte {
	t := r.Threshold
	var e changelog.Encoder
	switch {
	case r.Alarm.timed():
		e.Byte(UpdatesFormat)
	case r.Alarm != nil && r.Alarm.Shadow:
		e.Byte(ShadowFormat)
	case r.Alarm != nil:
		e.Byte(AlarmFormat)
	case t.Span != 0:
		e.Byte(SpanFormat)
	default:
		e.Byte(ThresholdFormat)
	}
	e.Byte(byte(t.Kind))
	e.Bits(math.Float64bits(t.Value))
	e.Bits(math.Float64bits(t.Margin))
	e.Uint(uint64(t.History))
	e.Uint(uint64(t.Warmup))
	e.Uint(uint64(t.Decluster))
	e.Flag(t.Bounded)
	if t.Span != 0 || r.Alarm != nil {
		e.Uint(uint64(t.Span))
	}
	if r.Alarm != nil {
		r.Alarm.encode(&e)
	}
	if r.Alarm.timed() {
		e.Uint(uint64(r.Alarm.Events.UpdateAfter))
		e.Bits(math.Float64bits(r.Alarm.Events.UpdateShare))
		e.Flag(r.Alarm.Shadow)
	}
	return e.B
}

func (a *RulingAlarm) encode(e *changelog.Encoder) {
	e.Bits(math.Float64bits(a.MaxP))
	e.Flag(a.Guard != nil)
	if g := a.Guard; g != nil {
		e.Byte(byte(g.Direction))
		e.Bits(math.Float64bits(g.Least))
		e.Bits(math.Float64bits(g.Share))
		e.Uint(uint64(len(g.Gates)))
		for _, gate := range g.Gates {
			e.Uint(uint64(gate.Field))
			e.Flag(gate.Below)
			e.Bits(math.Float64bits(gate.Bound))
		}
	}
	e.Flag(a.Events != nil)
	if v := a.Events; v != nil {
		e.Uint(uint64(v.OpenAfter))
		e.Uint(uint64(v.CloseAfter))
		e.Bits(math.Float64bits(v.Release))
		e.Uint(uint64(v.MinDuration))
		e.Uint(uint64(v.MergeGap))
		e.Uint(uint64(v.UpdateEvery))
	}
}

// DecodeRuling reads the output of Encode. The error wraps changelog.ErrNewer or changelog.ErrCorrupt.
func DecodeRuling(content []byte) (*Ruling, error) {
	d := changelog.Decoder{B: content}
	v := d.Byte()
	switch {
	case v > UpdatesFormat:
		return nil, fmt.Errorf("a threshold of format %d: %w", v, changelog.ErrNewer)
	case v < ThresholdFormat:
		return nil, changelog.ErrCorrupt
	}
	t := &threshold.Rule{
		Kind: threshold.Kind(d.Byte()), Value: math.Float64frombits(d.Bits()), Margin: math.Float64frombits(d.Bits()),
		History: d.Small(), Warmup: d.Small(), Decluster: d.Small(), Bounded: d.Byte() == 1,
	}
	if v >= SpanFormat {
		t.Span = int64(d.Uint())
	}
	r := &Ruling{Threshold: t}
	if v >= AlarmFormat {
		r.Alarm = decodeAlarm(&d)
		r.Alarm.Shadow = v == ShadowFormat
	}
	if v == UpdatesFormat {
		if r.Alarm.Events == nil {
			return nil, changelog.ErrCorrupt
		}
		r.Alarm.Events.UpdateAfter, r.Alarm.Events.UpdateShare = int64(d.Uint()), math.Float64frombits(d.Bits())
		if r.Alarm.Shadow = d.Byte() == 1; !r.Alarm.timed() {
			return nil, changelog.ErrCorrupt
		}
	}
	if d.Bad || v == SpanFormat && t.Span == 0 || len(d.B) > 0 || !t.Sound() || !r.Alarm.sound() {
		return nil, changelog.ErrCorrupt
	}
	return r, nil
}

func decodeAlarm(d *changelog.Decoder) *RulingAlarm {
	a := &RulingAlarm{MaxP: math.Float64frombits(d.Bits())}
	if d.Byte() == 1 {
		a.Guard = &Guard{
			Direction: Direction(d.Byte()), Least: math.Float64frombits(d.Bits()), Share: math.Float64frombits(d.Bits()),
		}
		for range d.Len(1 + 1 + 8) {
			a.Guard.Gates = append(a.Guard.Gates, Gate{Field: d.Small(), Below: d.Byte() == 1, Bound: math.Float64frombits(d.Bits())})
		}
	}
	if d.Byte() == 1 {
		a.Events = &anomaly.Rule{
			OpenAfter: d.Small(), CloseAfter: d.Small(), Release: math.Float64frombits(d.Bits()), MinDuration: int64(d.Uint()),
			MergeGap: int64(d.Uint()), UpdateEvery: d.Small(),
		}
	}
	return a
}

// sound reports whether an alarm can be followed.
func (a *RulingAlarm) sound() bool {
	return a == nil || (a.Guard == nil || a.Guard.Direction <= Below && a.Guard.Check() == nil) &&
		(a.Events == nil || a.Events.Check() == nil)
}
