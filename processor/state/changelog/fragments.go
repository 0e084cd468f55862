package changelog

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// A head that is too large for one record is cut into fragments, each of which begins with
// the head's first bytes. Heads alternate between generations of fragments, so that one stays
// whole until the next is there.

// MaxFragments is the most fragments that a head can have.
const MaxFragments = math.MaxUint16

// Generations is the number of generations: in the changelog, and of cycles that
// were cut off or undone since.
const Generations = 16

// FragmentID returns the number of the i-th fragment of a generation, which ends its key.
func FragmentID(gen uint8, i int) uint64 { return uint64(gen)<<16 | uint64(i) }

// FirstFragment reports whether a number names the first fragment of its generation.
func FirstFragment(id uint64) bool { return id&MaxFragments == 0 }

// Fragments holds the fragments that wait for their heads, by name and number.
type Fragments struct {
	Bytes int64 // of the fragments

	names map[string]map[uint64][]byte
}

// NewFragments returns an empty one.
func NewFragments() Fragments { return Fragments{names: map[string]map[uint64][]byte{}} }

// Add adds a copy of a fragment; nil deletes it.
func (f *Fragments) Add(name, value []byte, id uint64) error {
	if id >= Generations*(MaxFragments+1) {
		return ErrCorrupt
	}
	m := f.names[string(name)]
	f.Bytes -= int64(len(m[id]))
	if value == nil {
		delete(m, id)
		return nil
	}
	if m == nil {
		m = map[uint64][]byte{}
		f.names[string(name)] = m
	}
	m[id] = slices.Clone(value)
	f.Bytes += int64(len(value))
	return nil
}

// Join returns the body of size bytes of a head, which is cut into n fragments of a
// generation. start is what each of them begins with.
func (f *Fragments) Join(name, start []byte, gen uint8, n, size int) ([]byte, error) {
	m := f.names[string(name)]
	var body []byte
	for i := range n {
		rest, ok := bytes.CutPrefix(m[FragmentID(gen, i)], start)
		if !ok {
			return nil, fmt.Errorf("fragment %d of its head is missing or of another head: %w", i, ErrCorrupt)
		}
		body = append(body, rest...)
	}
	if len(body) != size {
		return nil, fmt.Errorf("fragments of its head have %d bytes, not %d: %w", len(body), size, ErrCorrupt)
	}
	return body, nil
}

// Forget discards the fragments of a name.
func (f *Fragments) Forget(name []byte) {
	for _, value := range f.names[string(name)] {
		f.Bytes -= int64(len(value))
	}
	delete(f.names, string(name))
}
