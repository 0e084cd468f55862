package backtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"odradek/detectors/quality"
)

// This file measures what labels teach (processor/state/rules): events of known shapes are planted into the series of a
// labelled data set, where they are false alarms, some of them are labelled, and the later ones are counted that the
// rules remove, beside the labelled anomalies that are lost.

// Shapes are the events that Plant can add. A sample of an event gets the value of add, multiplied by an amplitude of about 1.2
// times the range in which 90 % of the field's values are.
var Shapes = []struct {
	Name    string
	samples int
	add     func(x float64) float64 // to a sample of the event, x samples from its begin where it has that length
}{
	{"spike", 2, func(float64) float64 { return 1.5 }},
	{"dip", 4, func(float64) float64 { return -1 }},
	{"plateau", 16, func(float64) float64 { return 1 }},
	{"ramp", 24, func(x float64) float64 { return x / 24 }},
	{"oscillation", 32, func(x float64) float64 { return math.Sin(x * 2 * math.Pi / 8) }},
}

// Fields splits each series of a data set into series of one field, as ODRADEK_SERIES_FIELDS does; each has the labels of the
// original. originals has the index in set of each one's original. Fields whose values are all equal are left out.
func Fields(set []quality.Series) (fields []quality.Series, originals []int) {
	for i := range set {
		s := &set[i]
		for k := range s.Dim {
			f := *s
			f.Name, f.Dim, f.Values = fmt.Sprintf("%s/%d", s.Name, k), 1, make([]float64, s.Len())
			varies := false
			for j := range f.Values {
				f.Values[j] = s.Row(j)[k]
				varies = varies || f.Values[j] != f.Values[0]
			}
			if varies {
				fields, originals = append(fields, f), append(originals, i)
			}
		}
	}
	return fields, originals
}

// How events are planted.
const (
	most      = 10  // events of a series
	distance  = 250 // samples between two of them
	clearance = 100 // samples between one and a labelled anomaly
	first     = 600 // sample of a series before which there is none
	amplitude = 1.2 // of the range from the 5th to the 95th percentile; the events' own differ by up to 15 %
	echo      = 40  // samples after an event in which an alarm is of it
	stretch   = 0.25
	noise     = 0.05 // standard deviation, of the amplitude
)

// Plant adds events of one shape to copies of the series, in one field of each, at the same places each time for
// one seed, and returns the copies and the planted spans by series. Events that vary are of one cause but not copies of each
// other: they are longer or shorter by up to a quarter, and noisy.
func Plant(set []quality.Series, shape int, seed uint64, vary bool) ([]quality.Series, [][]quality.Span) {
	set = slices.Clone(set)
	spans := make([][]quality.Span, len(set))
	for i := range set {
		s := &set[i]
		s.Values = slices.Clone(s.Values)
		h := fnv.New64a()
		h.Write([]byte(s.Name))
		var own *rand.Rand
		if vary {
			own = rand.New(rand.NewPCG(seed+1, h.Sum64()))
		}
		spans[i] = plant(s, shape, rand.New(rand.NewPCG(seed, h.Sum64())), own)
	}
	return set, spans
}

// plant places events by rng and varies them by own, if it is not nil.
func plant(s *quality.Series, shape int, rng, own *rand.Rand) (spans []quality.Span) {
	kind := &Shapes[shape]
	field := rng.IntN(s.Dim)
	unit := amplitude * spread(s, field)
	from := max(s.Train, first)
	room := s.Len() - from - 2*clearance
	for tries := 0; tries < 400 && len(spans) < most && room > 0; tries++ {
		at := from + rng.IntN(room)
		samples, rough := kind.samples, 0.0
		if own != nil {
			samples = int(math.Round(float64(samples) * (1 - stretch + 2*stretch*own.Float64())))
			rough = noise
		}
		span := quality.Span{From: at, To: at + samples - 1}
		if slices.Contains(s.Labels[max(0, at-clearance):min(s.Len(), span.To+clearance)], true) ||
			slices.ContainsFunc(spans, func(o quality.Span) bool { return span.From < o.To+distance && o.From < span.To+distance }) {
			continue
		}
		a := unit * (0.85 + 0.3*rng.Float64())
		for k := range samples {
			v := kind.add(float64(k*kind.samples) / float64(samples))
			if rough > 0 {
				v += rough * own.NormFloat64()
			}
			s.Values[(at+k)*s.Dim+field] += a * v
		}
		spans = append(spans, span)
	}
	return spans
}

// spread returns the range from the 5th to the 95th percentile of a field, or its whole range if that is 0, or 1.
func spread(s *quality.Series, field int) float64 {
	var v []float64
	for i := range s.Len() {
		if x := s.Values[i*s.Dim+field]; x == x {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return 1
	}
	slices.Sort(v)
	for _, r := range []float64{v[len(v)*95/100] - v[len(v)*5/100], v[len(v)-1] - v[0]} {
		if r > 0 {
			return r
		}
	}
	return 1
}
