package series

import (
	"math"
	"sort"
)

// HeldSamples holds one key's samples in order of time and offset, each a row of words:
// time, offset, the bits of the values. A nil list is empty.
type HeldSamples[K any] struct {
	key   K
	size  int // words of a sample
	words []uint64
	gone  int // words of released samples at the front

	// Behind is how far the newest sample was behind the partition's newest, in microseconds, when it came: the samples wait for
	// the watermark as if they were this much later. 0 where the watermark alone decides (rules.Order.BySeries).
	Behind int64

	time, offset int64 // of its entry in the buffer's heap of lists; other entries are stale
	dropped      bool  // the buffer does not have it
}

// NewHeldSamples returns an empty list of a key's samples of dim values, with room for n.
func NewHeldSamples[K any](key K, dim, n int) *HeldSamples[K] {
	l := &HeldSamples[K]{key: key, size: 2 + dim}
	if n > 0 {
		l.words = make([]uint64, 0, n*l.size)
	}
	return l
}

// Len returns the number of samples.
func (h *HeldSamples[K]) Len() int {
	if h == nil {
		return 0
	}
	return (len(h.words) - h.gone) / h.size
}

// At returns the i-th sample.
func (h *HeldSamples[K]) At(i int) []uint64 {
	return h.words[h.gone+i*h.size:][:h.size:h.size]
}

// First returns the time of the first sample.
func (h *HeldSamples[K]) First() int64 { return int64(h.words[h.gone]) }

// Due returns the watermark at which the first sample is released.
func (h *HeldSamples[K]) Due() int64 {
	first := h.First()
	if due := first + h.Behind; due >= first {
		return due
	}
	return math.MaxInt64
}

// Newest returns the time of the last sample.
func (h *HeldSamples[K]) Newest() int64 { return int64(h.At(h.Len() - 1)[0]) }

// Has reports whether a sample of that time is held.
func (h *HeldSamples[K]) Has(time int64) bool {
	i := h.after(time)
	return i > 0 && int64(h.At(i - 1)[0]) == time
}

// Bytes returns the memory of the samples, 0 for a nil list.
func (h *HeldSamples[K]) Bytes() int64 {
	if h == nil {
		return 0
	}
	return 8 * int64(cap(h.words))
}

// Append adds a sample that comes after all others; its values follow through Value.
func (h *HeldSamples[K]) Append(time, offset int64) {
	h.words = append(h.words, uint64(time), uint64(offset))
}

// Value adds a value to the sample that Append has begun.
func (h *HeldSamples[K]) Value(bits uint64) { h.words = append(h.words, bits) }

// Translated returns the list with samples of dim values, which translate writes to dst; nil for a nil list.
func (h *HeldSamples[K]) Translated(dim int, translate func(dst, values []float64)) *HeldSamples[K] {
	if h == nil {
		return nil
	}
	to := NewHeldSamples(h.key, dim, h.Len())
	to.Behind = h.Behind
	values, dst := make([]float64, h.size-2), make([]float64, dim)
	for i := range h.Len() {
		w := h.At(i)
		for j := range values {
			values[j] = math.Float64frombits(w[2+j])
		}
		translate(dst, values)
		to.Append(int64(w[0]), int64(w[1]))
		for _, v := range dst {
			to.Value(math.Float64bits(v))
		}
	}
	return to
}

// Restore puts a released sample back in front of the others.
func (h *HeldSamples[K]) Restore(sample []uint64) { copy(h.open(0), sample) }

// Remove takes a sample out, and reports whether it was there.
func (h *HeldSamples[K]) Remove(time, offset int64) bool {
	i := h.after(time) - 1
	if i < 0 || int64(h.At(i)[1]) != offset {
		return false
	}
	h.drop(i)
	return true
}

// insert inserts a sample in order, behind all of the same time.
func (h *HeldSamples[K]) insert(time, offset int64, values []float64) (at int) {
	at = h.after(time)
	w := h.open(at)
	w[0], w[1] = uint64(time), uint64(offset)
	for j, v := range values {
		w[2+j] = math.Float64bits(v)
	}
	return at
}

// after returns the number of samples whose time is not later than time.
func (h *HeldSamples[K]) after(time int64) int {
	n := h.Len()
	if n == 0 || int64(h.At(n - 1)[0]) <= time {
		return n // in order, as most come
	}
	return sort.Search(n, func(i int) bool { return int64(h.At(i)[0]) > time })
}

// open makes a gap of one sample before the i-th and returns it.
func (h *HeldSamples[K]) open(i int) []uint64 {
	if i == 0 && h.gone > 0 {
		h.gone -= h.size
		return h.At(0)
	}
	if len(h.words)+h.size > cap(h.words) && 2*h.gone >= len(h.words) {
		h.words = h.words[:copy(h.words, h.words[h.gone:])]
		h.gone = 0
	}
	n := len(h.words)
	for range h.size {
		h.words = append(h.words, 0)
	}
	from := h.gone + i*h.size
	copy(h.words[from+h.size:], h.words[from:n])
	return h.At(i)
}

// drop removes the i-th sample.
func (h *HeldSamples[K]) drop(i int) {
	if i == 0 {
		h.gone += h.size
		return
	}
	from := h.gone + i*h.size
	h.words = append(h.words[:from], h.words[from+h.size:]...)
}
