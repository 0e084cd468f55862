// Package decisions records what a partition's owner decides once, live, because the input
// cannot say it, and everybody reads from the changelog from then on: which decisions hold
// at an offset, which have to be written to the changelog, and which no replay needs any
// more. The state of a partition is a fold of its samples and its decisions.
//
// A decision is an offset, a kind, a subject and a content.
//
//   - It takes effect before the record at its offset, and after everything about
//     the records below. There need not be a sample at that offset, nor a record.
//   - The content is whole: it says what holds from the offset on, not what is
//     different from before, so that no decision needs an earlier one.
//   - A decision of an instant (an eviction) acts once. A standing one (a verdict)
//     holds until a later one of its kind and subject; empty content withdraws
//     it, and what holds without any decision holds again.
//
// Its life:
//
//	Add        live, at an offset that nothing has been folded of. It is one step of
//	           the open undo unit: Undo takes it back, and what comes after is decided
//	           anew, perhaps otherwise.
//	Emit       writes it in the cycle that commits its offset, with everything it
//	           brings about.
//	Load       reads it, whatever compaction has left of the changelog.
//	Begin      ends loading. A decision at or above the committed offset is there where
//	           offset and changelog were read at different times, or, at least once,
//	           where its cycle was cut off; it is then not decided again but takes
//	           effect when its offset is reached.
//	Next       returns those of kinds that act on the state at their offsets, in the
//	           order in which they were made. InForce and Latest find the others.
//	Forget     deletes it from the changelog once no replay can need it: the committed
//	           floor has passed what it covers.
//
// What a decision covers ends
//
//   - for one of an instant at its offset: its effect is in snapshots, or is the
//     deletion of records, once the floor is above;
//   - for a standing one where the next of its subject takes effect;
//   - for a standing one of a kind that lapses behind the last record for which it
//     was asked for. If its subject comes up again, it is decided again.
//
// To add a kind, give it a number here, and a row in the Table of package keystate.
package decisions

import "math"

// Kind says what a decision is about. The numbers are in changelogs and never
// change.
type Kind uint8

// The kinds. Numbers that are named in the comments are reserved.
const (
	// Eviction: the series that is the subject is forgotten, and its samples below the
	// offset. There is no content.
	Eviction Kind = 1
	// Verdict: records of the schema that is the subject are condemned, because
	// the registry does not have it. The content is the reason that their dead
	// letters give. Withdrawn when the schema is there after all.
	Verdict Kind = 2
	// Grown: the input topic has been given more partitions, and keys have moved to
	// others than this one. The content is the number there is, one subject. Of a key
	// that has no sample from the offset on, what is here is a stale copy: it
	// leaves by TTL, and its anomalies close for that reason.
	Grown Kind = 3
	// Thresholds: scores of the detector that is the subject are judged by the
	// threshold that is the content.
	Thresholds Kind = 4
	// Mutes: scores that the rules in the content cover make no anomaly (package mute). The content
	// is all rules in force, and there is one subject.
	Mutes Kind = 8
	// 5: an advance of the watermark of an idle partition.
	// 6: feedback on an anomaly.
	// 7: a calendar.

	NumKinds = 16 // none is as large
)

// Rules are those of a kind.
type Rules struct {
	Name     string // in errors; "": there is no such kind
	Standing bool   // holds until the next one of its subject
	Lapses   bool   // standing, and forgotten when no record in reach was under it
	// Acts: a loaded decision does something to the state at its offset, and Next returns
	// it. What it does must not depend on what undo does not restore.
	Acts bool
	// Read returns the Value of a loaded decision, or what is wrong with its content; nil:
	// any content is right, and there is no Value.
	Read func(content []byte) (value any, err error)
}

// Table has the rules of all kinds.
type Table [NumKinds]Rules

// Decision is one of them while a replay may need it.
type Decision struct {
	Kind    Kind
	Subject []byte
	Content []byte
	Offset  int64
	// Value is the owner's: what it has made of the content, or of an eviction, the series
	// whose changelog records are to be deleted.
	Value any

	seq    uint64    // order of those at one offset
	asked  int64     // lapses: a record below was the last under it
	due    int64     // its place in Log.queue: no later than its end
	before *Decision // of the same kind and subject
}

// Before returns the decision of the same kind and subject before d; nil without one.
func (d *Decision) Before() *Decision { return d.before }

// Ask notes that d was asked for, for the record at offset: until the floor has passed
// that record, d does not lapse.
func (d *Decision) Ask(offset int64) { d.asked = max(d.asked, offset+1) }

// undone is the offset of a decision that was taken back.
const undone = math.MaxInt64

// never is the due of what nothing has superseded.
const never = math.MaxInt64
