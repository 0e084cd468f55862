package keystate

import (
	"bytes"
	"math"
	"slices"
)

// Export appends the logical state to dst: equal bytes mean equal state, however
// it came about. What belongs to this process or to the changelog (ring sizes,
// dirty keys, segments, evictions) is not in it. It is for tests and for people
// who compare; there is no import.
func (s *State) Export(dst []byte) []byte {
	e := encoder{dst}
	e.byte(version)
	e.int(s.maxTime)
	e.uint(s.layout)
	e.uint(uint64(len(s.jury.list)))
	for i := range s.jury.list {
		u := &s.jury.list[i]
		e.int(u.Offset)
		e.int(u.Time)
		e.byte(u.votes)
		e.byte(u.agree)
		e.uint(uint64(len(u.Key)))
		e.b = append(e.b, u.Key...)
		for _, v := range u.Values {
			e.bits(math.Float64bits(v))
		}
	}
	keys := make([]*Key, 0, s.keys.n)
	for k := range s.keys.all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *Key) int { return bytes.Compare(a.name, b.name) })
	e.uint(uint64(len(keys)))
	for _, k := range keys {
		e.uint(uint64(len(k.name)))
		e.b = append(e.b, k.name...)
		e.int(k.born)
		e.int(k.lastOffset)
		e.int(k.lastTime)
		for i := range k.wins {
			w, sw := &k.wins[i], &k.shape.wins[i]
			e.bits(s.cfg.Windows[sw.index].Fingerprint)
			e.int(w.count)
			e.rows(w, len(sw.cols), w.count-int64(w.rows), w.count)
			for j := range sw.dets {
				d := &sw.dets[j]
				e.mark(w, sw, d, &k.marks[d.mark])
			}
		}
		n := k.held.Len()
		e.uint(uint64(n))
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
	return e.b
}
