package state

import (
	"math"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// Export appends the logical state to dst: equal bytes mean equal states, whether folded, rolled back or
// restored. What belongs to this process or to the changelog (ring sizes,
// dirty keys, segments, evictions) is not in it. It serves comparisons, in tests and by hand;
// there is no import.
func (s *State) Export(dst []byte) []byte {
	e := changelog.Encoder{B: dst}
	w := series.Writer{Encoder: &e}
	e.Byte(changelog.Version)
	e.Int(s.maxTime)
	e.Uint(s.records.Format().Layout)
	list := s.Suspects.votes.List()
	e.Uint(uint64(len(list)))
	for i := range list {
		u := &list[i]
		votes, agree := u.Votes()
		e.Int(u.Offset)
		e.Int(u.Time)
		e.Byte(votes)
		e.Byte(agree)
		for _, sm := range append([]attached{u.Sample}, u.More...) {
			e.Int(sm.Time)
			e.Uint(uint64(len(sm.Key)))
			e.B = append(e.B, sm.Key...)
			for _, v := range sm.Values {
				e.Bits(math.Float64bits(v))
			}
		}
	}
	all := make([]*Key, 0, s.Keys.Len())
	for k := range s.Keys.All {
		all = append(all, k)
	}
	slices.SortFunc(all, series.ByName)
	e.Uint(uint64(len(all)))
	for _, k := range all {
		e.Uint(uint64(len(k.Name())))
		e.B = append(e.B, k.Name()...)
		e.Int(k.Born)
		e.Int(k.LastOffset)
		e.Int(k.LastTime)
		w.Content(&k.Series)
		n := k.Held.Len()
		e.Uint(uint64(n))
		for i := range n {
			appendHeld(&e, k.Held.At(i))
		}
		if n > 0 && k.Held.Behind != 0 {
			e.Int(k.Held.Behind)
		}
		if !k.Alerts.Empty() {
			w.Alerts(&k.Series)
		}
		if k.Alerts.Summarised() {
			w.Summaries(&k.Series)
		}
		if k.Alerts.HasScoreStates() {
			w.ScoreStates(&k.Series)
		}
		if k.Former.Any() {
			w.Former(&k.Series)
		}
		if k.Interval.Any() {
			w.Interval(&k.Series)
		}
	}
	return e.B
}

// appendHeld appends a held sample: time, offset and values.
func appendHeld(e *changelog.Encoder, w []uint64) {
	e.Int(int64(w[0]))
	e.Int(int64(w[1]))
	for _, v := range w[2:] {
		e.Bits(v)
	}
}
