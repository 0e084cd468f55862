package series

import (
	"bytes"
	"cmp"
)

// This file holds the series keys of a partition: the state of one (Key), the table that finds it by
// its name (KeyTable), the keys with changes that no snapshot has (DirtyQueue), and those that the next
// snapshot must contain (ChangedKeys).

// Key is the state of one series key.
type Key struct {
	Tag  uint32 // the caller's; 0 at first, not part of the state
	Last int32  // the caller's, as Tag
	Unit uint32 // the undo unit that has a copy of the head, its lower half

	Series
	Held *HeldSamples[*Key] // samples that wait for the watermark; nil: none

	since      int64  // where dirty: the mark before the first change that no snapshot has
	AsOf       int64  // offsets below are in the state; where it was loaded
	Fragments  uint16 // of its head in the changelog
	Generation uint8  // of these fragments
	dirty      bool
	InLog      bool // has a head in the changelog
	Dead       bool // evicted or undone; only journal and pending rows still know it
	changed    bool // in ChangedKeys
	Dropped    bool // while loading, because it does not fit into memory
}

// KeyOverhead is the size of a Key, with its slot in the table; TestSizes compares it.
const KeyOverhead = 192 + 32 + 8

// NewKey makes a key without samples that is in no table.
func NewKey(name []byte, set *Set) *Key {
	// One allocation for the usual key of one window and one detector.
	one := &struct {
		Key
		w [1]Window
		m [1]Progress
	}{}
	if len(set.Windows) == 1 && set.Detectors == 1 {
		one.Init(name, set, one.w[:], one.m[:])
		return &one.Key
	}
	k := new(Key)
	k.Init(name, set, make([]Window, len(set.Windows)), make([]Progress, set.Detectors))
	return k
}

// Size estimates the memory of the key.
func (k *Key) Size() int64 { return KeyOverhead + k.Series.Size() + k.Held.Bytes() }

// Newest returns the time of the key's newest sample, folded or held.
func (k *Key) Newest() int64 {
	if k.Held.Len() > 0 {
		return max(k.LastTime, k.Held.Newest())
	}
	return k.LastTime
}

// Silent reports whether a silence of the key is open.
func (k *Key) Silent() bool { return k.Alerts != nil && k.Alerts.Silent != nil }

// Dirty returns the mark since which the key has changes that no snapshot has, if it has any.
func (k *Key) Dirty() (since int64, dirty bool) { return k.since, k.dirty }

// SetDirty marks the key dirty since a mark. DirtyQueue.Rebuild has to follow.
func (k *Key) SetDirty(since int64) { k.dirty, k.since = true, since }

// AppendPlaces appends to dst what RestorePlaces needs: everything of the key but rows, carries and held samples. That is the last
// offset and time, what transforms remember, the open interval, and how far windows and detectors are.
func (k *Key) AppendPlaces(dst []uint64) []uint64 {
	dirty := uint64(0)
	if k.dirty {
		dirty = 1
	}
	dst = append(dst, uint64(k.since), dirty, uint64(k.LastOffset), uint64(k.LastTime))
	if k.Former != nil || k.Interval != nil {
		dst = k.appendInterval(k.appendFormer(dst))
	}
	for i := range k.Windows {
		dst = append(dst, uint64(k.Windows[i].Count), uint64(k.Windows[i].Rows))
	}
	for i := range k.Set.Windows {
		sw := &k.Set.Windows[i]
		for j := range sw.Detectors {
			d := &sw.Detectors[j]
			n := k.Progress[d.Place].Fresh
			if dst = append(dst, uint64(n)); n > 0 {
				dst = append(dst, k.Windows[i].Fresh(sw, d)[:n]...)
			}
		}
	}
	return dst
}

// RestorePlaces restores what AppendPlaces has saved. Rows that were overwritten since are restored by themselves, before.
// DirtyQueue.Rebuild has to follow.
func (k *Key) RestorePlaces(w []uint64) {
	k.since, k.dirty, k.LastOffset, k.LastTime = int64(w[0]), w[1] != 0, int64(w[2]), int64(w[3])
	w = k.restoreInterval(k.restoreFormer(w[4:]))
	for i := range k.Windows {
		win := &k.Windows[i]
		if k.Set.Windows[i].Grid != nil {
			win.Count = int64(w[0])
		} else {
			win.unpush(win.Count - int64(w[0]))
		}
		win.Rows = int32(w[1])
		w = w[2:]
	}
	for i := range k.Set.Windows {
		sw := &k.Set.Windows[i]
		for j := range sw.Detectors {
			d := &sw.Detectors[j]
			n := int32(w[0])
			if k.Progress[d.Place].Fresh = n; n > 0 {
				copy(k.Windows[i].Fresh(sw, d), w[1:1+n])
			}
			w = w[1+n:]
		}
	}
}

// ByName compares keys by their names.
func ByName(a, b *Key) int { return bytes.Compare(a.Name(), b.Name()) }

// ByUse compares keys by their last sample, and keys of one sample by their names.
func ByUse(a, b *Key) int { return cmp.Or(cmp.Compare(a.LastOffset, b.LastOffset), ByName(a, b)) }
