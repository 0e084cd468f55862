package anomaly

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"odradek/detectors/ensemble"
	"odradek/processor/state/changelog"
)

// An anomaly of an ensemble of any has a leader: the member that opened it. It has what an anomaly of that member alone would have: the
// values expected and measured at its highest score, and the range of those that its scores cover.

// MemberScore is what a member of an ensemble says of a sample with a score over the member's threshold.
type MemberScore struct {
	Member                         string
	Time, Offset                   int64 // of the sample
	Until                          int64 // last event time that the score covers
	Ratio, Score, Threshold        float32
	Expected, Actual, Contribution []float64  // kept, as Input's are
	Deviation                      *Deviation // likewise; nil: not known
	Range                          *Range     // of the field with the largest contribution; nil: not known
}

// peak returns the event time of the reading that deviates most, or the last that the score covers.
func (m *MemberScore) peak() int64 {
	if m.Deviation != nil {
		return min(m.Until, m.Deviation.At)
	}
	return m.Until
}

// Leader is the member that opened an anomaly: the one of the highest ratio of score and threshold until it opened.
type Leader struct {
	Member           string
	Samples          uint32 // its scores over the threshold so far
	Score, Threshold float32
	PeakTime         int64 // of the highest score, as Anomaly has it
}

// Own returns the number of scores over the threshold, the highest one, its threshold and its PeakTime, of an anomaly with a leader
// the leader's.
func (a *Anomaly) Own() Leader {
	if a.Leader != nil {
		return *a.Leader
	}
	return Leader{Samples: a.Samples, Score: a.PeakScore, Threshold: a.Threshold, PeakTime: a.PeakTime}
}

// ScorerName names the scorer of Own: a detector, or a member of an ensemble.
func ScorerName(detector, member string) string {
	if member == "" {
		return detector
	}
	return detector + "/" + member
}

// KeepMember keeps a score of a member until MembersUntil returns it: an ensemble scores the sample later. values is as Input.Values.
func (s *State) KeepMember(m *MemberScore, values func(field int, last *Range) Range) {
	field, last := Largest(m.Contribution), s.lastRange(m.Member)
	switch {
	case last == nil:
	case s.Open() && s.life.anomaly.Leader != nil && s.life.anomaly.Leader.Member == m.Member:
		field = last.Field
	case last.Field != field:
		last = nil
	}
	if field >= 0 && values != nil {
		if r := values(field, last); r.Low <= r.High {
			m.Range = &r
		}
	}
	list := append(slices.Clip(s.waiting()), *m)
	s.members = &list
}

// lastRange returns the range of a member's last score; nil: it is not known.
func (s *State) lastRange(member string) *Range {
	for _, m := range slices.Backward(s.waiting()) {
		if m.Member == member {
			return m.Range
		}
	}
	if s.life != nil && s.life.anomaly.Leader != nil && s.life.anomaly.Leader.Member == member {
		return s.life.anomaly.Range
	}
	return nil
}

func (s *State) waiting() []MemberScore {
	if s.members == nil {
		return nil
	}
	return *s.members
}

// Waiting reports whether there is anything that MembersUntil has not returned.
func (s *State) Waiting() bool { return s.members != nil }

// MembersUntil returns the scores of members for samples up to this one, and forgets it.
func (s *State) MembersUntil(time, offset int64) (scores []MemberScore) {
	var rest []MemberScore
	for _, w := range s.waiting() {
		if cmp.Or(cmp.Compare(w.Time, time), cmp.Compare(w.Offset, offset)) <= 0 {
			scores = append(scores, w)
		} else {
			rest = append(rest, w)
		}
	}
	if s.members = nil; rest != nil {
		s.members = &rest
	}
	return scores
}

// Highest returns what has the highest ratio, the first of equal ones; nil: there is nothing.
func Highest(scores []MemberScore) (highest *MemberScore) {
	for i := range scores {
		if highest == nil || scores[i].Ratio > highest.Ratio {
			highest = &scores[i]
		}
	}
	return highest
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
// forgets the scores of members for samples up to this one; a lagged member's stays as long as it covers samples from about on.
func (s *State) Carrier(time, offset, about int64, terms []Term) (carrier *MemberScore) {
	most := 0.0
	var rest []MemberScore
	for i := range s.waiting() {
		w := &(*s.members)[i]
		passed := cmp.Or(cmp.Compare(w.Time, time), cmp.Compare(w.Offset, offset)) <= 0
		lagged := false
		for k := range terms {
			t := &terms[k]
			if t.Member != w.Member {
				continue
			}
			lagged = t.Lagged
			if w.Deviation != nil && (passed || t.Ahead) && t.Value > 0 && t.Value >= most && ensemble.Counted(w.Score) == t.Score {
				carrier, most = w, t.Value
			}
		}
		if !passed || lagged && w.Until >= about {
			rest = append(rest, *w)
		}
	}
	if s.members = nil; rest != nil {
		s.members = &rest
	}
	return carrier
}

// listen takes what the members of an ensemble say with a score over its threshold.
func (l *life) listen(in *Input) {
	highest := Highest(in.Members)
	if highest == nil {
		return
	}
	if l.anomaly.Leader == nil || !l.open && l.anomaly.Leader.Member != highest.Member && in.Score > l.anomaly.PeakScore {
		l.anomaly.Leader, l.anomaly.Range = &Leader{Member: highest.Member, Score: float32(math.Inf(-1))}, nil
	}
	v := *l.anomaly.Leader
	for i := range in.Members {
		m := &in.Members[i]
		if m.Member != v.Member {
			continue
		}
		v.Samples++
		if l.anomaly.Range = l.anomaly.Range.with(m.Range); m.Score > v.Score {
			v.Score, v.Threshold, v.PeakTime = m.Score, m.Threshold, m.peak()
			l.anomaly.Expected, l.anomaly.Actual, l.anomaly.Contribution, l.anomaly.Spread = m.Expected, m.Actual, m.Contribution, 0
			side := Side(0)
			if m.Deviation != nil {
				l.anomaly.Spread, side = m.Deviation.Spread, m.Deviation.Side
			}
			l.opensOn(side)
			l.widen()
		}
	}
	l.anomaly.Leader = &v
}

// course returns how an open anomaly will have gone with a score over the threshold, but for what Like knows.
func (l *life) course(in *Input) Course {
	if l.anomaly.Leader == nil {
		r := l.reach(in)
		return Course{Peak: float64(max(l.anomaly.PeakScore, in.Score)), Samples: l.anomaly.Samples + 1, Range: r.Width(), Held: r.held()}
	}
	v, r := l.anomaly.Own(), l.anomaly.Range
	for i := range in.Members {
		if m := &in.Members[i]; m.Member == v.Member {
			v.Samples, v.Score, r = v.Samples+1, max(v.Score, m.Score), r.with(m.Range)
		}
	}
	return Course{Peak: float64(v.Score), Samples: v.Samples, Range: r.Width(), Held: r.held()}
}

func (l *Leader) append(b []byte) []byte {
	b = appendText(b, l.Member)
	b = binary.AppendUvarint(b, uint64(l.Samples))
	b = binary.AppendVarint(b, l.PeakTime)
	return appendFloats(b, l.Score, l.Threshold)
}

func decodeLeader(d *changelog.Decoder) *Leader {
	return &Leader{Member: d.String(), Samples: d.Uint32(), PeakTime: d.Int(), Score: d.Float(), Threshold: d.Float()}
}

func (s *State) appendMembers(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(*s.members)))
	for i := range *s.members {
		w := &(*s.members)[i]
		b = appendText(b, w.Member)
		for _, t := range [...]int64{w.Time, w.Offset, w.Until} {
			b = binary.AppendVarint(b, t)
		}
		b = appendFloats(b, w.Ratio, w.Score, w.Threshold)
		if w.Deviation == nil {
			b = append(b, 0)
		} else {
			v := w.Deviation
			b = appendBits(binary.AppendVarint(binary.AppendVarint(append(b, 1+byte(v.Side)), v.From), v.At), v.Spread)
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

func (s *State) decodeMembers(d *changelog.Decoder) {
	var list []MemberScore
	for range d.Len(20) {
		w := MemberScore{Member: d.String(), Time: d.Int(), Offset: d.Int(), Until: d.Int(),
			Ratio: d.Float(), Score: d.Float(), Threshold: d.Float()}
		if part := d.Byte(); part > 0 { // 1 more than its side
			if w.Deviation = (&Deviation{From: d.Int(), At: d.Int(), Spread: decodeNumber(d), Side: Side(part - 1)}); w.Deviation.Side > Neither {
				d.Fail()
			}
		}
		w.Expected, w.Actual, w.Contribution = decodeList(d), decodeList(d), decodeList(d)
		if d.Byte() != 0 {
			w.Range = decodeRange(d)
		}
		list = append(list, w)
	}
	if s.members = &list; len(list) == 0 {
		d.Fail()
	}
}
