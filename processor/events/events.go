// Package events turns judged scores of one key and detector into anomalies:
// opened, updated, closed. It is pure.
package events

// Rule says when an anomaly opens, is told of again, and closes.
type Rule struct {
	OpenAfter   int     // samples in a row over the threshold that open one, at least 1
	CloseAfter  int     // samples in a row under it that close one, at least 1
	Release     float64 // under means below Release times the threshold, in (0, 1]
	MinDuration int64   // microseconds of event time over the threshold before one opens
	MergeGap    int64   // microseconds within which a next finding belongs to the same anomaly
	UpdateEvery int     // samples between two updates of an open one; 0: only when its severity band rises
}

// Kind is what happened to an anomaly.
type Kind uint8

// The kinds of a Change.
const (
	Open Kind = iota
	Update
	Close
)

// Reason is why an anomaly was closed.
type Reason uint8

// The reasons of a Close.
const (
	Recovered       Reason = iota // the scores are ordinary again
	Evicted                       // the key was given up for another one
	Expired                       // the key had no sample for its time to live
	DetectorRemoved               // its detector is not configured any more
	Reset                         // its detector's state was given up
)

// Anomaly is what is known of an anomaly at a change.
type Anomaly struct {
	ID       [16]byte
	Revision uint32 // 1 when opened, then one more at each change
	Severity uint8  // the highest so far, 0 to 100
	Samples  uint32 // over the threshold so far

	// Event times in microseconds: of the first and the last sample it covers, of
	// the highest score, and of the sample that opened it.
	Start, End, PeakTime, OpenedAt int64

	PeakScore, Threshold float32 // threshold: when the peak was judged

	// At the peak, for each value of the row; nil where the detector does not know.
	Expected, Actual, Contribution []float32
}

// Change is one step in the life of an anomaly.
type Change struct {
	Kind    Kind
	Reason  Reason // of a Close
	Time    int64  // event time of what caused it: a sample, or the watermark
	Offset  int64  // of that record
	Anomaly Anomaly
}
