package keystate

import (
	"bytes"
	"fmt"
	"slices"
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
	parts    map[string]map[uint64][]byte    // heads' parts whose head has not come
	staged   map[string][]staged             // by name: segments since the last head
	blocks   map[string]map[blockName][]byte // by name: those of held samples
	mismatch map[*Key][]Mismatch             // content of the last head that another configuration made
	rewrite  map[*Key]struct{}               // keys with such content, to be written again
	broken   map[*Key]broken                 // keys whose last head is not complete
	times    []uint64
	fresh    []uint64
	bytes    int64 // of parts and segments
	leftOut  int64 // bytes of dropped keys
}

// broken is a head with missing segments or parts. They may follow: after a cycle that
// was cut off, the next one wrote them again.
type broken struct {
	err   error
	value []byte
}

// staged is a segment that waits for the head that names it.
type staged struct {
	window, id  uint64
	born, first int64
	cols        int
	rows        []byte
}

// stagedBytes is the size of a staged without its rows.
const stagedBytes = 80

func newLoading() *loading {
	return &loading{
		parts: map[string]map[uint64][]byte{}, staged: map[string][]staged{}, blocks: map[string]map[blockName][]byte{},
		mismatch: map[*Key][]Mismatch{}, rewrite: map[*Key]struct{}{}, broken: map[*Key]broken{},
	}
}

// addPart keeps a part for its head.
func (l *loading) addPart(name, value []byte, i uint64) error {
	if i >= generations<<16 {
		return ErrCorrupt
	}
	p := l.parts[string(name)]
	l.bytes -= int64(len(p[i]))
	if value == nil {
		delete(p, i)
		return nil
	}
	if p == nil {
		p = map[uint64][]byte{}
		l.parts[string(name)] = p
	}
	p[i] = slices.Clone(value)
	l.bytes += int64(len(value))
	return nil
}

// assemble joins the parts of a head, each of which begins with the head's first bytes.
func (l *loading) assemble(name, start []byte, parts, gen, size int) ([]byte, error) {
	p := l.parts[string(name)]
	var body []byte
	for i := range parts {
		id := uint64(gen)<<16 | uint64(i)
		rest, ok := bytes.CutPrefix(p[id], start)
		if !ok {
			return nil, fmt.Errorf("part %d of its head is missing or of another head: %w", i, ErrCorrupt)
		}
		body = append(body, rest...)
	}
	if len(body) != size {
		return nil, fmt.Errorf("parts of its head have %d bytes, not %d: %w", len(body), size, ErrCorrupt)
	}
	return body, nil
}

// skipWindow skips the rest of a window that is not configured any more.
func (l *loading) skipWindow(d *decoder, cols int) {
	times := d.Times(l.times[:0], cols)
	l.times = times
	d.Skip(8 * cols * len(times))
}

// unstage discards the segments that wait for a head.
func (l *loading) unstage(name []byte) {
	for i := range l.staged[string(name)] {
		l.bytes -= int64(len(l.staged[string(name)][i].rows)) + stagedBytes
	}
	delete(l.staged, string(name))
}

// forgetParts discards the parts of a head that has been read.
func (l *loading) forgetParts(name []byte) {
	for _, p := range l.parts[string(name)] {
		l.bytes -= int64(len(p))
	}
	delete(l.parts, string(name))
}

// addHeldBlock keeps a block as long as heads may name it.
func (l *loading) addHeldBlock(name, value []byte, first, sum uint64) error {
	blocks := l.blocks[string(name)]
	if value == nil {
		delete(blocks, blockName{first, sum})
		return nil
	}
	if contentSum(value) != sum {
		return fmt.Errorf("its content is not what its name says: %w", ErrCorrupt)
	}
	if blocks == nil {
		blocks = map[blockName][]byte{}
		l.blocks[string(name)] = blocks
	}
	blocks[blockName{first, sum}] = slices.Clone(value)
	return nil
}

// mismatched notes that loaded content of a key comes from another configuration.
func (l *loading) mismatched(k *Key, m Mismatch) {
	if list := l.mismatch[k]; !slices.Contains(list, m) {
		l.mismatch[k] = append(list, m)
	}
	l.rewrite[k] = struct{}{}
}
