// Package checkpoint writes the keys of a partition to its changelog and reads them: snapshots of keys with segments of held
// samples, the replay floor, and what the present configuration cannot take from an earlier one.
package checkpoint
