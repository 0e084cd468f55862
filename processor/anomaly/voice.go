package anomaly

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"odradek/detectors/ensemble"
	"odradek/processor/state/changelog"
)

// An anomaly of an ensemble of any has a voice: the member that opened it. It has what an anomaly of that member alone would have: the
// values expected and measured at its highest score, and the range of those that its scores cover.

// Said is what a member of an ensemble says of a sample with a score over the member's threshold.
type Said struct {
	Member                         string
	Time, Offset                   int64 // of the sample
	Until                          int64 // last event time that the score covers
	Ratio, Score, Threshold        float32
	Expected, Actual, Contribution []float64 // kept, as those of Input
	Part                           *Part     // likewise; nil: not known
	Range                          *Range    // of the field with the largest contribution; nil: not known
}

// peak returns the event time of the reading that deviates most, or the last that the score covers.
func (said *Said) peak() int64 {
	if said.Part != nil {
		return min(said.Until, said.Part.At)
	}
	return said.Until
}

// Voice is the member that an anomaly speaks for: the one of the highest ratio of score and threshold until it opened.
type Voice struct {
	Member           string
	Samples          uint32 // its scores over the threshold so far
	Score, Threshold float32
	PeakTime         int64 // of the highest score, as Anomaly has it
}

// Own returns the number of scores over the threshold, the highest one, its threshold and its PeakTime, of an anomaly with a voice those
// of its voice.
func (a *Anomaly) Own() Voice {
	if a.Voice != nil {
		return *a.Voice
	}
	return Voice{Samples: a.Samples, Score: a.PeakScore, Threshold: a.Threshold, PeakTime: a.PeakTime}
}

// Speaker names what the scores of Own are of: a detector, or a member of an ensemble.
func Speaker(detector, member string) string {
	if member == "" {
		return detector
	}
	return detector + "/" + member
}

// Hear keeps what a member says of a sample until Heard returns it: an ensemble scores the sample later. values is as Input.Values.
func (s *State) Hear(said *Said, values func(field int, last *Range) Range) {
	field, last := Largest(said.Contribution), s.lastRange(said.Member)
	switch {
	case last == nil:
	case s.Open() && s.life.Voice != nil && s.life.Voice.Member == said.Member:
		field = last.Field
	case last.Field != field:
		last = nil
	}
	if field >= 0 && values != nil {
		if r := values(field, last); r.Low <= r.High {
			said.Range = &r
		}
	}
	list := append(slices.Clip(s.waiting()), *said)
	s.heard = &list
}

// lastRange returns the range of what a member said last; nil: it is not known.
func (s *State) lastRange(member string) *Range {
	for _, said := range slices.Backward(s.waiting()) {
		if said.Member == member {
			return said.Range
		}
	}
	if s.life != nil && s.life.Voice != nil && s.life.Voice.Member == member {
		return s.life.Range
	}
	return nil
}

func (s *State) waiting() []Said {
	if s.heard == nil {
		return nil
	}
	return *s.heard
}

// Waiting reports whether there is anything that Heard has not returned.
func (s *State) Waiting() bool { return s.heard != nil }

// Heard returns what members have said of samples up to this one, and forgets it.
func (s *State) Heard(time, offset int64) (said []Said) {
	var rest []Said
	for _, w := range s.waiting() {
		if cmp.Or(cmp.Compare(w.Time, time), cmp.Compare(w.Offset, offset)) <= 0 {
			said = append(said, w)
		} else {
			rest = append(rest, w)
		}
	}
	if s.heard = nil; rest != nil {
		s.heard = &rest
	}
	return said
}

// Loudest returns what has the highest ratio, the first of equal ones; nil: there is nothing.
func Loudest(said []Said) (loudest *Said) {
	for i := range said {
		if loudest == nil || said[i].Ratio > loudest.Ratio {
			loudest = &said[i]
		}
	}
	return loudest
}

// Term is a member's part in a score of an ensemble that sums.
type Term struct {
	Member string
	Value  float64 // the term
	Score  float32 // the member's score that it was computed from, as ensemble.Counted has it
	Lagged bool    // the score belongs to an earlier sample
	Ahead  bool    // the score may belong to a later sample
}

// Carrier returns what the member with the largest term says of a sample, or the next one that says anything; nil: none does. It
// forgets what members have said of samples up to this one; a lagged member's stays as long as it covers samples from about on.
func (s *State) Carrier(time, offset, about int64, terms []Term) (carrier *Said) {
	most := 0.0
	var rest []Said
	for i := range s.waiting() {
		w := &(*s.heard)[i]
		passed := cmp.Or(cmp.Compare(w.Time, time), cmp.Compare(w.Offset, offset)) <= 0
		lagged := false
		for k := range terms {
			t := &terms[k]
			if t.Member != w.Member {
				continue
			}
			lagged = t.Lagged
			if w.Part != nil && (passed || t.Ahead) && t.Value > 0 && t.Value >= most && ensemble.Counted(w.Score) == t.Score {
				carrier, most = w, t.Value
			}
		}
		if !passed || lagged && w.Until >= about {
			rest = append(rest, *w)
		}
	}
	if s.heard = nil; rest != nil {
		s.heard = &rest
	}
	return carrier
}

// listen takes what the members of an ensemble say with a score over its threshold.
func (l *life) listen(in *Input) {
	loudest := Loudest(in.Said)
	if loudest == nil {
		return
	}
	if l.Voice == nil || !l.open && l.Voice.Member != loudest.Member && in.Score > l.PeakScore {
		l.Voice, l.Range = &Voice{Member: loudest.Member, Score: float32(math.Inf(-1))}, nil
	}
	v := *l.Voice
	for i := range in.Said {
		said := &in.Said[i]
		if said.Member != v.Member {
			continue
		}
		v.Samples++
		if l.Range = l.Range.with(said.Range); said.Score > v.Score {
			v.Score, v.Threshold, v.PeakTime = said.Score, said.Threshold, said.peak()
			l.Expected, l.Actual, l.Contribution, l.Spread = said.Expected, said.Actual, said.Contribution, 0
			if said.Part != nil {
				l.Spread = said.Part.Spread
			}
			l.farther()
		}
	}
	l.Voice = &v
}

// course returns how an open anomaly will have gone with a score over the threshold, but for what Like knows.
func (l *life) course(in *Input) Course {
	if l.Voice == nil {
		r := l.reach(in)
		return Course{Peak: float64(max(l.PeakScore, in.Score)), Samples: l.Samples + 1, Range: r.Width(), Held: r.held()}
	}
	v, r := l.Own(), l.Range
	for i := range in.Said {
		if said := &in.Said[i]; said.Member == v.Member {
			v.Samples, v.Score, r = v.Samples+1, max(v.Score, said.Score), r.with(said.Range)
		}
	}
	return Course{Peak: float64(v.Score), Samples: v.Samples, Range: r.Width(), Held: r.held()}
}

func (v *Voice) append(b []byte) []byte {
	b = appendText(b, v.Member)
	b = binary.AppendUvarint(b, uint64(v.Samples))
	b = binary.AppendVarint(b, v.PeakTime)
	return appendFloats(b, v.Score, v.Threshold)
}

func decodeVoice(d *changelog.Decoder) *Voice {
	return &Voice{Member: d.String(), Samples: d.Uint32(), PeakTime: d.Int(), Score: d.Float(), Threshold: d.Float()}
}

func (s *State) appendHeard(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(*s.heard)))
	for i := range *s.heard {
		w := &(*s.heard)[i]
		b = appendText(b, w.Member)
		for _, t := range [...]int64{w.Time, w.Offset, w.Until} {
			b = binary.AppendVarint(b, t)
		}
		b = appendFloats(b, w.Ratio, w.Score, w.Threshold)
		if w.Part == nil {
			b = append(b, 0)
		} else {
			b = appendBits(binary.AppendVarint(binary.AppendVarint(append(b, 1), w.Part.From), w.Part.At), w.Part.Spread)
		}
		for _, list := range [...][]float64{w.Expected, w.Actual, w.Contribution} {
			b = appendList(b, list)
		}
		if w.Range == nil {
			b = append(b, 0)
		} else {
			b = w.Range.append(append(b, 1))
		}
	}
	return b
}

func (s *State) decodeHeard(d *changelog.Decoder) {
	var list []Said
	for range d.Len(20) {
		w := Said{Member: d.String(), Time: d.Int(), Offset: d.Int(), Until: d.Int(), Ratio: d.Float(), Score: d.Float(), Threshold: d.Float()}
		if d.Byte() != 0 {
			w.Part = &Part{From: d.Int(), At: d.Int(), Spread: decodeNumber(d)}
		}
		w.Expected, w.Actual, w.Contribution = decodeList(d), decodeList(d), decodeList(d)
		if d.Byte() != 0 {
			w.Range = decodeRange(d)
		}
		list = append(list, w)
	}
	if s.heard = &list; len(list) == 0 {
		d.Fail()
	}
}
