package anomaly

import (
	"encoding/binary"
	"math"
	"slices"

	"odradek/processor/state/changelog"
)

// An anomaly recurs where like ones came before it at the same intervals. A State remembers the last Remembered anomalies that have
// ended, and compares the one that is open with them.
//
// Two are alike if the same member, field and side has both, and neither has a highest score more than twice the other's, or lasts more
// than twice as long; how long does not matter where both have few scores over the threshold. While an anomaly is open it may still
// become like them, so it must not be higher nor longer than that. As soon as it is, it recurs no more.
//
// The third of like anomalies recurs if the intervals between their starts differ from their mean by at most 1/begins of it. From then
// on an anomaly recurs that starts one, two or three periods after the last one that did, to within 1/stays of a period: one that was
// missed does not end it. Of anomalies at random times one of a hundred is a third by chance; if that could differ as much as later ones,
// one of ten would be.
//
// An anomaly of a region of a grid does not recur: each is somewhere else.

// Remembered is the number of ended anomalies that a State remembers.
const Remembered = 16

const (
	few    = 3 // scores over the threshold
	begins = 100
	stays  = 10
	missed = 2 // times in a row that an anomaly may have been missed
)

// Recurrence says that an anomaly recurs.
type Recurrence struct {
	Period int64  // microseconds
	Count  uint32 // this is the Count-th time
}

// past is what is compared of an anomaly.
type past struct {
	kind
	start, lasted int64
	peak          float32
	samples       uint32
	Recurrence    // zero: it did not recur
}

// kind is what like anomalies have in common.
type kind struct {
	member string
	field  int
	side   Side
}

// past returns what is compared of an anomaly, without its recurrence.
func (a *Anomaly) past() past {
	own := a.Own()
	p := past{kind: kind{own.Member, Largest(a.Contribution), a.Side}, start: a.Start, lasted: a.End - a.Start, peak: own.Score,
		samples: own.Samples}
	if p.member == "" {
		p.member = a.Carrier
	}
	if f := p.field; p.side == 0 && f >= 0 && f < len(a.Expected) && f < len(a.Actual) {
		switch e, v := a.Expected[f], a.Actual[f]; {
		case v > e:
			p.side = Above
		case v < e:
			p.side = Below
		}
	}
	return p
}

// within reports whether an anomaly is of the kind of another one, and neither more than twice as high nor as long.
func (p *past) within(o *past) bool {
	return p.kind == o.kind && float64(p.peak) <= float64(o.peak)+math.Abs(float64(o.peak)) &&
		(p.samples <= few || p.lasted/2 <= o.lasted)
}

func (p *past) like(o *past) bool { return p.within(o) && o.within(p) }

// recurrence returns whether an anomaly recurs; nil: it does not.
func (s *State) recurrence(a *Anomaly) *Recurrence {
	if s.recent == nil || a.Region != nil {
		return nil
	}
	list, now := *s.recent, a.past()
	for i := len(list) - 1; i >= 0; i-- {
		p := &list[i]
		follows := func(q past) bool { return q.Period > 0 && q.like(p) }
		if p.Period == 0 || !now.within(p) || slices.ContainsFunc(list[i+1:], follows) {
			continue
		}
		apart := now.start - p.start
		times := (apart + p.Period/2) / p.Period
		if times >= 1 && times <= 1+missed && distance(apart, times*p.Period) <= p.Period/stays {
			return &Recurrence{p.Period + (apart/times-p.Period)/8, p.Count + 1}
		}
	}
	for i := len(list) - 1; i > 0; i-- {
		p := &list[i]
		if !now.within(p) || lastLike(list[i+1:], p) >= 0 {
			continue
		}
		before := lastLike(list[:i], p)
		if before < 0 {
			continue
		}
		apart, earlier := now.start-p.start, p.start-list[before].start
		if apart > 0 && earlier > 0 && distance(apart, earlier) <= (apart+earlier)/begins {
			return &Recurrence{(apart + earlier) / 2, 3}
		}
	}
	return nil
}

// lastLike returns the index of the last of a list that is like an anomaly; -1: none is.
func lastLike(list []past, p *past) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].like(p) {
			return i
		}
	}
	return -1
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// remember takes an anomaly that ends into those that are remembered.
func (s *State) remember(a *Anomaly) {
	if a.Region != nil {
		return
	}
	var list []past
	if s.recent != nil {
		list = *s.recent
	}
	p := a.past()
	if a.Recurs != nil {
		p.Recurrence = *a.Recurs
	}
	list = append(append(make([]past, 0, Remembered), list[max(0, len(list)+1-Remembered):]...), p)
	s.recent = &list
}

// Remembers reports whether any ended anomaly is remembered.
func (s *State) Remembers() bool { return s.recent != nil }

func (r *Recurrence) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Period)), uint64(r.Count))
}

func decodeRecurrence(d *changelog.Decoder) Recurrence {
	r := Recurrence{int64(d.Uint()), d.Uint32()}
	if r.Period < 0 {
		d.Fail()
	}
	return r
}

func (s *State) appendEnded(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(*s.recent)))
	for i := range *s.recent {
		p := &(*s.recent)[i]
		b = appendText(b, p.member)
		b = append(binary.AppendUvarint(b, uint64(p.field+1)), byte(p.side))
		b = appendFloats(binary.AppendVarint(binary.AppendVarint(b, p.start), p.lasted), p.peak)
		b = p.append(binary.AppendUvarint(b, uint64(p.samples)))
	}
	return b
}

func (s *State) decodeEnded(d *changelog.Decoder) {
	var list []past
	for range d.Len(12) {
		p := past{kind: kind{d.String(), d.Small() - 1, Side(d.Byte())}, start: d.Int(), lasted: d.Int(), peak: d.Float(), samples: d.Uint32(),
			Recurrence: decodeRecurrence(d)}
		if p.side > Neither {
			d.Fail()
		}
		list = append(list, p)
	}
	if s.recent = &list; len(list) == 0 || len(list) > Remembered {
		d.Fail()
	}
}
