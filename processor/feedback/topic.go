package feedback

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// maxBatch bounds a batch of one record, which is far smaller.
const maxBatch = 1 << 20

// Topic is where feedback is written.
type Topic struct {
	Client      *kafka.Client
	Registry    *registry.Client // where the schema is registered; nil: nowhere
	Name        string
	Replication int   // of the topic where it is made
	Unframed    int32 // as of output.Feedback.Append, where no schema is registered
}

// Say writes a record, under a new id if it has none, and makes the topic where there is none.
func (t *Topic) Say(ctx context.Context, f *output.Feedback) error {
	if f.ID == "" {
		var id [4]byte
		_, _ = rand.Read(id[:]) // never fails
		f.ID = hex.EncodeToString(id[:])
	}
	f.WrittenAt = time.Now().UnixMicro()
	id := t.Unframed
	if t.Registry.HasIDs() {
		var err error
		if id, err = t.Registry.Register(ctx, schemas.Subject(t.Name), output.FeedbackSchema); err != nil {
			return fmt.Errorf("feedback: register the schema of %s: %w", t.Name, err)
		}
	}
	value := f.Append(nil, id)
	if _, err := output.DecodeFeedback(value); err != nil {
		return err
	}
	if err := t.Client.Admin.CreateTopic(ctx, t.Name, Partitions, t.Replication, Configs); err != nil {
		return fmt.Errorf("feedback: create topic %q: %w", t.Name, err)
	}
	return Write(ctx, t.Client, t.Name, f.ID, value)
}

// TakeBack deletes the record of an id. It reports whether there was one.
func (t *Topic) TakeBack(ctx context.Context, id string, bad func(error)) (ok bool, err error) {
	all, err := ReadAll(ctx, t.Client, t.Name, bad)
	if err != nil {
		return false, err
	}
	if _, ok = all[id]; !ok {
		return false, nil
	}
	return true, Write(ctx, t.Client, t.Name, id, nil)
}

// Write writes the record of an id; a nil value deletes it. The topic must exist.
func Write(ctx context.Context, client *kafka.Client, topic, id string, value []byte) error {
	infos, err := client.Admin.Topics(ctx, topic)
	if err == nil && !infos[topic].Exists {
		err = errors.New("it does not exist, or may not be described")
	}
	if err != nil {
		return fmt.Errorf("feedback: topic %q: %w", topic, err)
	}
	p := client.NewProducer(kafka.ProducerConfig{})
	if err := p.Init(ctx); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	b := record.NewBatches(maxBatch, record.CodecNone)
	if err := b.Append(time.Now().UnixMilli(), []byte(id), value, nil); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	tp := kafka.TP{Topic: topic, Partition: kafka.Partition([]byte(id), infos[topic].Partitions)}
	if err := p.Produce(ctx, map[kafka.TP]*record.Batches{tp: b}); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	return nil
}

// ReadAll returns the records of a topic by id; none where there is no topic. It calls bad with what is wrong with those that are
// no feedback.
func ReadAll(ctx context.Context, client *kafka.Client, topic string, bad func(error)) (map[string]output.Feedback, error) {
	all := map[string]output.Feedback{}
	infos, err := client.Admin.Topics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("feedback: %w", err)
	}
	var tps []kafka.TP
	for p := range infos[topic].Partitions {
		tps = append(tps, kafka.TP{Topic: topic, Partition: int32(p)})
	}
	if len(tps) == 0 {
		return all, nil
	}
	first, err := client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("feedback: %w", err)
	}
	ends, err := client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("feedback: %w", err)
	}
	fetcher := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true})
	defer fetcher.Close()
	for _, tp := range tps {
		err = fetcher.ReadRange(ctx, tp, first[tp], ends[tp], func(rec *record.Record) (bool, error) {
			id := string(rec.Key)
			delete(all, id)
			if rec.Value != nil {
				if f, err := output.DecodeFeedback(rec.Value); err != nil {
					bad(fmt.Errorf("%s at offset %d: %w", tp, rec.Offset, err))
				} else {
					all[id] = f
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("feedback: %w", err)
		}
	}
	return all, nil
}
