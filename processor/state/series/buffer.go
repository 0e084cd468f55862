package series

import (
	"math"
)

// This file holds samples until the watermark reaches them: a List for each key,
// and for all keys a Buffer that determines which sample is released next.

// ReorderBuffer orders the lists of a partition's keys by their earliest samples, and their
// samples by offset.
type ReorderBuffer[K any] struct {
	// N is the number of held samples. Drop and Rebuild leave it as it is: the caller
	// corrects it.
	N int

	// first has the lists by the watermarks that release their earliest samples. An entry may be earlier than that; a
	// list of which that becomes earlier gets another entry, and its former one is stale.
	first Heap[*HeldSamples[K]]
	lists int // number of lists that are not empty
	waits[K]
}

// NewReorderBuffer returns an empty buffer. A sample waits until most offsets have passed it
// (0: no limit). released reports whether a key's samples up to a time are not held
// any more.
func NewReorderBuffer[K any](most int, released func(key K, time int64) bool) ReorderBuffer[K] {
	return ReorderBuffer[K]{waits: waits[K]{most: most, released: released, overdue: math.MinInt64}}
}

// Bytes estimates the memory beside the lists.
func (b *ReorderBuffer[K]) Bytes() int64 { return arrivalBytes * int64(b.N) }

// Due returns the key whose earliest sample is not later than the watermark.
func (b *ReorderBuffer[K]) Due(watermark int64) (key K, ok bool) {
	for b.first.Len() > 0 {
		f := b.first.First()
		if f.At > watermark {
			break
		}
		if stale(f) {
			b.first.Pop()
			continue
		}
		l := f.Value
		if f.At == l.Due() && f.Tie == int64(l.At(0)[1]) {
			return l.key, true
		}
		b.correct(l)
	}
	return key, false
}

// stale reports whether an entry of the heap no longer matches its list.
func stale[K any](e *HeapItem[*HeldSamples[K]]) bool {
	l := e.Value
	return e.At != l.time || e.Tie != l.offset || l.dropped || l.Len() == 0
}

// correct brings the first entry, which stands for l, up to date.
func (b *ReorderBuffer[K]) correct(l *HeldSamples[K]) {
	l.enter()
	b.first.SetFirst(l.time, l.offset)
}

// enter notes the place in the heap that the list's first sample has.
func (h *HeldSamples[K]) enter() { h.time, h.offset = h.Due(), int64(h.At(0)[1]) }

// Add holds a sample in its key's list; behind is the list's Behind if it is the newest.
func (b *ReorderBuffer[K]) Add(l *HeldSamples[K], time, offset int64, values []float64, behind int64) {
	at, sooner := l.insert(time, offset, values), false
	if at == l.Len()-1 {
		sooner = behind < l.Behind
		l.Behind = behind
	}
	if at == 0 || sooner {
		if l.Len() == 1 {
			b.lists++
		}
		if b.first.Len() > 2*b.lists+64 { // most are of lists that are gone
			b.first.Delete(func(e HeapItem[*HeldSamples[K]]) bool { return stale(&e) })
		}
		l.enter()
		b.first.Push(l.time, l.offset, l)
	}
	b.N++
	if b.most > 0 {
		b.add(arrival[K]{time, offset, l.key}, b.N)
	}
}

// Release removes the first sample of a list and reports whether none is left.
func (b *ReorderBuffer[K]) Release(l *HeldSamples[K]) (empty bool) {
	if b.first.Len() > 0 {
		if f := b.first.First(); f.Value == l && f.At == l.time && f.Tie == l.offset {
			return b.ReleaseDue(l)
		}
	}
	b.N--
	if l.drop(0); l.Len() == 0 {
		b.lists--
		return true
	}
	return false
}

// ReleaseDue is Release for the list of the key that Due has returned last.
func (b *ReorderBuffer[K]) ReleaseDue(l *HeldSamples[K]) (empty bool) {
	b.N--
	if l.drop(0); l.Len() == 0 {
		b.lists--
		b.first.Pop()
		return true
	}
	b.correct(l)
	return false
}

// Drop removes a list from the buffer. The list keeps its samples, and N still counts them.
func (b *ReorderBuffer[K]) Drop(l *HeldSamples[K]) {
	if l.Len() > 0 {
		l.dropped = true
		b.lists--
	}
}

// Rebuild replaces the content of the buffer by the lists that all visits.
func (b *ReorderBuffer[K]) Rebuild(all func(yield func(*HeldSamples[K]) bool)) {
	b.first.Reset()
	b.reset()
	b.lists = 0
	for l := range all {
		if l.Len() == 0 {
			continue
		}
		b.lists++
		l.dropped = false
		l.enter()
		b.first.Append(l.time, l.offset, l)
		if b.most > 0 {
			for i := range l.Len() {
				w := l.At(i)
				b.loaded.list = append(b.loaded.list, arrival[K]{int64(w[0]), int64(w[1]), l.key})
			}
		}
	}
	b.first.Order()
	b.loaded.order()
}
