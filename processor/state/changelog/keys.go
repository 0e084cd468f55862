// Package changelog encodes and decodes the records of a changelog: their keys, and the
// numbers in their values. Package state defines the content of the values.
package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt reports changelog records that no Snapshot has emitted, or of which some are
// missing.
var ErrCorrupt = errors.New("the changelog is damaged")

// ErrNewer reports changelog records that a newer version wrote.
var ErrNewer = errors.New("a newer version of the program wrote it: run that one, or reset the state")

// ErrOlder reports changelog records in a format that this version does not read any more.
var ErrOlder = errors.New("an older version of the program wrote it, in a format that this one does not read: reset the state")

// Types of changelog records: the first byte of the key.
const (
	Head     = 'H'
	Fragment = 'P' // of a head that is too large for one record
	Segment  = 'S'
	Eviction = 'E'
	Held     = 'B'
	Decision = 'D' // its name is the kind, a byte, and the subject
)

// suffixes returns the number of 8-byte numbers, big-endian, that follow the name.
func suffixes(kind byte) int {
	switch kind {
	case Fragment, Decision:
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

// SplitKey splits a key that AppendKey made.
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
	return 0, nil, suffix, fmt.Errorf("changelog: key %s: %w", Digest(key), ErrCorrupt)
}
