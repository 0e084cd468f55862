// Package anomaly turns judged scores of one key and detector into anomalies:
// opened, updated, closed. It is pure.
//
// # The life of an anomaly
//
// A score is over if it exceeds its threshold, and under if it does not and is
// at most Release times the threshold (for a threshold t < 0, t less the same
// share of its size). One between the two is neither: it ends a row of either
// kind. A score that is NaN changes nothing at all.
//
//	pending  a row of scores over has begun. Any score that is not over forgets it.
//	open     OpenAfter scores in the row, and MinDuration of event time since its
//	         first sample. The anomaly covers the row from the beginning.
//	         Further scores over make it longer, a higher one is its new peak.
//	         An update is published UpdateEvery samples after the last change; as soon as the
//	         anomaly has become longer by UpdateAfter and, with UpdateShare, so large a share of its
//	         duration or of its samples is new; and as soon as the severity is in a higher band than the one last published.
//	         An update is also published where the score's region has changed.
//	closed   CloseAfter scores under in a row, and the present score covers
//	         times more than MergeGap after the anomaly's end. So a finding within
//	         MergeGap of the last one belongs to the same anomaly, and nothing
//	         that was closed is ever opened again.
//
// An anomaly below major does not hide what follows: a critical score after a score under the threshold closes it (Leave), and opens
// another at once. Within a row of scores over the threshold it is the same fault that becomes worse.
//
// A score may be about a region of a grid. An anomaly follows it: it has the region of its last score over
// the threshold. A score over the threshold whose region overlaps that one by less than Overlap is
// of another anomaly: it closes this one (Leave), and begins another.
//
// An anomaly may recur: the last ones that have ended tell (recurs.go). Its severity is then at most Recurring.
//
// Anomalies of a detector in shadow mode are published apart. An anomaly belongs to the mode in which it opened: the first
// score after a change of the mode closes it (Leave), and a score over the threshold begins another. A pending row
// continues, and opens in the mode of the score that completes it.
//
// Start, End and PeakTime are event times of samples that the scores cover, not of the samples that completed the scores: a
// change score is about samples long before the one that completes it.
// A score of many samples may be high because of one. If the detector knows which samples deviate (Deviation), the anomaly starts
// with the first of them, of the first score or a higher one, and its peak is the one that deviates most. Its end is the last
// sample that a score over the threshold covers. If the detector does not know, the peak is at the end of the highest score's
// interval: of scores with overlapping intervals the first that covers the whole fault is the highest, and its newest sample
// is the fault's.
//
// # Replay
//
// With emit false, scores move all counters, but nothing is opened, updated or
// closed: the published changes stand. Where a replay's scores equal the live ones,
// there is nothing to publish, because a change puts its key's state
// into the same transaction. Where they differ, on another executor, a change
// that is due is published with the next live score of its kind.
package anomaly
