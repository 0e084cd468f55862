package rules

import "math"

// Kind says what a decision is about. The numbers are in changelogs and never
// change.
type Kind uint8

// The kinds. Numbers that are named in the comments are reserved.
const (
	// KindEviction forgets the series that is the subject, with its samples below the
	// offset. There is no content.
	KindEviction Kind = 1
	// KindMissingSchema sends records of the schema that is the subject to the dead-letter topic, because
	// the registry does not have it. The content is the reason that the dead
	// letters give. It is withdrawn when the registry has the schema after all.
	KindMissingSchema Kind = 2
	// KindGrown says that the input topic has got more partitions, so keys have moved from this
	// partition to others. The content is the number of partitions; there is one subject. The state of a key
	// without a sample from the offset on is a stale copy: its TTL evicts it, and its anomalies close
	// because the key has moved.
	KindGrown Kind = 3
	// KindThresholds sets how the scores of the detector that is the subject are judged, and which of
	// them make anomalies. The content is a ruling (Ruling).
	KindThresholds Kind = 4
	// KindMutes sets the rules that keep scores from becoming anomalies (mute.go). The content
	// is all rules in force; there is one subject.
	KindMutes Kind = 8
	// KindAdvance: nothing has come for long, and the largest event time is at least the content. One subject;
	// of several at one offset the last is in the changelog.
	KindAdvance Kind = 5
	// KindLearned sets the rules by which anomalies are like false alarms (learned.go). The content is all rules
	// in force; there is one subject.
	KindLearned Kind = 6
	// 7: a calendar.

	// KindReading sets how records are read, from which samples follow, and their order (Reading). One subject.
	KindReading Kind = 9

	NumKinds = 16 // none is as large
)

// BetweenRecords reports whether decisions of a kind may be committed with the offset at which they take effect, before
// a record of that offset: they are made while nothing of a record is folded.
func (k Kind) BetweenRecords() bool { return k == KindAdvance || k == KindReading }

// KindSpec is how decisions of one kind behave.
type KindSpec struct {
	Name     string // in errors; "": there is no such kind
	Standing bool   // holds until the next one of its subject
	Lapses   bool   // standing, and forgotten when a replay reads no record that it covers
	// Acts reports that a loaded decision changes the state at its offset, so that Next returns
	// it. The change must not depend on anything that undo does not restore.
	Acts bool
	// Read returns the Value of a loaded decision, or what is wrong with its content; nil:
	// any content is right, and there is no Value.
	Read func(content []byte) (value any, err error)
}

// KindTable has the specs of all kinds.
type KindTable [NumKinds]KindSpec

// Decision is a decision that a replay may need.
type Decision struct {
	Kind    Kind
	Subject []byte
	Content []byte
	Offset  int64
	// Value is the owner's: what it has made of the content, or of an eviction, the series
	// whose changelog records are to be deleted.
	Value any

	seq    uint64    // order of those at one offset
	asked  int64     // if it lapses: the offset after the last record that it was looked up for
	due    int64     // its place in Log.queue: no later than its end
	before *Decision // of the same kind and subject
}

// Before returns the decision of the same kind and subject before d; nil without one.
func (d *Decision) Before() *Decision { return d.before }

// Ask notes that d was looked up for the record at offset: until the floor has passed
// that record, d does not lapse.
func (d *Decision) Ask(offset int64) { d.asked = max(d.asked, offset+1) }

// undone is the offset of a decision that was taken back.
const undone = math.MaxInt64

// never is the due of a decision that nothing has superseded.
const never = math.MaxInt64
