package anomaly

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"odradek/detectors/threshold"
)

// Input is one judged score.
type Input struct {
	Time, Offset int64 // of the sample
	About, Until int64 // first and last event time that the score covers
	Score        float32
	Threshold    float32
	Rank         float32 // upper-tail rank of the score, 0 for none
	Exceeds      bool
	Severity     uint8
	Ordinary     bool // does not exceed, under any threshold
	Shadow       bool // the detector is in shadow mode

	// What an id is made of when the score opens an anomaly.
	Detector    string
	Key, Source []byte

	// Of a score for which Peak is true, where the detector knows; kept, so they
	// must not be changed later.
	Expected, Actual, Contribution []float64
	Carrier                        string // the member that they are of; empty: they are the detector's own
	Deviation                      *Deviation
	Located                        bool // the detector knows where readings deviate; one without says nothing of the start

	// Values returns the range of the values of a field that the score covers, the sample's included, as Cover does from the range of earlier
	// scores; nil: not known.
	Values func(field int, last *Range) Range

	Region *Region // that the score is about, kept; nil: none

	// Members is what the members of an ensemble of any say that have such a score, in place of the values above.
	Members []MemberScore

	// Like returns which false alarms an anomaly resembles that the score opens, nil if none; nil: none does.
	Like func(*Anomaly) *Like
}

// State is the state between two scores. The zero value has nothing
// open and nothing pending. A copy shares the anomaly: see Clone.
type State struct {
	life    *life
	group   *Group         // of the last anomaly that opened; nil: none
	members *[]MemberScore // that MembersUntil has not returned, replaced, never changed; nil: nothing
	recent  *[]past        // anomalies that have ended, at most Remembered, replaced, never changed; nil: none
}

type life struct {
	anomaly  Anomaly
	open     bool
	reported uint8  // severity at the last change
	raw      uint8  // the highest severity so far of an anomaly that does not recur
	run      uint32 // pending: scores over in a row; open: scores under in a row
	since    uint32 // open: samples since the last change
	ended    int64  // open: End at the last change
	count    uint32 // open: Samples at the last change
	first    int64  // pending: time of the row's first sample
}

// Idle reports whether nothing is open or pending.
func (s *State) Idle() bool { return s.life == nil }

// Open reports whether an anomaly is open.
func (s *State) Open() bool { return s.life != nil && s.life.open }

// Anomaly returns the open anomaly; nil if none is open.
func (s *State) Anomaly() *Anomaly {
	if !s.Open() {
		return nil
	}
	return &s.life.anomaly
}

// Since returns the start of the anomaly that is open or pending; false: none is.
func (s *State) Since() (start int64, begun bool) {
	if s.life == nil {
		return 0, false
	}
	return s.life.anomaly.Start, true
}

// Clone returns a copy that does not change with s.
func (s *State) Clone() State {
	c := *s
	if s.life != nil {
		l := *s.life
		c.life = &l
	}
	return c
}

// Peak reports whether a score over the threshold would be the anomaly's highest.
func (s *State) Peak(score float32) bool {
	return s.life == nil || score > s.life.anomaly.PeakScore
}

// Step takes the key's next score. With emit it returns the change of the anomaly that the score
// causes, if any. The package comment describes replay.
func (s *State) Step(r *Policy, in *Input, emit bool) (c Change, changed bool) {
	l := s.life
	switch {
	case in.Score != in.Score:
		return c, false
	case l == nil:
		if !in.Exceeds {
			return c, false
		}
		l = begun(in.Time)
		s.life = l
	case !l.open && !in.Exceeds:
		s.life = nil
		return c, false
	}
	if l.open {
		l.since++
	}
	moved := in.Exceeds && in.Region != nil && (l.anomaly.Region == nil || !l.anomaly.Region.same(in.Region))
	if in.Exceeds {
		s.over(r, in)
	}
	if !l.open {
		l.run++
		if !emit || int64(l.run) < int64(r.OpenAfter) || in.Time-l.first < r.MinDuration {
			return c, false
		}
		l.open, l.run, l.anomaly.OpenedAt, l.anomaly.Shadow = true, 0, in.Time, in.Shadow
		l.anomaly.ID = ID(in.Detector, in.Key, in.Source, in.Time, in.Offset)
		l.anomaly.Fault = l.anomaly.ID
		if in.Like != nil {
			if l.anomaly.Like = in.Like(&l.anomaly); l.anomaly.Like != nil {
				l.anomaly.Severity, l.anomaly.Escalation = 0, nil
			}
		}
		if l.anomaly.Recurs = s.recurrence(&l.anomaly); l.anomaly.Recurs != nil && l.anomaly.Severity > r.most() {
			l.anomaly.Severity, l.anomaly.Escalation = r.most(), nil
		}
		return l.change(Open, in.Time, in.Offset), true
	}
	switch {
	case in.Exceeds:
		l.run = 0
	case in.under(r):
		l.run++
		if emit && int64(l.run) >= int64(r.CloseAfter) && (r.MergeGap == 0 || in.About-l.anomaly.End > r.MergeGap) {
			s.remember(&l.anomaly)
			s.life = nil
			return l.change(Close, in.Time, in.Offset), true
		}
	default:
		l.run = 0
	}
	if emit && (moved || r.UpdateEvery > 0 && int64(l.since) >= int64(r.UpdateEvery) || in.Exceeds && l.stale(r) ||
		l.anomaly.Severity > l.reported && threshold.Band(l.anomaly.Severity) != threshold.Band(l.reported)) {
		return l.change(Update, in.Time, in.Offset), true
	}
	return c, false
}

// stale reports whether an update is due by event time, or because of the number of samples: with UpdateShare, neither the duration nor
// the number of samples that was published last is to fall behind by more than this share.
func (l *life) stale(r *Policy) bool {
	more := l.anomaly.End - l.ended
	switch {
	case r.UpdateAfter == 0 || more < r.UpdateAfter:
		return false
	case r.UpdateShare == 0:
		return true
	}
	a := &l.anomaly
	return float64(more) >= r.UpdateShare*float64(a.End-a.Start) || float64(a.Samples-l.count) >= r.UpdateShare*float64(a.Samples)
}

// Leave ends the anomaly that a score does not go on with: an open one of the other mode, or one that is not like false
// alarms any more, or one below major where a critical score follows scores under the threshold, or one, open or pending, that is
// elsewhere, where the region of a score over the threshold overlaps its last score's region by less than Overlap. The caller then
// calls Step with the same input, which Leave may have changed so that it opens an anomaly that is like none. With emit, Leave
// returns the close of an open anomaly; without, the anomaly stays open.
func (s *State) Leave(in *Input, emit bool) (c Change, changed bool) {
	l := s.life
	if l == nil || l.open && !emit {
		return c, false
	}
	switch {
	case l.open && in.Score == in.Score && l.anomaly.Shadow != in.Shadow:
		return s.End(DetectorRemoved, in.Time, in.Offset)
	case in.Exceeds && l.exceedsBounds(in):
		in.Like = nil
		return s.next(in)
	case in.Exceeds && l.open && l.anomaly.Like == nil && l.run > 0 && threshold.Escalates(l.raw, in.Severity):
		return s.next(in)
	case in.Exceeds && in.Region != nil && l.anomaly.Region != nil && l.anomaly.Region.overlap(in.Region) < Overlap:
		return s.End(Recovered, in.Time, in.Offset)
	}
	return c, false
}

// next closes the open anomaly, and has the same score open the next one. OpenAfter and MinDuration do not hold for it: the
// row that it continues has met them, or it is critical.
func (s *State) next(in *Input) (c Change, changed bool) {
	first := s.life.first
	c, changed = s.End(Recovered, in.Time, in.Offset)
	s.life = begun(first)
	s.life.run = most
	return c, changed
}

// begun returns an anomaly that nothing has been taken into, of a row of scores that began at a time.
func begun(first int64) *life {
	return &life{first: first, anomaly: Anomaly{Start: math.MaxInt64, End: math.MinInt64, PeakScore: float32(math.Inf(-1))}}
}

// Deviation is where the readings that a score covers deviate from what was expected.
type Deviation struct {
	From int64 // event time of the first that deviates at least half as much as the one that deviates most
	At   int64 // of the one that deviates most

	// Spread is how far readings usually are from what was expected, in the value with the largest contribution; 0: not known.
	Spread float64

	// Side is the side on which the newest reading of a score of several is of what the readings before it let expect, in the value with
	// the largest contribution; 0: the score is of one reading, or it is not known.
	Side Side
}

// Side is a side of what was expected.
type Side uint8

// The sides.
const (
	Above Side = iota + 1
	Below
	Neither // the reading is as expected
)

// Carry takes over from the member that carries the score of an ensemble. Its score may cover samples after the ensemble's.
func (in *Input) Carry(said *MemberScore) {
	in.Expected, in.Actual, in.Contribution = said.Expected, said.Actual, said.Contribution
	in.Deviation, in.Carrier = said.Deviation, said.Member
	in.Until = max(in.Until, said.Until)
}

// deviation returns where the readings of a score deviate, within what the score covers. Where the detector does not know it, they
// deviate in all of that, and the last one most.
func (in *Input) deviation() Deviation {
	p := in.Deviation
	if said := Highest(in.Members); said != nil && said.Deviation != nil {
		p = said.Deviation
	}
	if p == nil {
		return Deviation{From: in.About, At: in.Until}
	}
	return Deviation{From: max(in.About, min(in.Until, p.From)), At: max(in.About, min(in.Until, p.At)), Spread: p.Spread, Side: p.Side}
}

// over takes a score over the threshold into the anomaly.
func (s *State) over(r *Policy, in *Input) {
	l, d := s.life, in.deviation()
	higher := in.Score > l.anomaly.PeakScore
	if in.Deviation != nil || !in.Located || l.anomaly.Start == math.MaxInt64 {
		l.anomaly.Start = min(l.anomaly.Start, d.From)
	}
	l.anomaly.Samples++
	if l.listen(in); l.anomaly.Leader == nil {
		l.anomaly.Range = l.reach(in)
	}
	l.anomaly.End = max(l.anomaly.End, in.Until)
	if in.Region != nil {
		l.anomaly.Region = in.Region
	}
	if higher {
		l.anomaly.PeakScore, l.anomaly.PeakTime, l.anomaly.Threshold, l.anomaly.Rank = in.Score, d.At, in.Threshold, in.Rank
		if l.anomaly.Leader == nil {
			l.anomaly.Expected, l.anomaly.Actual, l.anomaly.Contribution, l.anomaly.Carrier = in.Expected, in.Actual, in.Contribution, in.Carrier
			l.anomaly.Spread = d.Spread
			l.opensOn(d.Side)
			l.widen()
		}
	}
	if l.open {
		l.anomaly.Recurs = s.recurrence(&l.anomaly)
	}
	if l.anomaly.Like == nil {
		l.raise(r, in, &d, higher)
	}
}

// raise takes the severity of a score into the anomaly. higher says that the score is the highest so far.
func (l *life) raise(r *Policy, in *Input, d *Deviation, higher bool) {
	l.raw = max(l.raw, in.Severity)
	severity := l.raw
	if l.anomaly.Recurs != nil {
		severity = max(l.anomaly.Severity, min(severity, r.most()))
	}
	if l.anomaly.Samples > 1 && threshold.Band(severity) != threshold.Band(l.anomaly.Severity) {
		l.anomaly.Escalation = &Escalation{Start: d.From, Peak: d.At, Since: in.Time}
	} else if e := l.anomaly.Escalation; e != nil && higher {
		l.anomaly.Escalation = &Escalation{Start: e.Start, Peak: d.At, Since: e.Since}
	}
	l.anomaly.Severity = severity
}

// opensOn takes the side of the highest score so far, until the anomaly opens.
func (l *life) opensOn(side Side) {
	if !l.open {
		l.anomaly.Side = side
	}
}

func (in *Input) under(r *Policy) bool {
	t := float64(in.Threshold)
	return in.Ordinary || float64(in.Score) <= t-(1-r.Release)*math.Abs(t)
}

// change returns the next revision.
func (l *life) change(kind Kind, time, offset int64) Change {
	l.anomaly.Revision++
	l.reported, l.since, l.ended, l.count = l.anomaly.Severity, 0, l.anomaly.End, l.anomaly.Samples
	return Change{Kind: kind, Time: time, Offset: offset, Anomaly: l.anomaly}
}

// End closes an open anomaly for a reason other than a score, and drops a pending one. It returns false if none was open.
func (s *State) End(reason Reason, time, offset int64) (c Change, changed bool) {
	l := s.life
	if s.life = nil; l == nil || !l.open {
		return c, false
	}
	if reason == Recovered {
		s.remember(&l.anomaly)
	}
	c = l.change(Close, time, offset)
	c.Reason = reason
	return c, true
}

// ID names an anomaly: the first 16 bytes of the SHA-256 of the detector's name,
// the key, the source (the input topic and partition), and the time and offset of
// the sample that opened it, each but the last two preceded by its length. The
// offset tells two of the same event time apart.
func ID(detector string, key, source []byte, openedAt, offset int64) (id [16]byte) {
	h := sha256.New()
	var n [8]byte
	number := func(v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	for _, b := range [][]byte{[]byte(detector), key, source} {
		number(uint64(len(b)))
		h.Write(b)
	}
	number(uint64(openedAt))
	number(uint64(offset))
	copy(id[:], h.Sum(nil))
	return id
}
