package state

import (
	"math"

	"odradek/processor/state/series"
)

// held holds the samples of all keys that wait for the watermark.
type held struct {
	series.ReorderBuffer[*Key]
	dim    int
	values []float64 // of the sample that popHeld has returned last
}

// newHeld returns an empty held for samples of dim values.
func newHeld(dim int) held {
	gone := func(k *Key, time int64) bool { return k.Dead || time <= k.LastTime }
	return held{ReorderBuffer: series.NewReorderBuffer(0, gone), dim: dim, values: make([]float64, dim)}
}

// hold adds a sample to its key's held ones.
func (s *State) hold(k *Key, sm *Sample) {
	if k.Held == nil {
		k.Held = series.NewHeldSamples(k, s.held.dim, 0)
	}
	saveHeldIn(s.journal.Open, k, sm.Time, sm.Offset)
	behind := int64(0)
	if s.order.BySeries {
		behind = max(0, s.maxTime-sm.Time)
	}
	s.Keys.Bytes -= k.Held.Bytes()
	s.held.Add(k.Held, sm.Time, sm.Offset, sm.Values, behind)
	s.Keys.Bytes += k.Held.Bytes()
}

// popHeld removes a key's earliest held sample and returns it. due says that Due has returned the
// key last. The values are valid until the next call.
func (s *State) popHeld(k *Key, due bool) Sample {
	w := k.Held.At(0)
	saveHeldOut(s.journal.Open, k, w)
	sm := Sample{Key: k.Name(), Time: int64(w[0]), Offset: int64(w[1]), Values: s.held.values}
	for j := range s.held.values {
		s.held.values[j] = math.Float64frombits(w[2+j])
	}
	var empty bool
	if due {
		empty = s.held.ReleaseDue(k.Held)
	} else {
		empty = s.held.Release(k.Held)
	}
	if empty {
		s.Keys.Bytes -= k.Held.Bytes()
		k.Held = nil
	}
	return sm
}

// undoHold undoes hold.
func (s *State) undoHold(k *Key, time, offset, behind int64) {
	if !k.Held.Remove(time, offset) {
		panic("state: a held sample to be taken back is not there")
	}
	k.Held.Behind = behind
	if k.Held.Len() == 0 {
		s.Keys.Bytes -= k.Held.Bytes()
		k.Held = nil
	}
}

// undoPop undoes popHeld; sample is as it was saved.
func (s *State) undoPop(k *Key, sample []uint64, behind int64) {
	if k.Held == nil {
		k.Held = series.NewHeldSamples(k, s.held.dim, 0)
	}
	s.Keys.Bytes -= k.Held.Bytes()
	k.Held.Restore(sample)
	k.Held.Behind = behind
	s.Keys.Bytes += k.Held.Bytes()
}

// rebuildHeld derives the order of the held samples from the keys.
func (s *State) rebuildHeld() {
	s.held.Rebuild(func(yield func(*series.HeldSamples[*Key]) bool) {
		s.Keys.All(func(k *Key) bool { return yield(k.Held) })
	})
}

// setMaxHeld has samples wait for at most most offsets (0: no limit).
func (s *State) setMaxHeld(most int) {
	if s.held.SetMost(most) {
		s.rebuildHeld()
	}
}

// recountHeld counts the held samples of the keys.
func (s *State) recountHeld() {
	s.held.N = 0
	for k := range s.Keys.All {
		s.held.N += k.Held.Len()
	}
}
