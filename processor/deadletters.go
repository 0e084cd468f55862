package processor

import (
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka/record"
	"odradek/schemas"
)

// This file decides which records and batches are dead letters or late, and which records
// are sent on; outputs.Writer copies them.

// deadLetter sends rec to the dead-letter topic, with the cause. In a backfill it only counts it.
func (pt *partition) deadLetter(rec *record.Record, cause error) {
	if pt.backfill.covers(rec.Offset) {
		pt.addBackfilled(1)
		return
	}
	pt.counts.Dead++
	class, field := "malformed", ""
	var de *schemas.DecodeError
	if errors.As(cause, &de) {
		class, field = de.Class, de.Field
	}
	text := fmt.Sprintf("%s/%d at offset %d: %v", pt.tp.Topic, pt.tp.Partition, rec.Offset, cause)
	pt.host.cfg.Metrics.DeadLetters(pt.tp, class, 1)
	pt.logDead(class, text)
	pt.writer.DeadLetter(rec, class, text, field)
}

// logDead logs the first dead letter of a class and partition, and then how many
// there were, once a minute, so that a poisoned topic does not flood the log.
func (pt *partition) logDead(class, text string) {
	pt.trouble.Warn(pt.log, class, "dead letter", "class", class, "err", text)
}

// lateRecord sends rec to the topic of late records. The state has counted it; one of a backfill is not sent.
func (pt *partition) lateRecord(rec *record.Record, series []byte) {
	if pt.backfill.covers(rec.Offset) {
		return
	}
	pt.lates.Add(series, rec.Offset)
	pt.writer.Late(rec)
}

// forwardRecord sends rec on to the internal topic. A record that is too large for it
// becomes a dead letter.
func (pt *partition) forwardRecord(rec *record.Record) {
	if err := pt.writer.Forward(rec, pt.reading.Key, pt.forwardMost); err != nil {
		pt.deadLetter(rec, &schemas.DecodeError{Class: "too_large", Err: err})
		return
	}
	pt.counts.Forwarded++
}

// nextRecord goes to the next record of the chunk. A batch that cannot be read
// becomes one dead letter, and each of its records is counted as one.
func (pt *partition) nextRecord() bool {
	for !pt.it.Next() {
		u, ok := pt.it.Unreadable()
		if !ok {
			return false
		}
		pt.deadBatch(&u)
		pt.it.Skip()
	}
	return true
}

// deadBatch sends the bytes of a batch to the dead-letter topic, unless all of it is of a backfill.
func (pt *partition) deadBatch(u *record.Unreadable) {
	pt.counts.Consumed += u.Records
	pt.counts.Bytes += int64(len(u.Raw))
	if pt.backfill.covers(u.Last) {
		pt.addBackfilled(u.Records)
		return
	}
	pt.counts.Dead += u.Records
	class := "corrupt_batch"
	if u.TooLarge {
		class = "batch_too_large"
	}
	text := fmt.Sprintf("%s/%d at offsets %d to %d (%d records): %v", pt.tp.Topic, pt.tp.Partition, u.First, u.Last, u.Records, u.Err)
	pt.host.cfg.Metrics.DeadLetters(pt.tp, class, u.Records)
	pt.logDead(class, text)
	pt.writer.DeadBatch(u, class, text)
}

// maxSeriesKey bounds a series key so that no record made of it can pass the
// broker's limit.
const maxSeriesKey = 8 << 10

func (pt *partition) checkReading(rec *record.Record) error {
	if f := pt.host.cfg.MaxFuture; f > 0 && rec.Timestamp >= 0 && pt.reading.Time > rec.Timestamp*1000+f.Microseconds() {
		return &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"event time %s is more than %s after the record's timestamp %s (ODRADEK_MAX_FUTURE)",
			time.UnixMicro(pt.reading.Time).UTC().Format(time.RFC3339), f, time.UnixMilli(rec.Timestamp).UTC().Format(time.RFC3339))}
	}
	if len(pt.reading.Key) > maxSeriesKey {
		return &schemas.DecodeError{Class: "too_large",
			Err: fmt.Errorf("series key of %d bytes is longer than %d", len(pt.reading.Key), maxSeriesKey)}
	}
	if e := pt.state.Grids.Misplaced(pt.reading.Key, pt.reading.Values); e != nil {
		return &schemas.DecodeError{Class: e.Class, Field: e.Field, SchemaID: -1, Err: e}
	}
	return nil
}
