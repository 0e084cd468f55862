package keystate

import (
	"cmp"
	"fmt"
	"slices"

	"odradek/processor/events"
	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/series"
)

// Survey measures a changelog without building its state: it finds which keys fit
// into a limit where all of them do not. It takes about 50 bytes a key.
type Survey struct {
	s    *State // for detector sets and hashes
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

// NewSurvey begins one.
func NewSurvey(cfg *Config) *Survey {
	return &Survey{s: New(cfg), keys: map[uint64]surveyed{}, histories: map[string]int{}}
}

// Add takes a record as Load does. What is wrong with one is Load's to say.
func (v *Survey) Add(key, value []byte) {
	kind, name, suffix, err := changelog.SplitKey(key)
	if err == nil && kind == changelog.Decision && value != nil && len(name) > 0 && Kind(name[0]) == Thresholds {
		v.addRule(string(name[1:]), value)
	}
	if err != nil || kind != changelog.Head && kind != changelog.Fragment && kind != changelog.Segment {
		return
	}
	h := v.s.keys.hash(name)
	e := v.keys[h]
	switch {
	case value == nil:
		if kind == changelog.Head {
			delete(v.keys, h)
		}
		return
	case kind == changelog.Segment:
		e.segments += int64(len(value))
	case kind == changelog.Fragment && !changelog.FirstFragment(suffix[0]):
		e.segments += int64(len(value))
	default: // a head, or its first fragment: the last offset is the body's first number
		d := newDecoder(value)
		d.startHead()
		fragments, _, _ := d.Small(), d.Offset(), d.Offset()
		if kind == changelog.Fragment || fragments < changelog.Generations {
			e.last = d.Int()
		}
		e.size = v.size(name, int64(len(value)), e.segments)
	}
	v.keys[h] = e
}

// size estimates the memory of a key from the bytes of its records. Rows take up
// to twice as much in memory as in the log, but never more than a full window; a
// threshold's history has its final size from the first score on.
func (v *Survey) size(name []byte, head, segments int64) int64 {
	set := v.s.sets.For(name)
	if set == nil {
		return keyBytes + head
	}
	full, alerts := int64(0), series.NewAlerts(set.Judged).Size()
	for d := range set.All {
		if d.Traced {
			alerts += series.TraceBytes + 8*int64(d.TraceSize())
		}
		if d.Judged {
			alerts += 4 * int64(max(d.Threshold.Size(), v.histories[d.Name]))
		}
	}
	for i := range set.Windows {
		sw := &set.Windows[i]
		full += 8 * (int64(sw.Need)*int64(1+len(sw.Columns)) + int64(sw.Tail))
	}
	return int64(keyBytes+set.Fixed+len(name)) + alerts + min(2*(head+segments), full+head)
}

// addRule takes a threshold that was in force.
func (v *Survey) addRule(name string, value []byte) {
	dec := newDecoder(value)
	dec.Byte()
	dec.Uint()
	if dec.Bad {
		return
	}
	if r, err := decisions.DecodeRule(dec.B); err == nil {
		v.histories[name] = max(v.histories[name], r.Size())
	}
}

// Cut drops the least recently used keys, by what their heads say, so that the rest
// is estimated to fit into limit. It returns how many stay and how many go.
func (v *Survey) Cut(limit int64) (keep, drop int) {
	list := make([]surveyed, 0, len(v.keys))
	for _, e := range v.keys {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b surveyed) int { return cmp.Compare(b.last, a.last) })
	for keep < len(list) && list[keep].size <= limit {
		limit -= list[keep].size
		keep++
	}
	v.cut = NoTime
	if keep < len(list) {
		v.cut = list[keep].last + 1
	}
	return keep, len(list) - keep
}

func (v *Survey) drops(name []byte) bool {
	e, ok := v.keys[v.s.keys.hash(name)]
	return ok && e.last < v.cut
}

// DropLoaded says before the first Load which keys there is no room for. Of these
// nothing is loaded but what their eviction needs: what the changelog has of them,
// and the anomalies that are open. They take no samples, and Shed evicts them.
func (s *State) DropLoaded(v *Survey) { s.restore.drops = v.drops }

// strip takes what a dropped key does not need out of it.
func (s *State) strip(k *Key) {
	k.Clear()
	for i := range k.Progress {
		k.Progress[i] = series.Progress{}
	}
	k.held = nil
	if a := k.Alerts; a != nil {
		open := a.Silent != nil || len(a.Orphans) > 0
		for i := range a.Detectors {
			a.Detectors[i].History = nil
			open = open || a.Detectors[i].Events.Open()
		}
		if a.Summaries, a.Traces = nil, nil; !open {
			k.Alerts = nil
		}
	}
	k.dropped = true
	delete(s.restore.load.broken, k)
	delete(s.restore.load.mismatch, k)
	delete(s.restore.load.rewrite, k)
}

// LeftOut is the part of Bytes that dropped keys take while loading.
func (s *State) LeftOut() int64 {
	if s.restore.load == nil {
		return 0
	}
	return s.restore.load.leftOut
}

// Dropped is the number of keys that wait for Shed.
func (s *State) Dropped() (n int) {
	for _, k := range s.restore.dropped {
		if !k.dead {
			n++
		}
	}
	return n
}

// Shed evicts the keys that were dropped while loading, before the record at offset,
// as Trim does. After a Rollback it has to be called again.
func (s *State) Shed(offset int64) (n int) {
	if s.restore.replaying || offset < s.next {
		panic(fmt.Sprintf("keystate: Shed at %d during replay, or behind %d, which is folded", offset, s.next-1))
	}
	for _, k := range s.restore.dropped {
		if k.dead {
			continue
		}
		if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
			s.closeOrphansOf(k, s.maxTime, offset)
			s.orphaned = slices.DeleteFunc(s.orphaned, func(o *Key) bool { return o == k })
		}
		s.evict(k, offset, events.Evicted)
		n++
	}
	s.restore.shedAt = offset
	return n
}

// findDropped lists the dropped keys when loading ends.
func (s *State) findDropped() {
	for k := range s.keys.all {
		if k.dropped {
			s.restore.dropped = append(s.restore.dropped, k)
		}
	}
	slices.SortFunc(s.restore.dropped, func(a, b *Key) int {
		return cmp.Or(cmp.Compare(a.LastOffset, b.LastOffset), cmp.Compare(string(a.Name()), string(b.Name())))
	})
}
