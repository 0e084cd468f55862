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
	e.Uint(uint64(len(s.jury.list)))
	for i := range s.jury.list {
		u := &s.jury.list[i]
		e.Int(u.Offset)
		e.Int(u.Time)
		e.Byte(u.votes)
		e.Byte(u.agree)
		e.Uint(uint64(len(u.Key)))
		e.B = append(e.B, u.Key...)
		for _, v := range u.Values {
			e.Bits(math.Float64bits(v))
		}
	}
	keys := make([]*Key, 0, s.keys.n)
	for k := range s.keys.all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *Key) int { return bytes.Compare(a.name, b.name) })
	e.Uint(uint64(len(keys)))
	for _, k := range keys {
		e.Uint(uint64(len(k.name)))
		e.B = append(e.B, k.name...)
		e.Int(k.born)
		e.Int(k.lastOffset)
		e.Int(k.lastTime)
		for i := range k.wins {
			w, sw := &k.wins[i], &k.set.wins[i]
			e.Bits(s.cfg.Windows[sw.index].Fingerprint)
			e.Int(w.count)
			e.rows(w, len(sw.cols), w.count-int64(w.rows), w.count)
			for j := range sw.dets {
				d := &sw.dets[j]
				e.mark(w, sw, d, &k.marks[d.mark])
			}
		}
		n := k.held.Len()
		e.Uint(uint64(n))
		for i := range n {
			e.held(k.held.At(i))
		}
		if !k.alerts.empty() {
			e.alerts(s, k)
		}
		if k.summarised() {
			e.summaries(s, k)
		}
	}
	return e.B
}
