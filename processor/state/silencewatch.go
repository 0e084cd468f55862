package state

import (
	"math"
	"math/bits"
	"slices"

	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// This file finds the series that have fallen silent, and describes a silence as an
// anomaly.
//
// With each sample that raises the watermark, those series become silent whose newest sample
// is further behind it than a limit. A silence ends with the series' next sample that is not
// as far behind, or with the series. It is an anomaly of its own, of which there are two
// changes, open and close; it covers the time from the newest sample to the watermark (open)
// or to the next sample (close). Its score is that time in seconds, its threshold the limit
// in seconds, and its severity 50 plus 17 for each doubling of the threshold that the score has reached.
//
// The watermark moves with the samples of the partition, and with decisions of the partition's
// owner while none comes (Advance). Without either no series becomes silent; where
// one series is alone, its own next sample opens and closes the silence at once. A series whose
// clock is further behind the others' than the limit is silent until it has caught up.

// watchable is what a Watch knows of the keys of a partition.
type watchable[K any] struct {
	All     func(yield func(K) bool) // visits the keys, in any order
	Len     func() int               // the number of keys
	Newest  func(K) int64            // the time of the newest sample of a key
	Silent  func(K) bool             // the key is silent
	Gone    func(K) bool             // the key is not one of the partition any more
	Compare func(a, b K) int         // the order in which keys become silent at one watermark
}

// silenceWatch finds the keys that become silent.
//
// The keys that are not silent are in a heap by a time that is not later than their
// newest sample. An entry moves only when its time is further behind than the limit although its key
// has had a sample since, so a sample pays for at most one move. The heap
// follows from the keys; it is built when it is first needed.
type silenceWatch[K any] struct {
	keys  watchable[K]
	limit int64          // microseconds; 0: no key becomes silent
	quiet series.Heap[K] // the keys that are not silent
	built bool           // quiet is valid
	next  int64          // see Next
}

// newSilenceWatch returns a Watch of keys that become silent when their newest sample is more than
// limit microseconds behind the watermark (0: never).
func newSilenceWatch[K any](limit int64, keys watchable[K]) silenceWatch[K] {
	return silenceWatch[K]{keys: keys, limit: limit, next: math.MaxInt64}
}

// Reset discards the order of the keys after they have been replaced.
func (w *silenceWatch[K]) Reset() {
	w.quiet.Reset()
	w.built = false
}

// build fills the heap.
func (w *silenceWatch[K]) build() {
	if w.built {
		return
	}
	w.quiet.Reset()
	for k := range w.keys.All {
		if !w.keys.Silent(k) {
			w.quiet.Append(w.keys.Newest(k), 0, k)
		}
	}
	w.quiet.Order()
	w.built = true
}

// Earliest returns the least watermark that makes a key silent; MaxInt64: none does.
func (w *silenceWatch[K]) Earliest() int64 {
	if w.limit == 0 {
		return math.MaxInt64
	}
	w.build()
	for w.quiet.Len() > 0 {
		first := w.quiet.First()
		switch newest := w.keys.Newest(first.Value); {
		case w.keys.Gone(first.Value):
			w.quiet.Pop()
		case newest > first.At:
			w.quiet.SetFirst(newest, 0)
		default:
			return w.at(first.At)
		}
	}
	return math.MaxInt64
}

// Due returns the keys that the watermark makes silent.
func (w *silenceWatch[K]) Due(watermark int64) []K {
	if w.limit == 0 {
		return nil
	}
	w.build()
	limit := timeBefore(watermark, w.limit)
	var due []K
	for w.quiet.Len() > 0 {
		first := w.quiet.First()
		if first.At >= limit {
			break
		}
		k := first.Value
		gone := w.keys.Gone(k)
		if newest := w.keys.Newest(k); !gone && newest >= limit {
			w.quiet.SetFirst(newest, 0)
			continue
		}
		if w.quiet.Pop(); !gone {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, w.keys.Compare)
	return due
}

// Ends reports whether a sample of that time ends the silence of its key.
func (w *silenceWatch[K]) Ends(time, watermark int64) bool {
	return time >= timeBefore(watermark, w.limit)
}

// Next returns the watermark at which a key may become silent.
func (w *silenceWatch[K]) Next() int64 { return w.next }

// Plan sets Next; no key becomes silent if watching is false.
func (w *silenceWatch[K]) Plan(watching bool) {
	w.next = math.MaxInt64
	switch {
	case w.limit == 0 || !watching:
	case !w.built:
		w.next = noTime
	case w.quiet.Len() > 0:
		w.next = w.at(w.quiet.First().At)
	}
}

// at returns the watermark at which a key of that newest sample becomes silent.
func (w *silenceWatch[K]) at(newest int64) int64 {
	if at := newest + w.limit; at >= newest && at < math.MaxInt64 {
		return at + 1
	}
	return math.MaxInt64
}

// Add adds a key that is not silent, and brings Next forward if need be.
func (w *silenceWatch[K]) Add(k K, newest int64) {
	switch {
	case !w.built:
	case w.quiet.Len() > 2*w.keys.Len()+64: // most are of keys that are gone
		w.built, w.next = false, noTime
	default:
		w.quiet.Push(newest, 0, k)
		w.next = min(w.next, w.at(newest))
	}
}

// Open returns the anomaly of a silence since a key's newest sample, which the watermark opens.
func (w *silenceWatch[K]) Open(id [16]byte, newest, watermark int64) *anomaly.Anomaly {
	a := &anomaly.Anomaly{ID: id, Fault: id, Start: newest, OpenedAt: watermark, Threshold: float32(float64(w.limit) / 1e6)}
	w.measure(a, watermark)
	return a
}

// Close returns the anomaly of a silence that ends at that time.
func (w *silenceWatch[K]) Close(open *anomaly.Anomaly, time int64) anomaly.Anomaly {
	a := *open
	w.measure(&a, time)
	return a
}

// measure sets the fields of an anomaly that grow with a silence; until is its latest known end.
func (w *silenceWatch[K]) measure(a *anomaly.Anomaly, until int64) {
	until = max(until, a.Start)
	a.Revision++
	a.End, a.PeakTime = until, until
	lasted := uint64(until) - uint64(a.Start)
	a.PeakScore = float32(float64(lasted) / 1e6)
	doublings := bits.Len64(lasted/uint64(w.limit)) - 1
	a.Severity = uint8(min(100, 50+17*max(0, doublings)))
}
