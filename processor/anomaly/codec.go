package anomaly

import (
	"encoding/binary"
	"errors"
	"math"

	"odradek/processor/state/changelog"
)

// ErrCorrupt is the error for bytes that Append has not written.
var ErrCorrupt = errors.New("anomaly: the bytes are no state of an anomaly")

// Append encodes s: one byte if it is idle and has no group.
func (s *State) Append(b []byte) []byte {
	l := s.life
	kind := byte(0)
	switch {
	case s.Open():
		kind = 2
	case l != nil:
		kind = 1
	}
	if s.group != nil && kind != 2 { // an open anomaly's group is its own
		kind |= remembers
	}
	if s.heard != nil {
		kind |= hears | parted | spreads
	}
	if kind&2 != 0 {
		kind |= dated
	}
	if b = append(b, kind); kind&remembers != 0 {
		b = s.group.append(b)
	}
	if s.heard != nil {
		b = s.appendHeard(b)
	}
	if l == nil {
		return b
	}
	b = append(b, l.told)
	b = binary.AppendUvarint(b, uint64(l.run))
	b = binary.AppendUvarint(b, uint64(l.since))
	b = binary.AppendVarint(b, l.first)
	if l.open {
		b = binary.AppendUvarint(binary.AppendVarint(b, l.ended), uint64(l.count))
	}
	return l.Anomaly.Append(b)
}

// dated is added to the first byte of a State with an open anomaly that has its end as of its last change, and the number of its samples
// then; those of earlier versions, which do not know it, have neither.
const dated = 1 << 5

// Decode reads what Append wrote at the front of b, and returns the rest.
func Decode(b []byte) (s State, rest []byte, err error) {
	d := changelog.Decoder{B: b}
	kind := d.Byte()
	if kind&remembers != 0 {
		kind &^= remembers
		s.group = decodeGroup(&d)
	}
	if kind&hears != 0 {
		s.decodeHeard(&d, kind&parted != 0, kind&spreads != 0)
		kind &^= hears | parted | spreads
	}
	withDate := kind&dated != 0
	kind &^= dated
	if kind == 0 && !d.Bad {
		return s, d.B, nil
	}
	l := &life{open: kind == 2, told: d.Byte(), run: d.Uint32(), since: d.Uint32(), first: d.Int()}
	if withDate {
		l.ended, l.count = d.Int(), d.Uint32()
	}
	decodeAnomaly(&d, &l.Anomaly)
	if l.open && !withDate {
		l.ended = l.Start
	}
	if d.Bad || kind > 2 || withDate && !l.open || l.open != (l.Revision > 0) || l.open && s.group != nil || !l.open && l.Group != nil {
		return State{}, nil, ErrCorrupt
	}
	if s.life = l; l.open {
		s.group = l.Group
	}
	return s, d.B, nil
}

// Append encodes a.
func (a *Anomaly) Append(b []byte) []byte {
	b = append(b, a.ID[:]...)
	b = binary.AppendUvarint(b, uint64(a.Revision))
	severity := a.Severity
	if a.Rank != 0 {
		severity |= ranked
	}
	b = append(b, severity)
	b = binary.AppendUvarint(b, uint64(a.Samples))
	for _, t := range [...]int64{a.Start, a.End, a.PeakTime, a.OpenedAt} {
		b = binary.AppendVarint(b, t)
	}
	b = appendFloats(b, a.PeakScore, a.Threshold)
	if a.Rank != 0 {
		b = appendFloats(b, a.Rank)
	}
	ends := uint64(0)
	if a.Like != nil {
		ends = alike | bounded
	}
	if a.Range != nil || a.Like != nil && a.Like.ranged() {
		ends |= ranged
	}
	if a.holds() {
		ends |= held
	}
	if a.Voice != nil {
		ends |= voiced
	}
	if a.Escalation != nil {
		ends |= escalated
	}
	if a.Spread != 0 || a.Carrier != "" {
		ends |= carried
	}
	b = appendDoubles(b, a.Expected, ends)
	if a.Group != nil {
		b = appendDoubles(b, a.Actual, grouped)
	} else {
		b = appendDoubles(b, a.Actual, 0)
	}
	mark := uint64(0)
	if a.Shadow {
		mark = inShadow
	}
	if a.Region != nil {
		b = a.Region.append(appendDoubles(b, a.Contribution, mark|located))
	} else {
		b = appendDoubles(b, a.Contribution, mark)
	}
	if a.Group != nil {
		b = a.Group.append(b)
	}
	if a.Like != nil {
		b = a.Like.append(b)
	}
	if ends&ranged != 0 {
		b = a.Range.append(b, a.Like)
	}
	if ends&held != 0 {
		b = a.appendHeld(b)
	}
	if a.Voice != nil {
		b = a.Voice.append(b)
	}
	if e := a.Escalation; e != nil {
		for _, t := range [...]int64{e.Start, e.Peak, e.Since} {
			b = binary.AppendVarint(b, t)
		}
	}
	if ends&carried != 0 {
		b = appendText(appendBits(b, a.Spread), a.Carrier)
	}
	return b
}

// carried is added to the length of the expected values of an anomaly with a spread or a carrier, which end it; earlier versions
// refuse it as they do alike.
const carried = 1 << 24

// escalated is added to the length of the expected values of an anomaly with an escalation, which ends it; earlier versions refuse it
// as they do alike.
const escalated = 1 << 25

// ranked is added to the severity, which is 100 at most, of an anomaly with a rank;
// those of earlier versions have none.
const ranked = 1 << 7

// inShadow is added to the length of the contributions of an anomaly in shadow mode; earlier versions refuse it as they
// do doubles.
const inShadow = 1 << 29

// doubles marks a list of float64: it is added to its length. The lists of earlier
// versions are of float32, with their length alone; those versions take a marked
// length for one of more numbers than there are, and refuse it.
const doubles = 1 << 31

// appendDoubles appends a list, with mark added to its length.
func appendDoubles(b []byte, v []float64, mark uint64) []byte {
	if len(v) > 0 {
		mark += doubles + uint64(len(v))
	}
	return appendBits(binary.AppendUvarint(b, mark), v...)
}

func appendBits(b []byte, v ...float64) []byte {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func appendFloats(b []byte, v ...float32) []byte {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// DecodeAnomaly reads what Anomaly.Append wrote at the front of b, and returns the
// rest.
func DecodeAnomaly(b []byte) (a Anomaly, rest []byte, err error) {
	d := changelog.Decoder{B: b}
	if decodeAnomaly(&d, &a); d.Bad {
		return Anomaly{}, nil, ErrCorrupt
	}
	return a, d.B, nil
}

// decodeList reads the rest of a list that appendDoubles wrote, or of the float32 of an earlier version, whose length is n, marked as
// doubles or not.
func decodeList(d *changelog.Decoder, n uint32) []float64 {
	wide := false
	size := 4
	if n >= doubles {
		n, wide, size = n-doubles, true, 8
	}
	if n == 0 || int(n) > len(d.B)/size {
		if n > 0 || wide {
			d.Fail()
		}
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		if wide {
			v[i] = math.Float64frombits(d.Bits())
		} else {
			v[i] = float64(d.Float())
		}
	}
	return v
}

func decodeAnomaly(d *changelog.Decoder, a *Anomaly) {
	copy(a.ID[:], d.Take(len(a.ID)))
	a.Revision, a.Severity, a.Samples = d.Uint32(), d.Byte(), d.Uint32()
	hasRank := a.Severity&ranked != 0
	a.Severity &^= ranked
	a.Start, a.End, a.PeakTime, a.OpenedAt = d.Int(), d.Int(), d.Int(), d.Int()
	a.PeakTime = max(a.Start, min(a.End, a.PeakTime)) // earlier versions have the sample that completed the score
	a.PeakScore, a.Threshold = d.Float(), d.Float()
	if hasRank {
		a.Rank = d.Float()
	}
	like := d.Uint32()
	a.Expected = decodeList(d, like&^(alike|bounded|ranged|held|voiced|escalated|carried))
	inGroup := d.Uint32()
	a.Actual = decodeList(d, inGroup&^grouped)
	n := d.Uint32()
	a.Contribution, a.Shadow = decodeList(d, n&^(located|inShadow)), n&inShadow != 0
	if n&located != 0 {
		a.Region = decodeRegion(d)
	}
	if inGroup&grouped != 0 {
		a.Group = decodeGroup(d)
	}
	if like&(alike|bounded) != 0 {
		a.Like = decodeLike(d, like&bounded != 0)
	}
	if like&ranged != 0 {
		decodeRange(d, a)
	}
	if like&held != 0 {
		decodeHeld(d, a)
	}
	if like&voiced != 0 {
		a.Voice = decodeVoice(d)
	}
	if like&escalated != 0 {
		a.Escalation = &Escalation{d.Int(), d.Int(), d.Int()}
	}
	if like&carried != 0 {
		a.Spread, a.Carrier = math.Float64frombits(d.Bits()), d.String()
	}
}
