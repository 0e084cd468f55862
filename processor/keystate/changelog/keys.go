// Package changelog is how the records of a changelog are written: their keys, and the
// numbers of their values. What a value says is the matter of package keystate.
package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt is in the error for changelog records that are not what a Snapshot
// emits, or not all of it.
var ErrCorrupt = errors.New("the changelog is damaged")

// ErrNewer is in the error for changelog records that a newer version wrote.
var ErrNewer = errors.New("a newer version of the program wrote it: run that one, or reset the state")

// Types of changelog records: the first byte of the key.
const (
	Head     = 'H'
	Part     = 'P'
	Segment  = 'S'
	Eviction = 'E'
	Held     = 'B'
	Decision = 'D' // its name is the kind, a byte, and the subject
)

// suffixes is how many numbers of 8 bytes, big-endian, follow the name.
func suffixes(kind byte) int {
	switch kind {
	case Part, Decision:
		return 1
	case Segment, Held:
		return 2
	}
	return 0
}

// AppendKey appends the key of a record: its type, the name and the numbers.
func AppendKey(dst []byte, kind byte, name []byte, suffix ...uint64) []byte {
	dst = append(append(dst, kind), name...)
	for _, n := range suffix {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// SplitKey is the opposite of AppendKey.
func SplitKey(key []byte) (kind byte, name []byte, suffix [2]uint64, err error) {
	if len(key) > 0 {
		kind = key[0]
		n := suffixes(kind)
		if end := len(key) - 8*n; end >= 1 {
			for i := range n {
				suffix[i] = binary.BigEndian.Uint64(key[end+8*i:])
			}
			return kind, key[1:end], suffix, nil
		}
	}
	return 0, nil, suffix, fmt.Errorf("keystate: changelog key %s: %w", Digest(key), ErrCorrupt)
}
