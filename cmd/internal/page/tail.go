package page

import (
	"context"
	"fmt"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// tail follows the committed records of a topic from a bounded distance before its end. It serves one goroutine.
type tail struct {
	client  *kafka.Client
	topic   string
	most    int64 // records before the end that are read at first, and after a pause, over all partitions
	forget  func(partition int32)
	add     func(*record.Record, int32)
	fetcher *kafka.Fetcher // nil while there is no topic
	tps     []kafka.TP
	next    map[kafka.TP]int64

	truncated bool // what was read does not begin at the topic's start
}

func (t *tail) close() {
	if t.fetcher != nil {
		t.fetcher.Close()
		t.fetcher = nil
	}
}

// poll reads what is new. Where more than most records are new, or the log does not go on where it was read up to, it
// forgets the partition and begins anew before its end.
func (t *tail) poll(ctx context.Context) error {
	if t.fetcher == nil {
		if err := t.open(ctx); err != nil {
			return err
		}
	}
	ends, err := t.client.Offsets.ListStable(ctx, t.tps)
	if err != nil {
		return err
	}
	for _, tp := range t.tps {
		from, end := t.next[tp], ends[tp]
		if from == end {
			continue
		}
		first, err := t.client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, kafka.Earliest)
		if err != nil {
			return err
		}
		least := max(first[tp], end-t.most/int64(len(t.tps)))
		if from < least || from > end {
			t.forget(tp.Partition)
			t.truncated = t.truncated || least > 0
			from = least
		}
		t.next[tp] = from
		err = t.fetcher.ReadRange(ctx, tp, from, end, func(rec *record.Record) (bool, error) {
			t.add(rec, tp.Partition)
			t.next[tp] = rec.Offset + 1
			return true, nil
		})
		if err != nil {
			return err
		}
		t.next[tp] = end
	}
	return nil
}

// open finds the topic.
func (t *tail) open(ctx context.Context) error {
	infos, err := t.client.Admin.Topics(ctx, t.topic)
	if err != nil {
		return err
	}
	info := infos[t.topic]
	switch {
	case !info.Exists && !info.Authorized:
		return fmt.Errorf("page: topic %q may not be read; allow Describe and Read", t.topic)
	case !info.Exists:
		return &missingError{t.topic}
	}
	t.tps = nil
	for p := range info.Partitions {
		t.tps = append(t.tps, kafka.TP{Topic: t.topic, Partition: int32(p)})
	}
	if t.next == nil {
		t.next = map[kafka.TP]int64{}
	}
	t.fetcher = kafka.NewFetcher(t.client, kafka.FetchConfig{ReadCommitted: true})
	return nil
}

// missingError says that there is no such topic.
type missingError struct{ topic string }

func (e *missingError) Error() string {
	return fmt.Sprintf("page: topic %q does not exist", e.topic)
}
