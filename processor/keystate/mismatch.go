package keystate

import (
	"fmt"
	"hash/fnv"

	"odradek/processor/keystate/mismatch"
)

// Differences between the configuration and the one that stored state was made by.
type (
	// Mismatch is one difference; see mismatch.Mismatch.
	Mismatch = mismatch.Mismatch
	// MismatchError is ErrMismatch with all differences; see mismatch.Error.
	MismatchError = mismatch.Error
)

// ErrMismatch reports that the state was made by another configuration. Config.DropMismatched
// drops just what the change covers.
var ErrMismatch = mismatch.Err

// Layout returns the fingerprint of Sample.Values, which held samples carry.
func (c *Config) Layout() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, c.Dim)
	for _, w := range c.Windows {
		fmt.Fprint(h, ";", w.Fingerprint, w.Columns)
	}
	if c.SampleBits > 0 {
		fmt.Fprint(h, ";several")
	}
	return h.Sum64()
}
