package checkpoint

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// This file measures a changelog without building its state: it finds which keys fit
// into a limit where all of them do not.

// Survey measures the keys of a changelog. It takes about 50 bytes a key.
type Survey struct {
	sets *series.Sets
	seed maphash.Seed
	keys map[uint64]surveyed
	// histories are the longest states, by detector, of the thresholds that were in
	// force: a key keeps one until its next score.
	histories map[string]int
	cut       int64 // keys last used before are dropped
}

// surveyed is a key, by the hash of its name. Two keys of one hash are one.
type surveyed struct {
	last     int64 // offset of its last sample, as of its last head
	segments int64 // bytes of its segments
	size     int64 // estimate of its memory
}

// NewSurvey returns a Survey for the series that sets has detectors for.
func NewSurvey(sets *series.Sets) *Survey {
	return &Survey{sets: sets, seed: maphash.MakeSeed(), keys: map[uint64]surveyed{}, histories: map[string]int{}}
}

// Add takes a record of the changelog; a nil value deletes. Faults of a record are reported when it is loaded.
func (s *Survey) Add(key, value []byte) {
	kind, name, suffix, err := changelog.SplitKey(key)
	if err == nil && kind == changelog.Decision && value != nil && len(name) > 0 && rules.Kind(name[0]) == rules.KindThresholds {
		s.addThreshold(string(name[1:]), value)
	}
	if err != nil || kind != changelog.Head && kind != changelog.Fragment && kind != changelog.Segment {
		return
	}
	h := s.hash(name)
	e := s.keys[h]
	switch {
	case value == nil:
		if kind == changelog.Head {
			delete(s.keys, h)
		}
		return
	case kind == changelog.Segment:
		e.segments += int64(len(value))
	case kind == changelog.Fragment && !changelog.FirstFragment(suffix[0]):
		e.segments += int64(len(value))
	default: // a head, or its first fragment: the last offset is the body's first number
		d := changelog.Decoder{B: value}
		start := d.HeadStart()
		if kind == changelog.Fragment || start.Fragments == 0 {
			e.last = d.Int()
		}
		e.size = s.size(name, int64(len(value)), e.segments)
	}
	s.keys[h] = e
}

// size estimates the memory of a key from the bytes of its records. Rows take up
// to twice as much in memory as in the log, but never more than a full window; a
// threshold's history has its final size from the first score on.
func (s *Survey) size(name []byte, head, segments int64) int64 {
	set := s.sets.For(name)
	if set == nil {
		return series.KeyOverhead + head
	}
	full, alerts := int64(0), series.NewAlerts(set.Judged).Size()
	for d := range set.All {
		if d.HasScoreState {
			alerts += series.ScoreStateBytes + 8*int64(d.ScoreStateSize())
		}
		if d.Judged {
			alerts += 4 * int64(max(d.Threshold.Size(), s.histories[d.Name]))
		}
	}
	for i := range set.Windows {
		sw := &set.Windows[i]
		full += 8 * (int64(sw.Need)*int64(1+len(sw.Columns)) + int64(sw.Tail))
	}
	return int64(series.KeyOverhead+set.Fixed+len(name)) + alerts + min(2*(head+segments), full+head)
}

// addThreshold takes a threshold that was in force.
func (s *Survey) addThreshold(name string, value []byte) {
	dec := changelog.Decoder{B: value}
	dec.Byte()
	dec.Uint()
	if dec.Bad {
		return
	}
	if r, err := rules.DecodeRuling(dec.B); err == nil {
		s.histories[name] = max(s.histories[name], r.Threshold.Size())
	}
}

// Cut drops the least recently used keys, by what their heads say, so that the rest
// is estimated to fit into limit. It returns how many stay and how many go.
func (s *Survey) Cut(limit int64) (keep, drop int) {
	list := make([]surveyed, 0, len(s.keys))
	for _, e := range s.keys {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b surveyed) int { return cmp.Compare(b.last, a.last) })
	for keep < len(list) && list[keep].size <= limit {
		limit -= list[keep].size
		keep++
	}
	s.cut = math.MinInt64
	if keep < len(list) {
		s.cut = list[keep].last + 1
	}
	return keep, len(list) - keep
}

// Drops reports whether Cut drops the key of a name.
func (s *Survey) Drops(name []byte) bool {
	e, ok := s.keys[s.hash(name)]
	return ok && e.last < s.cut
}

func (s *Survey) hash(name []byte) uint64 { return maphash.Bytes(s.seed, name) }
