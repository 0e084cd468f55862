package reorder

import (
	"math"
	"sort"
)

// List holds one key's samples in order of time and offset, each a row of words:
// time, offset, the bits of the values. A nil list is empty.
type List[K any] struct {
	key   K
	size  int // words of a sample
	words []uint64
	gone  int // words of released samples at the front

	time, offset int64 // of its entry in the buffer's heap of lists; other entries are stale
	dropped      bool  // the buffer does not have it
}

// NewList returns an empty list of a key's samples of dim values, with room for n.
func NewList[K any](key K, dim, n int) *List[K] {
	l := &List[K]{key: key, size: 2 + dim}
	if n > 0 {
		l.words = make([]uint64, 0, n*l.size)
	}
	return l
}

// Len returns the number of samples.
func (l *List[K]) Len() int {
	if l == nil {
		return 0
	}
	return (len(l.words) - l.gone) / l.size
}

// At returns the i-th sample.
func (l *List[K]) At(i int) []uint64 {
	return l.words[l.gone+i*l.size:][:l.size:l.size]
}

// First returns the time of the first sample.
func (l *List[K]) First() int64 { return int64(l.words[l.gone]) }

// Newest returns the time of the last sample.
func (l *List[K]) Newest() int64 { return int64(l.At(l.Len() - 1)[0]) }

// Has reports whether a sample of that time is held.
func (l *List[K]) Has(time int64) bool {
	i := l.after(time)
	return i > 0 && int64(l.At(i - 1)[0]) == time
}

// Bytes returns the memory of the samples, 0 for a nil list.
func (l *List[K]) Bytes() int64 {
	if l == nil {
		return 0
	}
	return 8 * int64(cap(l.words))
}

// Append adds a sample that comes after all others; its values follow through Value.
func (l *List[K]) Append(time, offset int64) {
	l.words = append(l.words, uint64(time), uint64(offset))
}

// Value adds a value to the sample that Append has begun.
func (l *List[K]) Value(bits uint64) { l.words = append(l.words, bits) }

// Restore puts a released sample back in front of the others.
func (l *List[K]) Restore(sample []uint64) { copy(l.open(0), sample) }

// Remove takes a sample out, and reports whether it was there.
func (l *List[K]) Remove(time, offset int64) bool {
	i := l.after(time) - 1
	if i < 0 || int64(l.At(i)[1]) != offset {
		return false
	}
	l.drop(i)
	return true
}

// insert inserts a sample in order, behind all of the same time.
func (l *List[K]) insert(time, offset int64, values []float64) (at int) {
	at = l.after(time)
	w := l.open(at)
	w[0], w[1] = uint64(time), uint64(offset)
	for j, v := range values {
		w[2+j] = math.Float64bits(v)
	}
	return at
}

// after returns the number of samples whose time is not later than time.
func (l *List[K]) after(time int64) int {
	n := l.Len()
	if n == 0 || int64(l.At(n - 1)[0]) <= time {
		return n // in order, as most come
	}
	return sort.Search(n, func(i int) bool { return int64(l.At(i)[0]) > time })
}

// open makes a gap of one sample before the i-th and returns it.
func (l *List[K]) open(i int) []uint64 {
	if i == 0 && l.gone > 0 {
		l.gone -= l.size
		return l.At(0)
	}
	if len(l.words)+l.size > cap(l.words) && 2*l.gone >= len(l.words) {
		l.words = l.words[:copy(l.words, l.words[l.gone:])]
		l.gone = 0
	}
	n := len(l.words)
	for range l.size {
		l.words = append(l.words, 0)
	}
	from := l.gone + i*l.size
	copy(l.words[from+l.size:], l.words[from:n])
	return l.At(i)
}

// drop removes the i-th sample.
func (l *List[K]) drop(i int) {
	if i == 0 {
		l.gone += l.size
		return
	}
	from := l.gone + i*l.size
	l.words = append(l.words[:from], l.words[from+l.size:]...)
}
