package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// Where rules.Order.Every is set, the samples of a series in an interval of event time become one sample when the interval closes: it
// has the time of the interval's start, and the offset of the sample in whose turn the interval closed. Intervals begin at
// multiples of their length, from the epoch on. One turn may close several, with one offset and different times.
//
// An interval closes before the next sample of its series, in their order, that is not in it. It closes earlier when the
// watermark reaches its end: with a lateness of the partition, as no sample in it is in time any more; where each series has its own
// order, only with an advance (advance.go). Then later samples of the series in it are late: no window has them. By series they are
// held first, and counted when they are released; HeldLate tells when they come, while their records are at hand.
//
// An interval without values becomes a missing sample, or zeros (EmptyZero). Intervals without samples become samples only where that
// makes a difference: with EmptyZero and with Hold; of a series that has no sample for long, the first series.MostEmpty.

// intervals are those that are open. The heap of their ends can be computed from the keys.
type intervals struct {
	any  bool
	ends series.Heap[*Key] // keys by the ends of their open intervals, or by earlier times
	// aside are keys that are restored as of a later turn than the present one, the first of which is asideTo.
	aside   []*Key
	asideTo int64

	values []float64 // of the interval that closes
}

func newIntervals(every int64) intervals {
	return intervals{any: every > 0, ends: series.Heap[*Key]{Compare: series.ByName}, asideTo: math.MaxInt64}
}

// first returns the key whose open interval ends first.
func (v *intervals) first() (k *Key, end int64, ok bool) {
	for v.ends.Len() > 0 {
		first := v.ends.First()
		k := first.Value
		if k.Dead || !k.Interval.Open {
			k.Interval.Listed = false
			v.ends.Pop()
			continue
		}
		if end := k.Set.EndOf(k.Interval.Start); end > first.At {
			v.ends.SetFirst(end, 0)
			continue
		}
		return k, first.At, true
	}
	return nil, 0, false
}

// due returns a key with an interval that ends first, at the watermark or before. next is the offset behind the present turn.
func (v *intervals) due(watermark, next int64) (k *Key, end int64, ok bool) {
	if next >= v.asideTo {
		v.asideTo = math.MaxInt64
		for _, k := range v.aside {
			v.list(k)
		}
		v.aside = v.aside[:0]
	}
	for {
		if k, end, ok = v.first(); !ok || end > watermark {
			return nil, 0, false
		}
		waits := k.Held.Len() > 0 && k.Held.First() < end // it is listed again with that sample
		if k.AsOf <= next && !waits {
			return k, end, true
		}
		v.ends.Pop()
		if k.Interval.Listed = false; !waits {
			v.aside, v.asideTo = append(v.aside, k), min(v.asideTo, k.AsOf)
		}
	}
}

// list adds a key with an open interval.
func (v *intervals) list(k *Key) {
	if i := k.Interval; i.Open && !i.Listed && !k.Dead {
		i.Listed = true
		v.ends.Push(k.Set.EndOf(i.Start), 0, k)
	}
}

// rebuildIntervals finds the open intervals of the keys.
func (s *State) rebuildIntervals() {
	v := &s.intervals
	if !v.any {
		return
	}
	v.ends.Reset()
	v.aside, v.asideTo = v.aside[:0], math.MaxInt64
	for k := range s.Keys.All {
		if i := k.Interval; i != nil {
			if i.Listed = i.Open; i.Open {
				v.ends.Append(k.Set.EndOf(i.Start), 0, k)
			}
		}
	}
	v.ends.Order()
}

// dueInterval returns a key with an interval that the watermark closes.
func (s *State) dueInterval(watermark int64) (k *Key, end int64, ok bool) {
	if !s.byPartition() && !s.gate.passed {
		return nil, 0, false
	}
	next := s.next
	if s.gate.advancing {
		next = s.gate.decided
	}
	return s.intervals.due(watermark, next)
}

// byPartition reports whether the samples of all series are in one order.
func (s *State) byPartition() bool { return s.order.Lateness > 0 && !s.order.BySeries }

// closer returns the offset of the sample of an interval that closes now: of the sample in its turn, or of the record before a decision.
func (s *State) closer() int64 {
	if s.gate.advancing {
		return s.cfg.Place(s.cfg.Record(s.gate.decided-1), 0)
	}
	return s.turn()
}

// fills reports whether intervals without samples become samples.
func (s *State) fills(k *Key) bool { return k.Set.EmptyZero || s.order.Hold }

// closes reports whether a sample of that time closes an interval of its series.
func (s *State) closes(k *Key, time int64) bool {
	v := k.Interval
	return v != nil && v.Open && uint64(time-v.Start) >= uint64(k.Set.Every) && k.Set.StartOf(time) > v.Start
}

// closeInterval closes the open interval of a key, whose sample enters the windows.
func (s *State) closeInterval(k *Key, b *detectors.Batch) {
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	start := k.Interval.Start
	if k.Interval.Samples > 0 {
		s.countIntervals(k, 1, 0)
	} else {
		s.countIntervals(k, 0, 1)
	}
	s.intervals.values = k.CloseInterval(s.intervals.values[:0], s.fills(k))
	if tell := s.cfg.Closed; tell != nil && !s.replaying {
		tell(k.Name(), start, s.closer(), s.intervals.values)
	}
	last := k.LastTime
	s.foldRow(k, start, s.closer(), s.intervals.values, b)
	k.LastTime = last // samples are in order of their own times
}

// countIntervals counts intervals of a series, each with all its fields.
func (s *State) countIntervals(k *Key, closed, empty int64) {
	for i := range k.Set.Aggregates {
		s.Tally.count(k.Set.Aggregates[i].ID, 0, closed, empty)
	}
}

// aggregate adds a sample in its turn to the open interval of its key.
func (s *State) aggregate(k *Key, time int64, values []float64) Outcome {
	k.LastTime = time
	v, start := k.Interval, k.Interval.Start
	if v.Open && !v.Listed {
		s.intervals.list(k)
	}
	if time < start {
		return Late
	}
	if !v.Open || uint64(time-start) >= uint64(k.Set.Every) {
		start = k.Set.StartOf(time)
	}
	if s.readings.otherIntervals || s.readings.unjudged != nil && s.readings.unjudged(k.Name()) {
		return Missing // no window has the series' intervals
	}
	if !v.Open || v.Start != start {
		if skipped := k.OpenInterval(start); skipped > 0 {
			s.countIntervals(k, 0, skipped)
		}
		s.intervals.list(k)
	}
	v.Samples++
	out := Missing
	for i := range k.Set.Aggregates {
		a := &k.Set.Aggregates[i]
		if len(s.readings.unprepared) > 0 && slices.Contains(s.readings.unprepared, a.ID) {
			continue
		}
		if v := values[a.Column]; v-v == 0 {
			out = Aggregated
			s.Keys.Bytes += k.Aggregate(i, v)
		}
	}
	return out
}
