// Package load reads the keys of a partition from its changelog: the opposite of package snapshot. Which keys have
// to be complete, and what the input behind the changelog adds to them, is the caller's to know.
package load

import (
	"cmp"
	"fmt"
	"slices"

	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/heldblock"
	"odradek/processor/keystate/keys"
	"odradek/processor/keystate/mismatch"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/snapshot"
)

// Target is what a Loader fills.
type Target struct {
	Keys      *keys.Table
	Records   *snapshot.Writer
	Decisions *decisions.Log
}

// Loader reads the records of a changelog.
type Loader struct {
	to      Target
	sets    *series.Sets
	silence bool // the configuration asks for events of silence
	drops   func(name []byte) bool

	fragments changelog.Fragments                  // of heads that have not come
	staged    map[string][]series.StoredSegment    // by name: segments since the last head
	blocks    map[string]map[heldblock.Name][]byte // by name: those of held samples
	mismatch  map[*keys.Key][]mismatch.Mismatch    // content of the last head that another configuration made
	rewrite   map[*keys.Key]struct{}               // keys with such content, to be written again
	broken    map[*keys.Key]broken                 // keys whose last head is not complete
	head      series.Reader
	bytes     int64 // of segments
	leftOut   int64 // bytes of dropped keys
}

// broken is a head with missing segments or fragments. They may follow: after a cycle that
// was cut off, the next one wrote them again.
type broken struct {
	err   error
	value []byte
}

// New returns a Loader for the series that sets has detectors for. drops reports the keys of which only
// what their eviction needs is loaded; nil: none.
func New(to Target, sets *series.Sets, silence bool, drops func(name []byte) bool) *Loader {
	return &Loader{
		to: to, sets: sets, silence: silence, drops: drops,
		fragments: changelog.NewFragments(), staged: map[string][]series.StoredSegment{}, blocks: map[string]map[heldblock.Name][]byte{},
		mismatch: map[*keys.Key][]mismatch.Mismatch{}, rewrite: map[*keys.Key]struct{}{}, broken: map[*keys.Key]broken{},
	}
}

// Load reads a record. value is nil for a deletion. Load retains neither slice.
func (l *Loader) Load(key, value []byte) error {
	kind, name, suffix, err := changelog.SplitKey(key)
	if err != nil {
		return err
	}
	switch kind {
	case changelog.Head:
		err = l.loadHead(name, value)
	case changelog.Fragment:
		err = l.fragments.Add(name, value, suffix[0])
	case changelog.Segment:
		err = l.loadSegment(name, value, suffix[0], suffix[1])
	case changelog.Held:
		err = l.addHeldBlock(name, value, suffix[0], suffix[1])
	case changelog.Eviction:
		err = l.to.Decisions.LoadEviction(name, value)
	case changelog.Decision:
		err = l.to.Decisions.Load(name, value, suffix[0])
	default:
		err = fmt.Errorf("type %q: %w", kind, changelog.ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("keystate: changelog record %c of key %s: %w", kind, changelog.Digest(name), err)
	}
	return nil
}

// Finish reads the heads again that were not complete, with all that has followed them.
func (l *Loader) Finish() error {
	for k, b := range l.broken {
		if err := l.loadHead(k.Name(), b.value); err != nil {
			return fmt.Errorf("keystate: changelog record H of key %s: %w", changelog.Digest(k.Name()), err)
		}
	}
	return nil
}

// Incomplete returns why the key's last head is not complete, after Finish; nil if it is.
func (l *Loader) Incomplete(k *keys.Key) error { return l.broken[k].err }

// Mismatches returns the content of the key's last head that another configuration made.
func (l *Loader) Mismatches(k *keys.Key) []mismatch.Mismatch { return l.mismatch[k] }

// Rewritten visits the keys that have to be written again.
func (l *Loader) Rewritten(yield func(*keys.Key) bool) {
	for k := range l.rewrite {
		if !yield(k) {
			return
		}
	}
}

// Bytes is the memory of what waits for its head.
func (l *Loader) Bytes() int64 { return l.bytes + l.fragments.Bytes }

// LeftOut is the memory of keys that are dropped.
func (l *Loader) LeftOut() int64 { return l.leftOut }

// Unload removes a key, and returns the records of it that are in the changelog beside its head.
func (l *Loader) Unload(k *keys.Key) (stale []snapshot.Record) {
	stale = l.to.Records.Stale(k)
	l.removeHeld(k)
	if k.Dropped {
		l.leftOut -= k.Size()
	}
	l.to.Keys.Delete(k)
	k.Dead = true
	k.Release()
	l.forget(k)
	return stale
}

// forget forgets what was found of a key's last head.
func (l *Loader) forget(k *keys.Key) {
	delete(l.mismatch, k)
	delete(l.rewrite, k)
	delete(l.broken, k)
	l.to.Records.Forget(k)
}

// removeHeld removes the key's held samples.
func (l *Loader) removeHeld(k *keys.Key) {
	l.to.Keys.Bytes -= k.Held.Bytes()
	k.Held = nil
}

// loadSegment stages a segment until a head names it: segments of a cycle that was
// cut off before its head (at least once) must not get into the window.
func (l *Loader) loadSegment(name, value []byte, window, id uint64) error {
	if value == nil || l.dropped(name) {
		return nil // the heads name the segments that count
	}
	g, err := series.ReadSegment(value, series.SegmentName{Window: window, ID: id})
	if err != nil {
		return err
	}
	l.bytes += g.Size()
	l.staged[string(name)] = append(l.staged[string(name)], g)
	return nil
}

// dropped reports whether there is no room for a key.
func (l *Loader) dropped(name []byte) bool { return l.drops != nil && l.drops(name) }

// unstage discards the segments that wait for a head.
func (l *Loader) unstage(name []byte) {
	for i := range l.staged[string(name)] {
		l.bytes -= l.staged[string(name)][i].Size()
	}
	delete(l.staged, string(name))
}

// addHeldBlock stores a block as long as heads may name it.
func (l *Loader) addHeldBlock(name, value []byte, first, sum uint64) error {
	blocks := l.blocks[string(name)]
	if value == nil {
		delete(blocks, heldblock.Name{First: first, Sum: sum})
		return nil
	}
	if heldblock.Sum(value) != sum {
		return fmt.Errorf("its content is not what its name says: %w", changelog.ErrCorrupt)
	}
	if blocks == nil {
		blocks = map[heldblock.Name][]byte{}
		l.blocks[string(name)] = blocks
	}
	blocks[heldblock.Name{First: first, Sum: sum}] = slices.Clone(value)
	return nil
}

// mismatched notes that loaded content of a key comes from another configuration.
func (l *Loader) mismatched(k *keys.Key, m mismatch.Mismatch) {
	if list := l.mismatch[k]; !slices.Contains(list, m) {
		l.mismatch[k] = append(list, m)
	}
	l.rewrite[k] = struct{}{}
}

// strip takes what a dropped key does not need out of it.
func (l *Loader) strip(k *keys.Key) {
	k.Clear()
	for i := range k.Progress {
		k.Progress[i] = series.Progress{}
	}
	k.Held = nil
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
	k.Dropped = true
	delete(l.broken, k)
	delete(l.mismatch, k)
	delete(l.rewrite, k)
}

// stored returns the segments of a key that wait for its head, in order of window and number.
func (l *Loader) stored(name []byte) []series.StoredSegment {
	list := l.staged[string(name)]
	slices.SortStableFunc(list, func(a, b series.StoredSegment) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.ID, b.ID))
	})
	return list
}
