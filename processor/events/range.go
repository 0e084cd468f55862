package events

import (
	"encoding/binary"
	"math"

	"odradek/processor/keystate/changelog"
)

// Range is how far the values of a field went that the scores over the threshold of an anomaly cover.
type Range struct {
	Field     int // the value field with the largest contribution when the anomaly opened, or so far
	Low, High float64
}

// Width returns the distance of the highest value from the lowest; 0 where the range is not known, or not finite.
func (r *Range) Width() float64 {
	if r == nil {
		return 0
	}
	if w := r.High - r.Low; w-w == 0 {
		return w
	}
	return 0
}

// Largest returns the index of the largest contribution, the first of equal ones; -1 where there is none.
func Largest(contribution []float64) int {
	field := -1
	for i, c := range contribution {
		if c == c && (field < 0 || c > contribution[field]) {
			field = i
		}
	}
	return field
}

// reach returns the range of the anomaly with the values that a score over the threshold covers. Until it opens, its field is
// that of its highest score.
func (l *life) reach(in *Input) *Range {
	r := l.Range
	field := -1
	switch {
	case l.open && r != nil:
		field = r.Field
	case !l.open && in.Score > l.PeakScore:
		field = Largest(in.Contribution)
	case !l.open:
		field = Largest(l.Contribution)
	}
	if r != nil && r.Field != field {
		r = nil
	}
	if field < 0 || in.Values == nil {
		return r
	}
	switch low, high := in.Values(field); {
	case !(low <= high):
		return r
	case r == nil:
		return &Range{field, low, high}
	case low < r.Low || high > r.High:
		return &Range{field, min(low, r.Low), max(high, r.High)}
	}
	return r
}

// ranged is added to the length of the expected values of an anomaly with a range, or with bounds of one, which end it; earlier
// versions refuse it as they do alike.
const ranged = 1 << 28

// append encodes the range and, of an anomaly like false alarms, the bounds of ranges.
func (r *Range) append(b []byte, like *Like) []byte {
	if r == nil {
		b = append(b, 0)
	} else {
		b = appendBits(binary.AppendUvarint(b, uint64(r.Field+1)), r.Low, r.High)
	}
	if like != nil {
		b = appendBits(b, like.Narrow, like.Wide, like.Steep)
	}
	return b
}

// decodeRange reads what append wrote.
func decodeRange(d *changelog.Decoder, a *Anomaly) {
	number := func() float64 { return math.Float64frombits(d.Bits()) }
	if field := d.Small(); field > 0 {
		a.Range = &Range{field - 1, number(), number()}
	}
	if a.Like != nil {
		a.Like.Narrow, a.Like.Wide, a.Like.Steep = number(), number(), number()
	}
}
