package state

import "odradek/processor/state/checkpoint"

// Differences between the configuration and the one that stored state was made by.
type (
	// Mismatch is one difference; see checkpoint.Mismatch.
	Mismatch = checkpoint.Mismatch
	// MismatchError is ErrMismatch with all differences; see checkpoint.MismatchError.
	MismatchError = checkpoint.MismatchError
)

// ErrMismatch reports that the state was made by another configuration. Config.DropMismatched
// drops just what the change covers.
var ErrMismatch = checkpoint.ErrMismatch
