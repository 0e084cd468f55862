package state

import "odradek/processor/state/changelog"

// Errors of changelog records, and how errors name a series.
var (
	// ErrCorrupt is in the error for changelog records that are not what a Snapshot
	// emits, or not all of it.
	ErrCorrupt = changelog.ErrCorrupt
	// ErrNewer is in the error for changelog records that a newer version wrote.
	ErrNewer = changelog.ErrNewer
	// ErrOlder is in the error for changelog records in a format that is not read any more.
	ErrOlder = changelog.ErrOlder
)

// Digest names a series in errors; see changelog.Digest.
func Digest(key []byte) string { return changelog.Digest(key) }
