package processor

import (
	"errors"
	"fmt"
	"log/slog"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/schemas"
)

// This file decides which records and batches are dead letters or late; cycle.Writer copies them.

// sideOutputs writes the records that become no sample: dead letters and late records.
type sideOutputs struct {
	tp      kafka.TP
	metrics *metrics.Metrics
	log     *slog.Logger
	trouble *metrics.FailureLog
	writer  *cycle.Writer
	counts  *metrics.Counts // of the chunk
	fill    *backfill
	stop    deadLetterStop
	lates   lateLog
}

// deadLetter sends rec to the dead-letter topic, with the cause. In a backfill it only counts it. It reports false
// where that would be one dead letter too many: the partition has to be paused before it (deadLetterStop).
func (o *sideOutputs) deadLetter(rec *record.Record, cause error) bool {
	if o.fill.covers(rec.Offset) {
		o.unreadable(1)
		return true
	}
	if !o.stop.Admit(rec.Offset, 1) {
		return false
	}
	o.sendDead(rec, cause)
	return true
}

// sendDead writes the dead letter of rec.
func (o *sideOutputs) sendDead(rec *record.Record, cause error) {
	o.counts.Dead++
	class, field := "malformed", ""
	var de *schemas.DecodeError
	if errors.As(cause, &de) {
		class, field = de.Class, de.Field
	}
	text := fmt.Sprintf("%s/%d at offset %d: %v", o.tp.Topic, o.tp.Partition, rec.Offset, cause)
	o.metrics.DeadLetters(o.tp, class, 1)
	o.logDead(class, text)
	o.writer.DeadLetter(rec, class, text, field)
}

// empty counts rec, which has no reading: because it is skipped, or as one missing sample because its array is empty.
func (o *sideOutputs) empty(rec *record.Record, why schemas.Skip) {
	if o.fill.covers(rec.Offset) {
		o.counts.Backfilled++
		return
	}
	if why != schemas.NotSkipped {
		o.counts.Skipped.Add(why.String(), 1)
		return
	}
	o.counts.Empty++
}

// logDead logs the first dead letter of a class and partition, and then how many
// there were, once a minute, so that a poisoned topic does not flood the log.
func (o *sideOutputs) logDead(class, text string) {
	o.trouble.Warn(o.log, class, "dead letter", "class", class, "err", text)
}

// late sends rec to the topic of late records, once for all of its late samples, whose numbers are given and which the
// state has counted. It does not send a record of a backfill.
func (o *sideOutputs) late(rec *record.Record, samples []int) {
	if !o.fill.covers(rec.Offset) {
		o.writer.Late(rec, samples)
	}
}

// noteLate counts a late sample of rec for the next log line about late samples.
func (o *sideOutputs) noteLate(rec *record.Record, series []byte) {
	if !o.fill.covers(rec.Offset) {
		o.lates.add(series, rec.Offset)
	}
}

// deadBatch sends the bytes of a batch to the dead-letter topic, unless all of it is of a backfill. at is
// the position before it. It reports what deadLetter does.
func (o *sideOutputs) deadBatch(u *record.Unreadable, at int64) bool {
	if !o.fill.covers(u.Last) && !o.stop.Admit(at, u.Records) {
		return false
	}
	o.counts.Consumed += u.Records
	o.counts.Bytes += int64(len(u.Raw))
	if o.fill.covers(u.Last) {
		o.unreadable(u.Records)
		return true
	}
	o.counts.Dead += u.Records
	class := "corrupt_batch"
	if u.TooLarge {
		class = "batch_too_large"
	}
	text := fmt.Sprintf("%s/%d at offsets %d to %d (%d records): %v", o.tp.Topic, o.tp.Partition, u.First, u.Last, u.Records, u.Err)
	o.metrics.DeadLetters(o.tp, class, u.Records)
	o.logDead(class, text)
	o.writer.DeadBatch(u, class, text)
	return true
}

// unreadable counts records of the backfill that cannot be read. They are no dead letters, because they come
// before the offset at which the group begins to publish.
func (o *sideOutputs) unreadable(n int64) {
	o.counts.Backfilled += n
	o.counts.Unreadable += n
}
