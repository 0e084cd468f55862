package anomaly

import (
	"encoding/binary"
	"math"

	"odradek/processor/state/changelog"
)

// An anomaly may open as one like false alarms that were labelled (Input.Like). It then lives as any other, but with severity 0. A score
// with which it is not like them any more ends it (Leave) and opens another, which is as any other.

// Like says which false alarms an anomaly resembles.
type Like struct {
	Bounds
	Count  uint32     // labelled false alarms
	Labels [][16]byte // the ids of the first of them

	// Of the anomaly: its value field with the largest contribution and the scores over the threshold, when it opened, and
	// the largest deviation of that field so far; infinite where it is not known.
	Field     int
	Since     uint32
	Deviation float64
}

// Grace is the number of scores over the threshold, after the one that opened an anomaly, before it has to be as high and as
// far from what was expected as the false alarms.
const Grace = 5

// Bounds are bounds of the course of an anomaly that resembles false alarms.
type Bounds struct {
	Most    float64 // the highest score
	Least   float64 // the least that the highest score is after After, in microseconds
	After   int64
	Samples uint32  // the most scores over the threshold; 0: any number
	First   float64 // the least deviation from the expected value after Grace scores
	Apart   float64 // the least deviation after After
	Far     float64 // the largest deviation; 0: any
	Narrow  float64 // the least range of the values after After, where it is known
	Wide    float64 // the largest; 0: any
	Steep   float64 // the highest score over the range; 0: any
	Short   uint32  // the least Held after After, where it is known
	Long    uint32  // the largest; 0: any
}

// NoBounds are the bounds of an anomaly whose scores are at most that high.
func NoBounds(most float64) Bounds { return Bounds{Most: most, Least: math.Inf(-1)} }

// Course is how an anomaly has gone until a score over the threshold, this one included.
type Course struct {
	Peak      float64 // the highest score
	Samples   uint32  // over the threshold
	Since     uint32  // of them, until it opened
	Elapsed   int64   // microseconds since it opened
	Deviation float64 // the largest at the highest scores before this one, infinite if not known
	Range     float64 // of the values, 0 if not known
	Held      uint32  // of their Range
}

// Within reports whether an anomaly still resembles false alarms of these bounds.
func (b *Bounds) Within(c *Course) bool {
	switch {
	case !(c.Peak <= b.Most), b.Samples > 0 && c.Samples > b.Samples, b.Far > 0 && c.Deviation > b.Far && !math.IsInf(c.Deviation, 1),
		!b.Spans(c.Range, c.Peak), b.Long > 0 && c.Held > b.Long:
		return false
	case c.Samples < c.Since || c.Samples-c.Since < Grace:
		return true
	case !(c.Deviation >= b.First):
		return false
	}
	return c.Elapsed <= b.After || c.Peak >= b.Least && c.Deviation >= b.Apart && (c.Range == 0 || c.Range >= b.Narrow) &&
		(c.Held == 0 || c.Held >= b.Short)
}

// Spans reports whether a range that is known is no wider than b has it, and wide enough for the highest score.
func (b *Bounds) Spans(width, peak float64) bool {
	return width == 0 || (b.Wide == 0 || width <= b.Wide) && (b.Steep == 0 || peak <= b.Steep*width)
}

// Deviation returns how far a value field was measured from what was expected at the peak; infinite where that is not known.
func (a *Anomaly) Deviation(field int) float64 { return DeviationOf(a.Expected, a.Actual, field) }

// DeviationOf returns how far a value field was measured from what was expected; infinite where that is not known.
func DeviationOf(expected, actual []float64, field int) float64 {
	if field < 0 || field >= len(expected) || field >= len(actual) {
		return math.Inf(1)
	}
	if d := math.Abs(actual[field] - expected[field]); d == d {
		return d
	}
	return math.Inf(1)
}

func (l *Like) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(l.Count))
	b = binary.AppendUvarint(b, uint64(len(l.Labels)))
	for _, id := range l.Labels {
		b = append(b, id[:]...)
	}
	b = appendBits(b, l.Most, l.Least, l.First, l.Apart, l.Far, l.Narrow, l.Wide, l.Steep, l.Deviation)
	b = binary.AppendVarint(b, l.After)
	for _, n := range [...]uint32{l.Samples, l.Short, l.Long, l.Since} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return binary.AppendUvarint(b, uint64(l.Field+1))
}

func decodeLike(d *changelog.Decoder) *Like {
	l := &Like{Count: d.Uint32()}
	for range d.Len(16) {
		l.Labels = append(l.Labels, [16]byte(d.Slice(16)))
	}
	for _, v := range [...]*float64{&l.Most, &l.Least, &l.First, &l.Apart, &l.Far, &l.Narrow, &l.Wide, &l.Steep, &l.Deviation} {
		*v = decodeNumber(d)
	}
	l.After = d.Int()
	for _, n := range [...]*uint32{&l.Samples, &l.Short, &l.Long, &l.Since} {
		*n = d.Uint32()
	}
	l.Field = d.Small() - 1
	return l
}

// exceedsBounds reports whether an open anomaly like false alarms is not like them any more with a score over the threshold, or was
// not with an earlier one that a replay has taken.
func (l *life) exceedsBounds(in *Input) bool {
	if !l.open || l.anomaly.Like == nil {
		return false
	}
	c := l.course(in)
	c.Since, c.Elapsed, c.Deviation = l.anomaly.Like.Since, in.Time-l.anomaly.OpenedAt, l.anomaly.Like.Deviation
	return !l.anomaly.Like.Within(&c)
}

// widen takes the deviation at a new highest score into what is known of an anomaly like false alarms.
func (l *life) widen() {
	if l.anomaly.Like == nil {
		return
	}
	if d := l.anomaly.Deviation(l.anomaly.Like.Field); d > l.anomaly.Like.Deviation {
		like := *l.anomaly.Like
		like.Deviation, l.anomaly.Like = d, &like
	}
}
