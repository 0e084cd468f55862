package state

import (
	"math"

	"odradek/processor/state/series"
)

// held holds the samples of all keys that wait for the watermark.
type held struct {
	series.ReorderBuffer[*Key]
	keys    *series.KeyTable
	journal *journal
	dim     int
	values  []float64 // of the sample that take has returned last
}

// newHeld returns an empty held for samples of dim values.
func newHeld(dim int, table *series.KeyTable, j *journal) held {
	gone := func(k *Key, time int64) bool { return k.Dead || time <= k.LastTime }
	return held{ReorderBuffer: series.NewReorderBuffer(0, gone), keys: table, journal: j, dim: dim, values: make([]float64, dim)}
}

// hold adds a sample to its key's held ones.
func (h *held) hold(k *Key, sm *Sample) {
	if k.Held == nil {
		k.Held = series.NewHeldSamples(k, h.dim, 0)
	}
	h.keys.Bytes -= k.Held.Bytes()
	h.Add(k.Held, sm.Time, sm.Offset, sm.Values)
	h.keys.Bytes += k.Held.Bytes()
	saveHeldIn(h.journal.Open, k, sm.Time, sm.Offset)
}

// pop removes a key's earliest held sample and returns it. due says that Due has returned the
// key last. The values are valid until the next call.
func (h *held) pop(k *Key, due bool) (time, offset int64, values []float64) {
	w := k.Held.At(0)
	saveHeldOut(h.journal.Open, k, w)
	time, offset = int64(w[0]), int64(w[1])
	for j := range h.values {
		h.values[j] = math.Float64frombits(w[2+j])
	}
	var empty bool
	if due {
		empty = h.ReleaseDue(k.Held)
	} else {
		empty = h.Release(k.Held)
	}
	if empty {
		h.keys.Bytes -= k.Held.Bytes()
		k.Held = nil
	}
	return time, offset, h.values
}

// undoHold undoes hold.
func (h *held) undoHold(k *Key, time, offset int64) {
	if !k.Held.Remove(time, offset) {
		panic("state: a held sample to be taken back is not there")
	}
	if k.Held.Len() == 0 {
		h.keys.Bytes -= k.Held.Bytes()
		k.Held = nil
	}
}

// undoTake undoes take; sample is as it was saved.
func (h *held) undoTake(k *Key, sample []uint64) {
	if k.Held == nil {
		k.Held = series.NewHeldSamples(k, h.dim, 0)
	}
	h.keys.Bytes -= k.Held.Bytes()
	k.Held.Restore(sample)
	h.keys.Bytes += k.Held.Bytes()
}

// rebuild derives the order of the held samples from the keys.
func (h *held) rebuild() {
	h.Rebuild(func(yield func(*series.HeldSamples[*Key]) bool) {
		h.keys.All(func(k *Key) bool { return yield(k.Held) })
	})
}

// wait has samples wait for at most most offsets (0: no limit).
func (h *held) wait(most int) {
	if h.SetMost(most) {
		h.rebuild()
	}
}

// recount counts the held samples of the keys.
func (h *held) recount() {
	h.N = 0
	for k := range h.keys.All {
		h.N += k.Held.Len()
	}
}
