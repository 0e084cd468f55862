// Package reorder holds samples until the watermark reaches them: of each key a List,
// and of all keys a Buffer that knows which sample is released next.
package reorder

import (
	"math"

	"odradek/processor/keystate/heap"
)

// Buffer orders the lists of a partition's keys by their earliest samples, and their
// samples by offset.
type Buffer[K any] struct {
	// N is the number of held samples. Whoever takes a list away, or brings one,
	// corrects it.
	N int

	first    heap.Heap[*List[K]]
	most     int                          // offsets that a sample waits at most; 0: no limit
	released func(key K, time int64) bool // see NewBuffer
	arrived  arrivals[K]                  // what was held since the last Rebuild
	loaded   arrivals[K]                  // what was held then
	overdue  int64                        // samples of offsets up to here have waited long enough
}

// NewBuffer makes an empty buffer. A sample waits until most offsets have passed it
// (0: no limit). released reports whether a key's samples up to a time are not held
// any more.
func NewBuffer[K any](most int, released func(key K, time int64) bool) Buffer[K] {
	return Buffer[K]{
		most: most, released: released, overdue: math.MinInt64,
		first: heap.Heap[*List[K]]{Moved: func(l *List[K], place int) { l.place = place }},
	}
}

// Bytes is about the memory beside the lists.
func (b *Buffer[K]) Bytes() int64 { return arrivalBytes * int64(b.N) }

// Due is the key whose earliest sample is not later than the watermark.
func (b *Buffer[K]) Due(watermark int64) (key K, ok bool) {
	if b.first.Len() == 0 {
		return key, false
	}
	if f := b.first.First(); f.At <= watermark {
		return f.Value.key, true
	}
	return key, false
}

// Add holds a sample in its key's list.
func (b *Buffer[K]) Add(l *List[K], time, offset int64, values []float64) {
	at := l.insert(time, offset, values)
	if l.Len() == 1 {
		b.first.Push(time, offset, l)
	} else if at == 0 {
		b.first.Update(l.place, time, offset)
	}
	b.N++
	if b.most > 0 {
		b.add(arrival[K]{time, offset, l.key})
	}
}

// Release takes the first sample out of a list and reports whether none is left.
func (b *Buffer[K]) Release(l *List[K]) (empty bool) {
	b.N--
	l.drop(0)
	if l.Len() == 0 {
		b.first.Remove(l.place)
		return true
	}
	w := l.At(0)
	b.first.Update(l.place, int64(w[0]), int64(w[1]))
	return false
}

// Drop takes a list out of the buffer. It keeps its samples, and N has them still.
func (b *Buffer[K]) Drop(l *List[K]) {
	if l.Len() > 0 {
		b.first.Remove(l.place)
	}
}

// Has reports whether the buffer has the list at its place.
func (b *Buffer[K]) Has(l *List[K]) bool {
	return l.place < b.first.Len() && b.first.At(l.place).Value == l
}

// Rebuild makes the buffer hold the lists that all visits, and nothing else.
func (b *Buffer[K]) Rebuild(all func(yield func(*List[K]) bool)) {
	b.first.Reset()
	b.reset()
	for l := range all {
		if l.Len() == 0 {
			continue
		}
		w := l.At(0)
		b.first.Append(int64(w[0]), int64(w[1]), l)
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
