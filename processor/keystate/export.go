package keystate

import (
	"bytes"
	"math"
	"slices"

	"odradek/processor/keystate/changelog"
)

// Export appends the logical state to dst: equal bytes mean equal state, however
// it came about. What belongs to this process or to the changelog (ring sizes,
// dirty keys, segments, evictions) is not in it. It is for tests and for people
// who compare; there is no import.
func (s *State) Export(dst []byte) []byte {
	e := encoder{changelog.Encoder{B: dst}}
	e.Byte(version)
	e.Int(s.maxTime)
	e.Uint(s.layout)
	list := s.jury.List()
	e.Uint(uint64(len(list)))
	for i := range list {
		u := &list[i]
		votes, agree := u.Votes()
		e.Int(u.Offset)
		e.Int(u.Time)
		e.Byte(votes)
		e.Byte(agree)
		e.Uint(uint64(len(u.Sample.Key)))
		e.B = append(e.B, u.Sample.Key...)
		for _, v := range u.Sample.Values {
			e.Bits(math.Float64bits(v))
		}
	}
	keys := make([]*Key, 0, s.keys.n)
	for k := range s.keys.all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *Key) int { return bytes.Compare(a.Name(), b.Name()) })
	e.Uint(uint64(len(keys)))
	for _, k := range keys {
		e.Uint(uint64(len(k.Name())))
		e.B = append(e.B, k.Name()...)
		e.Int(k.Born)
		e.Int(k.LastOffset)
		e.Int(k.LastTime)
		k.EncodeContent(&e.Encoder)
		n := k.held.Len()
		e.Uint(uint64(n))
		for i := range n {
			e.held(k.held.At(i))
		}
		if !k.Alerts.Empty() {
			k.EncodeAlerts(&e.Encoder)
		}
		if k.Summarised() {
			k.EncodeSummaries(&e.Encoder)
		}
		if k.Traced() {
			k.EncodeTraces(&e.Encoder)
		}
	}
	return e.B
}
