package rules

import (
	"bytes"
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// This file has what a detector's scores are judged by: which are too high, and which of these
// make an anomaly. It encodes it as the content of a decision (decisions.go).
//
// # Rulings are decisions
//
// Which scores enter a key's history depends on the threshold that judged them; which
// anomalies are open, and how soon others open, depends on guards and policies of anomalies. A user may
// change these without losing state, also while the worker runs. So the rulings in force are
// decisions of the kind Thresholds, a standing one for each detector's name. With the first live
// sample after a start, a restore or a change, and whenever a decision of another owner takes effect
// after it, the owner decides for the rulings of its configuration that differ from those in force.
// A replay judges by the ruling that was in force at the sample or, for one that was held, when it was
// released.
//
// Below a detector's first decision no sample was live under it. A replay judges them by the ruling of that decision or,
// before it is made, of the configuration.
//
// When a threshold changes, a key's history is converted with the key's next score (series.Alert.Threshold names the
// threshold that it was made by), so that keys without another sample cost nothing. A threshold with
// another number of scores begins with an empty history.
//
// Whether a detector is in shadow mode is part of its ruling, so that promotion and demotion are decisions, too; histories
// and pending anomalies do not depend on it.
//
// A detector that is removed leaves its decision in the changelog. If it is configured again,
// its keys use it again, with the histories that they still have.

// Ruling is what is in force for a detector.
type Ruling struct {
	Threshold *threshold.Params
	Alarm     RulingAlarm
}

// RulingAlarm says which scores above the threshold make anomalies, and how.
type RulingAlarm struct {
	MaxP   float64         // see series.DetectorConfig
	Guard  *Guard          // nil: none
	Events *anomaly.Policy // nil: no anomalies
	Shadow bool            // its anomalies are published apart
}

// The flags of an encoded ruling. A reader refuses those that it does not know.
const (
	rulingBounded = 1 << iota // scores are bounded
	rulingShadow
	rulingGuard  // there is a guard
	rulingEvents // there is a policy of anomalies
	rulingRuns   // scores of a run wait
	rulingLate   // scores of an anomaly wait
	rulingFlags  = 1<<iota - 1
)

// Equal reports whether two rulings say the same.
func (r *Ruling) Equal(o *Ruling) bool { return bytes.Equal(r.Encode(), o.Encode()) }

// Encode returns the ruling as the content of a decision: flags, kind, value, margin, history, warm-up, distance of added scores, span, the
// largest p-value; then late admission, the guard and the policy of anomalies.
func (r *Ruling) Encode() []byte {
	t, a := r.Threshold, &r.Alarm
	var e changelog.Encoder
	flags := uint64(0)
	for i, set := range [...]bool{t.Bounded, a.Shadow, a.Guard != nil, a.Events != nil, t.Runs, t.Late.Close > 0} {
		if set {
			flags |= 1 << i
		}
	}
	e.Uint(flags)
	e.Byte(byte(t.Kind))
	e.Bits(math.Float64bits(t.Value))
	e.Bits(math.Float64bits(t.Margin))
	e.Uint(uint64(t.History))
	e.Uint(uint64(t.Warmup))
	e.Uint(uint64(t.Decluster))
	e.Uint(uint64(t.Span))
	e.Bits(math.Float64bits(a.MaxP))
	if l := t.Late; l.Close > 0 {
		e.Uint(uint64(l.Open))
		e.Uint(uint64(l.Close))
	}
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
	if v := a.Events; v != nil {
		e.Uint(uint64(v.OpenAfter))
		e.Uint(uint64(v.CloseAfter))
		e.Bits(math.Float64bits(v.Release))
		e.Uint(uint64(v.MinDuration))
		e.Uint(uint64(v.MergeGap))
		e.Uint(uint64(v.UpdateEvery))
		e.Uint(uint64(v.UpdateAfter))
		e.Bits(math.Float64bits(v.UpdateShare))
		e.Byte(v.Recurring)
	}
	return e.B
}

// DecodeRuling reads the output of Encode. The error wraps changelog.ErrNewer or changelog.ErrCorrupt.
func DecodeRuling(content []byte) (*Ruling, error) {
	d := changelog.Decoder{B: content}
	flags := d.Flags(rulingFlags)
	number := func() float64 { return math.Float64frombits(d.Bits()) }
	t := &threshold.Params{
		Kind: threshold.Kind(d.Byte()), Value: number(), Margin: number(), Bounded: flags&rulingBounded != 0,
		Runs:    flags&rulingRuns != 0,
		History: d.Small(), Warmup: d.Small(), Decluster: d.Small(), Span: int64(d.Uint()),
	}
	r := &Ruling{Threshold: t, Alarm: RulingAlarm{MaxP: number(), Shadow: flags&rulingShadow != 0}}
	if flags&rulingLate != 0 {
		t.Late = threshold.Late{Open: d.Small(), Close: d.Small()}
		if t.Late.Close == 0 {
			d.Fail()
		}
	}
	if flags&rulingGuard != 0 {
		g := &Guard{Direction: Direction(d.Byte()), Least: number(), Share: number()}
		for range d.Len(1 + 1 + 8) {
			g.Gates = append(g.Gates, Gate{Field: d.Small(), Below: d.Byte() == 1, Bound: number()})
		}
		r.Alarm.Guard = g
	}
	if flags&rulingEvents != 0 {
		r.Alarm.Events = &anomaly.Policy{
			OpenAfter: d.Small(), CloseAfter: d.Small(), Release: number(), MinDuration: int64(d.Uint()), MergeGap: int64(d.Uint()),
			UpdateEvery: d.Small(), UpdateAfter: int64(d.Uint()), UpdateShare: number(), Recurring: d.Byte(),
		}
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	if !t.Sound() || !r.Alarm.sound() {
		return nil, changelog.ErrCorrupt
	}
	return r, nil
}

// sound reports whether an alarm can be followed.
func (a *RulingAlarm) sound() bool {
	return (a.Guard == nil || a.Guard.Direction <= Below && a.Guard.Check() == nil) &&
		(a.Events == nil || a.Events.Check() == nil)
}
