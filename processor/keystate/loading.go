package keystate

import (
	"fmt"
	"slices"

	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/heldblock"
	"odradek/processor/keystate/series"
)

// restore holds what a state is restored from: a changelog, and the replay of the input behind it.
type restore struct {
	load      *loading
	drops     func(name []byte) bool // keys that are not loaded; nil: none
	dropped   []*Key                 // keys that were not loaded, until their evictions are committed
	shedAt    int64                  // offset of the last decision to drop keys
	replaying bool
	replayEnd int64
	replayed  int
	ahead     int64 // the largest asOf of a key
}

// loading holds what is needed while the changelog is loaded.
type loading struct {
	fragments changelog.Fragments                  // of heads that have not come
	staged    map[string][]series.StoredSegment    // by name: segments since the last head
	blocks    map[string]map[heldblock.Name][]byte // by name: those of held samples
	mismatch  map[*Key][]Mismatch                  // content of the last head that another configuration made
	rewrite   map[*Key]struct{}                    // keys with such content, to be written again
	broken    map[*Key]broken                      // keys whose last head is not complete
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

func newLoading() *loading {
	return &loading{
		fragments: changelog.NewFragments(), staged: map[string][]series.StoredSegment{}, blocks: map[string]map[heldblock.Name][]byte{},
		mismatch: map[*Key][]Mismatch{}, rewrite: map[*Key]struct{}{}, broken: map[*Key]broken{},
	}
}

// unstage discards the segments that wait for a head.
func (l *loading) unstage(name []byte) {
	for i := range l.staged[string(name)] {
		l.bytes -= l.staged[string(name)][i].Size()
	}
	delete(l.staged, string(name))
}

// addHeldBlock stores a block as long as heads may name it.
func (l *loading) addHeldBlock(name, value []byte, first, sum uint64) error {
	blocks := l.blocks[string(name)]
	if value == nil {
		delete(blocks, heldblock.Name{First: first, Sum: sum})
		return nil
	}
	if heldblock.Sum(value) != sum {
		return fmt.Errorf("its content is not what its name says: %w", ErrCorrupt)
	}
	if blocks == nil {
		blocks = map[heldblock.Name][]byte{}
		l.blocks[string(name)] = blocks
	}
	blocks[heldblock.Name{First: first, Sum: sum}] = slices.Clone(value)
	return nil
}

// mismatched notes that loaded content of a key comes from another configuration.
func (l *loading) mismatched(k *Key, m Mismatch) {
	if list := l.mismatch[k]; !slices.Contains(list, m) {
		l.mismatch[k] = append(list, m)
	}
	l.rewrite[k] = struct{}{}
}
