package anomaly

import (
	"errors"
	"fmt"
)

// Policy says when an anomaly opens, is updated, and closes.
type Policy struct {
	OpenAfter   int     // samples in a row over the threshold that open one, at least 1
	CloseAfter  int     // samples in a row under it that close one, at least 1
	Release     float64 // under means below Release times the threshold, in (0, 1]
	MinDuration int64   // microseconds of event time over the threshold before one opens
	MergeGap    int64   // microseconds within which a next finding belongs to the same anomaly
	UpdateEvery int     // samples between two updates of an open one; 0: UpdateAfter alone decides
	UpdateAfter int64   // microseconds between the ends that two successive updates report, at least; 0: none is due by time
	UpdateShare float64 // of the anomaly's duration, or of its samples, that must be new for an update; 0: UpdateAfter is all
	Recurring   uint8   // the highest severity of an anomaly that recurs; 0: as any
}

// The default updates: an open anomaly's duration and number of samples are published to within a tenth once it is older than ten times
// the least time.
const (
	DefaultUpdateAfter = int64(60e6)
	DefaultUpdateShare = 0.1
)

// Check returns all faults of p at once.
func (p *Policy) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("anomaly: "+format, args...))
	}
	if p.OpenAfter < 1 || p.OpenAfter > most {
		bad("%d samples to open, use 1 to %d", p.OpenAfter, most)
	}
	if p.CloseAfter < 1 || p.CloseAfter > most {
		bad("%d samples to close, use 1 to %d", p.CloseAfter, most)
	}
	if !(p.Release > 0 && p.Release <= 1) {
		bad("release %v must be above 0 and at most 1", p.Release)
	}
	if p.MinDuration < 0 || p.MergeGap < 0 {
		bad("the least duration and the merged gap must not be negative")
	}
	if p.UpdateAfter < 0 || !(p.UpdateShare >= 0 && p.UpdateShare <= 1) || p.UpdateShare > 0 && p.UpdateAfter == 0 {
		bad("an update every %d microseconds or %v of the age", p.UpdateAfter, p.UpdateShare)
	}
	if p.Recurring > 100 {
		bad("severity %d of an anomaly that recurs, use at most 100", p.Recurring)
	}
	if p.UpdateEvery < 0 || p.UpdateEvery > most {
		bad("an update every %d samples, use 0 to %d", p.UpdateEvery, most)
	}
	return errors.Join(errs...)
}

const most = 1 << 30

// most returns the highest severity of an anomaly that recurs.
func (p *Policy) most() uint8 {
	if p.Recurring == 0 {
		return 100
	}
	return p.Recurring
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
	Evicted                       // the key was evicted to make room
	Expired                       // the key had no sample for its time to live
	DetectorRemoved               // its detector is not configured any more, or not in the mode in which it opened
	Reset                         // its detector's state was discarded
	Moved                         // the key has moved to another partition of a topic that grew
)

// Anomaly is an anomaly as of its last change.
type Anomaly struct {
	ID       [16]byte
	Fault    [16]byte // id of the anomaly that was the first of its fault to open: its own, until SetFault
	Revision uint32   // 1 when opened, then one more at each change
	Severity uint8    // the highest so far, 0 to 100
	Samples  uint32   // over the threshold so far

	// Event times in microseconds: of the first sample that deviates (Deviation.From) and of the last that a score covers, of
	// the sample that deviates most of those that the highest score covers, which is between these two,
	// and of the sample that opened it.
	Start, End, PeakTime, OpenedAt int64

	// Of the peak: its score, the threshold when it was judged, and its upper-tail rank
	// in the history then, 0 where there is none.
	PeakScore, Threshold, Rank float32

	// At PeakTime, or at the time of its leader, for each value of the row; nil for a detector without them.
	Expected, Actual, Contribution []float64

	Spread  float64 // how far readings of the field that contributes most usually are from what is expected; 0: not known
	Side    Side    // as Deviation.Side, of the highest score when the anomaly opened, or so far
	Carrier string  // of an ensemble that sums: the member that has these values; empty: they are the members' shares

	Range  *Range  // of a value field; nil: not known. Replaced, never changed
	Leader *Leader // of an ensemble of any; nil: none. Replaced, never changed
	Region *Region // of the last score over the threshold; nil: it is about none. Replaced, never changed
	Group  *Group  // that it belongs to; nil: none. Replaced, never changed
	Like   *Like   // false alarms that it resembles, so that its severity is 0; nil: none. Replaced, never changed

	Recurs *Recurrence // nil: it does not. Replaced, never changed

	Escalation *Escalation // to its present band of severity; nil: it has had that since its first score. Replaced, never changed

	// Shadow says that its detector was in shadow mode when it opened: all of its changes are published apart.
	Shadow bool
}

// Escalation is the part of an anomaly from its first score of its present band of severity on.
type Escalation struct {
	Start, Peak int64 // as Anomaly's Start and PeakTime
	Since       int64 // event time of the sample with that score
}

// Change is one step in the life of an anomaly.
type Change struct {
	Kind    Kind
	Reason  Reason // of a Close
	Time    int64  // event time of what caused it: a sample, or the watermark
	Offset  int64  // of that record
	Anomaly Anomaly
}
