package keystate

import "odradek/processor/keystate/mismatch"

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
