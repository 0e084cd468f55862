package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// Topic reads the letters of a dead-letter topic. One goroutine uses it.
type Topic struct {
	Name    string
	client  *kafka.Client
	fetcher *kafka.Fetcher
	first   map[kafka.TP]int64
	ends    map[kafka.TP]int64 // stable ends when it was opened
	sent    map[sentTo]runs    // letters that were sent again
}

// OpenDeadLetters finds where the letters are and which were sent again. What comes later is not
// part of it. The caller closes the client after Close.
func OpenDeadLetters(ctx context.Context, client *kafka.Client, name string) (*Topic, error) {
	infos, err := client.Admin.Topics(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("admin: topic %q: %w", name, err)
	}
	if !infos[name].Exists {
		return nil, fmt.Errorf("admin: topic %q does not exist, or may not be described: do the workers have this "+
			"ODRADEK_DLQ_TOPIC, or ODRADEK_GROUP?", name)
	}
	t := &Topic{
		Name:   name,
		client: client,
		fetcher: kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true, MaxWait: 200 * time.Millisecond,
			MaxBytes: 16 << 20, PartitionBytes: 4 << 20}),
	}
	var tps []kafka.TP
	for p := range infos[name].Partitions {
		tps = append(tps, kafka.TP{Topic: name, Partition: int32(p)})
	}
	if err := t.find(ctx, tps); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topic) find(ctx context.Context, tps []kafka.TP) (err error) {
	if t.first, err = t.client.Offsets.ListOffsets(ctx, tps, kafka.Earliest); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	if t.ends, err = t.client.Offsets.ListStable(ctx, tps); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return t.reload(ctx, false)
}

// reload reads the ledger; wait is as of readLedger.
func (t *Topic) reload(ctx context.Context, wait bool) error {
	sent, err := readLedger(ctx, t.client, t.fetcher, t.Name, wait)
	if err != nil {
		return err
	}
	tps := make([]kafka.TP, 0, len(t.ends))
	for tp := range t.ends {
		tps = append(tps, tp)
	}
	ends, err := t.client.Offsets.ListOffsets(ctx, tps, kafka.Latest)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for to, offsets := range sent {
		tp := kafka.TP{Topic: t.Name, Partition: to.partition}
		if last := offsets[len(offsets)-1][1]; last >= ends[tp] {
			return fmt.Errorf("admin: topic %q says that letter %s/%d was sent again, which is not there: the dead-letter topic was "+
				"created again since; delete %q", LedgerTopic(t.Name), tp, last, LedgerTopic(t.Name))
		}
	}
	t.sent = sent
	return nil
}

// Close ends the reading.
func (t *Topic) Close() { t.fetcher.Close() }

// Sent returns the topics that a letter was sent to, in their order.
func (t *Topic) Sent(l *Letter) (to []string) {
	for s, offsets := range t.sent {
		if s.partition == l.TP.Partition && offsets.has(l.Offset) {
			to = append(to, s.topic)
		}
	}
	slices.Sort(to)
	return to
}

// Each calls fn with the selected letters in the order of partitions and offsets, until it returns false.
func (t *Topic) Each(ctx context.Context, f *Filter, fn func(*Letter) (more bool, err error)) error {
	for p := range int32(len(t.ends)) {
		tp := kafka.TP{Topic: t.Name, Partition: p}
		from, to := t.first[tp], t.ends[tp]
		if f.At != nil {
			if f.At.Partition != p {
				continue
			}
			from, to = max(from, f.AtOffset), min(to, f.AtOffset+1)
		}
		more := true
		err := t.fetcher.ReadRange(ctx, tp, from, to, func(rec *record.Record) (_ bool, err error) {
			if l := Parse(tp, rec); f.Selects(l) {
				more, err = fn(l)
			}
			return more, err
		})
		if err != nil {
			return fmt.Errorf("admin: %w", err)
		}
		if !more {
			break
		}
	}
	return nil
}

// whole replaces what was cut off of a letter by the record of the source, while that is there.
func (t *Topic) whole(ctx context.Context, l *Letter) (ok bool, err error) {
	if l.SourceOffset < 0 || l.Source.Topic == "" {
		return false, nil
	}
	infos, err := t.client.Admin.Topics(ctx, l.Source.Topic)
	if err != nil || !infos[l.Source.Topic].Exists || int(l.Source.Partition) >= infos[l.Source.Topic].Partitions {
		return false, err
	}
	first, err := t.client.Offsets.ListOffsets(ctx, []kafka.TP{l.Source}, kafka.Earliest)
	if err != nil || first[l.Source] > l.SourceOffset {
		return false, err
	}
	end, err := t.client.Offsets.ListStable(ctx, []kafka.TP{l.Source})
	if err != nil || end[l.Source] <= l.SourceOffset {
		return false, err
	}
	err = t.fetcher.ReadRange(ctx, l.Source, l.SourceOffset, l.SourceOffset+1, func(rec *record.Record) (bool, error) {
		if rec.Offset == l.SourceOffset {
			found := Parse(l.Source, rec)
			l.Key, l.Value, l.Headers, ok = found.Key, found.Value, found.Headers, true
		}
		return true, nil
	})
	return ok, err
}
