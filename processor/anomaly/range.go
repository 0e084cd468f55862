package anomaly

import (
	"encoding/binary"
	"math"
	"slices"

	"odradek/processor/state/changelog"
)

// Range is how far the values of a field went that the scores over the threshold of an anomaly cover.
type Range struct {
	Field     int // the value field with the largest contribution when the anomaly opened, or so far
	Low, High float64

	// Level is the median of the values before those that the first score covers, and Held the most values that one score covers and that
	// are farther from it than half of the farthest of them; 0: neither is known.
	Level float64
	Held  uint32
}

// History is the number of values before those that a score covers, of which Cover takes the median.
const History = 256

// Cover returns the range of a field's values in the rows from one to another, which a score covers. value returns a row's value, from
// first on. last is the range of the anomaly's earlier scores; nil: there are none. Low is above High where no value is known.
func Cover(field, first, from, to int, value func(row int) float64, last *Range) Range {
	r := Range{Field: field, Low: math.Inf(1), High: math.Inf(-1)}
	for row := from; row <= to; row++ {
		if v := value(row); v == v {
			r.Low, r.High = min(r.Low, v), max(r.High, v)
		}
	}
	switch {
	case last == nil:
		before := make([]float64, 0, History)
		for row := max(first, from-History); row < from; row++ {
			if v := value(row); v == v {
				before = append(before, v)
			}
		}
		if len(before) == 0 {
			return r
		}
		slices.Sort(before)
		r.Level = before[len(before)/2]
	case last.Held == 0:
		return r
	default:
		r.Level = last.Level
	}
	half := max(r.High-r.Level, r.Level-r.Low) / 2
	for row := from; row <= to; row++ {
		if math.Abs(value(row)-r.Level) > half {
			r.Held++
		}
	}
	if r.Held == 0 {
		r.Level = 0
	}
	return r
}

func (r *Range) held() uint32 {
	if r == nil {
		return 0
	}
	return r.Held
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
// the value at its highest score.
func (l *life) reach(in *Input) *Range {
	r := l.anomaly.Range
	field := -1
	switch {
	case l.open && r != nil:
		field = r.Field
	case !l.open && in.Score > l.anomaly.PeakScore:
		field = Largest(in.Contribution)
	case !l.open:
		field = Largest(l.anomaly.Contribution)
	}
	if r != nil && r.Field != field {
		r = nil
	}
	if field < 0 || in.Values == nil {
		return r
	}
	now := in.Values(field, r)
	return r.with(&now)
}

// with returns a range with the values of another one, of the same field, if it has any.
func (r *Range) with(now *Range) *Range {
	switch {
	case now == nil || !(now.Low <= now.High):
		return r
	case r == nil:
		return now
	case r.Field == now.Field && (now.Low < r.Low || now.High > r.High || now.Held > r.Held):
		return &Range{r.Field, min(now.Low, r.Low), max(now.High, r.High), r.Level, max(now.Held, r.Held)}
	}
	return r
}

func (r *Range) append(b []byte) []byte {
	b = appendBits(binary.AppendUvarint(b, uint64(r.Field)), r.Low, r.High, r.Level)
	return binary.AppendUvarint(b, uint64(r.Held))
}

func decodeRange(d *changelog.Decoder) *Range {
	return &Range{Field: d.Small(), Low: decodeNumber(d), High: decodeNumber(d), Level: decodeNumber(d), Held: d.Uint32()}
}
