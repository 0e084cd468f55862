package anomaly

import (
	"encoding/binary"
	"math"

	"odradek/processor/state/changelog"
)

// The flags of an encoded State. A reader refuses flags that it does not know, here and of an Anomaly.
const (
	statePending = 1 << iota // nothing is open, scores are over the threshold
	stateOpen
	stateGroup   // of the last anomaly that opened, and is not open
	stateMembers // scores of an ensemble's members that MembersUntil has not returned
	stateEnded   // anomalies that have ended
	stateFlags   = 1<<iota - 1
)

// Append encodes s: one byte if it is idle and has no group.
func (s *State) Append(b []byte) []byte {
	l := s.life
	flags := uint64(0)
	switch {
	case s.Open():
		flags = stateOpen
	case l != nil:
		flags = statePending
	}
	if s.group != nil && flags != stateOpen { // an open anomaly's group is its own
		flags |= stateGroup
	}
	if s.members != nil {
		flags |= stateMembers
	}
	if s.recent != nil {
		flags |= stateEnded
	}
	if b = binary.AppendUvarint(b, flags); flags&stateGroup != 0 {
		b = s.group.append(b)
	}
	if s.members != nil {
		b = s.appendMembers(b)
	}
	if s.recent != nil {
		b = s.appendEnded(b)
	}
	if l == nil {
		return b
	}
	b = append(b, l.reported, l.raw)
	b = binary.AppendUvarint(b, uint64(l.run))
	b = binary.AppendUvarint(b, uint64(l.since))
	b = binary.AppendVarint(b, l.first)
	if l.open {
		b = binary.AppendUvarint(binary.AppendVarint(b, l.ended), uint64(l.count))
	}
	return l.anomaly.Append(b)
}

// Decode reads what Append wrote.
func Decode(d *changelog.Decoder) (s State) {
	flags := d.Flags(stateFlags)
	if flags&stateGroup != 0 {
		s.group = decodeGroup(d)
	}
	if flags&stateMembers != 0 {
		s.decodeMembers(d)
	}
	if flags&stateEnded != 0 {
		s.decodeEnded(d)
	}
	open, pending := flags&stateOpen != 0, flags&statePending != 0
	if open || pending {
		l := &life{open: open, reported: d.Byte(), raw: d.Byte(), run: d.Uint32(), since: d.Uint32(), first: d.Int()}
		if open {
			l.ended, l.count = d.Int(), d.Uint32()
		}
		l.anomaly = DecodeAnomaly(d)
		if open == pending || open != (l.anomaly.Revision > 0) || open && s.group != nil || !open && l.anomaly.Group != nil {
			d.Fail()
		}
		if s.life = l; open {
			s.group = l.anomaly.Group
		}
	}
	if d.Bad {
		return State{}
	}
	return s
}

// The flags of an encoded Anomaly: that it is in shadow mode, and the parts that it has after its numbers, in this order.
const (
	inShadow = 1 << iota
	hasRegion
	hasGroup
	hasLike
	hasRange
	hasLeader
	hasEscalation
	hasCarrier
	hasSide
	hasFault // of another anomaly's id
	hasRecurs
	anomalyFlags = 1<<iota - 1
)

func (a *Anomaly) flags() (flags uint64) {
	for _, f := range [...]struct {
		flag uint64
		set  bool
	}{
		{inShadow, a.Shadow}, {hasRegion, a.Region != nil}, {hasGroup, a.Group != nil}, {hasLike, a.Like != nil}, {hasRange, a.Range != nil},
		{hasLeader, a.Leader != nil}, {hasEscalation, a.Escalation != nil}, {hasCarrier, a.Spread != 0 || a.Carrier != ""},
		{hasSide, a.Side != 0}, {hasFault, a.Fault != a.ID}, {hasRecurs, a.Recurs != nil},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// Append encodes a.
func (a *Anomaly) Append(b []byte) []byte {
	flags := a.flags()
	b = append(binary.AppendUvarint(b, flags), a.ID[:]...)
	b = binary.AppendUvarint(b, uint64(a.Revision))
	b = append(b, a.Severity)
	b = binary.AppendUvarint(b, uint64(a.Samples))
	for _, t := range [...]int64{a.Start, a.End, a.PeakTime, a.OpenedAt} {
		b = binary.AppendVarint(b, t)
	}
	b = appendFloats(b, a.PeakScore, a.Threshold, a.Rank)
	for _, list := range [...][]float64{a.Expected, a.Actual, a.Contribution} {
		b = appendList(b, list)
	}
	if a.Region != nil {
		b = a.Region.append(b)
	}
	if a.Group != nil {
		b = a.Group.append(b)
	}
	if a.Like != nil {
		b = a.Like.append(b)
	}
	if a.Range != nil {
		b = a.Range.append(b)
	}
	if a.Leader != nil {
		b = a.Leader.append(b)
	}
	if e := a.Escalation; e != nil {
		for _, t := range [...]int64{e.Start, e.Peak, e.Since} {
			b = binary.AppendVarint(b, t)
		}
	}
	if flags&hasCarrier != 0 {
		b = appendText(appendBits(b, a.Spread), a.Carrier)
	}
	if a.Side != 0 {
		b = append(b, byte(a.Side))
	}
	if flags&hasFault != 0 {
		b = append(b, a.Fault[:]...)
	}
	if a.Recurs != nil {
		b = a.Recurs.append(b)
	}
	return b
}

// DecodeAnomaly reads what Anomaly.Append wrote.
func DecodeAnomaly(d *changelog.Decoder) (a Anomaly) {
	flags := d.Flags(anomalyFlags)
	copy(a.ID[:], d.Slice(len(a.ID)))
	a.Revision, a.Severity, a.Samples = d.Uint32(), d.Byte(), d.Uint32()
	a.Start, a.End, a.PeakTime, a.OpenedAt = d.Int(), d.Int(), d.Int(), d.Int()
	a.PeakScore, a.Threshold, a.Rank = d.Float(), d.Float(), d.Float()
	a.Expected, a.Actual, a.Contribution = decodeList(d), decodeList(d), decodeList(d)
	a.Shadow = flags&inShadow != 0
	if flags&hasRegion != 0 {
		a.Region = decodeRegion(d)
	}
	if flags&hasGroup != 0 {
		a.Group = decodeGroup(d)
	}
	if flags&hasLike != 0 {
		a.Like = decodeLike(d)
	}
	if flags&hasRange != 0 {
		a.Range = decodeRange(d)
	}
	if flags&hasLeader != 0 {
		a.Leader = decodeLeader(d)
	}
	if flags&hasEscalation != 0 {
		a.Escalation = &Escalation{d.Int(), d.Int(), d.Int()}
	}
	if flags&hasCarrier != 0 {
		a.Spread, a.Carrier = decodeNumber(d), d.String()
	}
	if flags&hasSide != 0 {
		if a.Side = Side(d.Byte()); a.Side < Above || a.Side > Neither {
			d.Fail()
		}
	}
	a.Fault = a.ID
	if flags&hasFault != 0 {
		copy(a.Fault[:], d.Slice(len(a.Fault)))
	}
	if flags&hasRecurs != 0 {
		r := decodeRecurrence(d)
		a.Recurs = &r
	}
	if d.Bad {
		return Anomaly{}
	}
	return a
}

// appendList appends the number of numbers and the numbers.
func appendList(b []byte, v []float64) []byte {
	return appendBits(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// decodeList reads what appendList wrote; nil without a number.
func decodeList(d *changelog.Decoder) []float64 {
	n := d.Len(8)
	if n == 0 {
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = decodeNumber(d)
	}
	return v
}

func decodeNumber(d *changelog.Decoder) float64 { return math.Float64frombits(d.Bits()) }

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

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
