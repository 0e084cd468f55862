package processor

import (
	"fmt"
	"strconv"
	"time"

	"odradek/processor/kafka/record"
)

// nextRecord goes to the next record of the chunk. A batch that cannot be read
// becomes one dead letter, and all of its records count as that.
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

// deadBatch keeps the bytes of a batch for the dead-letter topic, as they are in
// the log: its header, and its records as they were compressed.
func (pt *partition) deadBatch(u *record.Unreadable) {
	pt.counts.Consumed += u.Records
	pt.counts.Dead += u.Records
	pt.counts.Bytes += int64(len(u.Raw))
	class := "corrupt_batch"
	if u.TooLarge {
		class = "batch_too_large"
	}
	text := fmt.Sprintf("%s/%d at offsets %d to %d (%d records): %v", pt.tp.Topic, pt.tp.Partition, u.First, u.Last, u.Records, u.Err)
	pt.host.cfg.Metrics.DeadLetters(pt.tp, class, u.Records)
	pt.logDead(class, text)
	h := pt.reason(class, text, u.First)
	number := func(name string, n int64) {
		h = append(h, record.Header{Key: "odradek.batch." + name, Value: strconv.AppendInt(nil, n, 10)})
	}
	number("first_offset", u.First)
	number("last_offset", u.Last)
	number("records", u.Records)
	// Its own time is in the bytes that are damaged.
	pt.copies = append(pt.copies, copiedRecord{to: OutputDeadLetters, timestamp: time.Now().UnixMilli(), value: copied(u.Raw), headers: h,
		partition: pt.copyPartition(OutputDeadLetters, nil)})
}

// nextReplayed goes to the next record of a chunk that is read again: a batch that
// could not be read then became a dead letter, and is passed over.
func nextReplayed(it *record.Iterator) bool {
	for !it.Next() {
		if _, ok := it.Unreadable(); !ok {
			return false
		}
		it.Skip()
	}
	return true
}
