// Package rules has the decisions of a partition's owner, and what they are about: evictions and the like, how records are read
// (Reading), and how scores are judged (rulings, guards, mutes and the rules learnt from labels).
//
// The owner decides once, live, what the input does not determine, and every later owner reads the decision from the
// changelog. The package knows which decisions hold at an offset, which have to be written to the changelog (codec.go), and which
// no replay needs any more. The state of a partition is a fold of its samples and its decisions.
//
// A decision is an offset, a kind, a subject and a content.
//
//   - It takes effect before the record at its offset, and after everything about
//     the records below. There need not be a sample at that offset, nor a record.
//   - The content is whole: it says what holds from the offset on, not what is
//     different from before, so that no decision needs an earlier one.
//   - A decision of an instant (an eviction) acts once. A standing one (a missing schema)
//     holds until a later one of its kind and subject; empty content withdraws
//     it, and what holds without any decision holds again.
//
// Its life:
//
//	Add        makes it, live, at an offset of which nothing has been folded. It is one step of
//	           the open undo unit: Undo reverts it, and the owner decides again after the
//	           rollback, perhaps differently.
//	Emit       writes it in the cycle that commits its offset, with everything it
//	           brings about.
//	Load       reads it, from what compaction has left of the changelog.
//	EndLoading ends loading. A decision at or above the committed offset is there where
//	           offset and changelog were read at different times, or, at least once,
//	           where its cycle was cut off; it is then not decided again but takes
//	           effect when its offset is reached.
//	Next       returns the decisions of kinds that act on the state at their offsets, in the
//	           order in which they were made. InForce and Latest find the others.
//	Forget     deletes it from the changelog once no replay can need it: the committed
//	           floor has passed what it covers.
//
// The offsets that a decision covers end
//
//   - for one of an instant, at its offset: once the floor is above, its effect is in snapshots, or is the
//     deletion of records;
//   - for a standing one, where the next of its subject takes effect;
//   - for a standing one of a kind that lapses, after the last record for which it
//     was looked up (Ask). If a record has its subject again, the owner decides again.
//
// To add a kind, give it a number in decisions.go and a row of kinds in decisions.go of package state and, if it acts on the state
// (KindSpec.Acts), a function in actions there.
package rules
