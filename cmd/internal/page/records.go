package page

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/try"
	"odradek/processor/kafka"
	"odradek/schemas/registry"
)

// Limits of a list of records.
const (
	usualRead = 20
	mostRead  = 100
	mostTried = 32 << 20 // bytes of records
)

// RecordReader reads the last n records of an input topic, "" for the first topic, in no group.
type RecordReader func(ctx context.Context, topic string, n int) (*RecordList, error)

// RecordList has the last records of an input topic as this worker's settings read them.
type RecordList struct {
	Topic   string       `json:"topic" doc:"The input topic."`
	Topics  []string     `json:"topics" doc:"The input topics that may be asked for."`
	Records []ReadRecord `json:"records" doc:"Records by their timestamps, the oldest first. State begins with the first of them, so the first sample of a rate has no value before."`
	Summary string       `json:"summary" doc:"How many records have each outcome, in words."`
}

// ReadRecord is what is read of a record, or why it is left out.
type ReadRecord struct {
	Partition int32        `json:"partition" doc:"Partition of the input topic."`
	Offset    int64        `json:"offset" doc:"Offset of the record."`
	Timestamp time.Time    `json:"timestamp" doc:"Kafka's timestamp."`
	Outcome   string       `json:"outcome" doc:"read, missing, filtered, tombstone, unmapped, empty, late, duplicate, unread (by no detector), held or dead (a dead letter)."`
	Class     string       `json:"class,omitempty" doc:"Of a dead letter: its class."`
	Reason    string       `json:"reason,omitempty" doc:"Why it is not read."`
	Samples   []ReadSample `json:"samples" doc:"The samples of the record."`
	Intervals []ReadSample `json:"intervals" doc:"The intervals that the record closes (EVERY): their values enter windows in place of the samples' values."`
}

// ReadSample is a sample of a record.
type ReadSample struct {
	Series  string      `json:"series" doc:"Series key."`
	Time    time.Time   `json:"time" doc:"Event time."`
	Outcome string      `json:"outcome" doc:"As of a record."`
	Reason  string      `json:"reason,omitempty" doc:"Why it is not read."`
	Values  []ReadValue `json:"values" doc:"Its values."`
}

// ReadValue is a value of a sample.
type ReadValue struct {
	Field  string `json:"field" doc:"Field."`
	Read   Number `json:"read" doc:"The value in the record; null: missing."`
	Value  Number `json:"value" doc:"The value that enters windows, after VALID, MISSING_IF and TRANSFORM; null: missing."`
	Reason string `json:"reason,omitempty" doc:"Why the two differ."`
}

// Records returns what reads records by the settings in force. One request at a time reads, so that the page takes little memory
// and bandwidth of the worker.
func Records(settings func() *config.Config, client *kafka.Client, reg *registry.Client) RecordReader {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, topic string, n int) (*RecordList, error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, fmt.Errorf("page: records are being read for another request: %w", ctx.Err())
		}
		c := settings()
		topics := c.Inputs()
		if topic == "" && len(topics) > 0 {
			topic = topics[0]
		}
		if !slices.Contains(topics, topic) {
			return nil, &Error{http.StatusNotFound, fmt.Sprintf("page: %q is no input topic of the group", topic)}
		}
		records, err := try.Topic(ctx, client, c.FetchConfig(), topic, n, false, mostTried)
		if err != nil {
			return nil, err
		}
		trial := try.New(c, reg)
		for _, rec := range records {
			if err = trial.Read(ctx, rec); err != nil {
				break
			}
		}
		var list []*try.Result
		if err == nil {
			list, err = trial.End(ctx)
		}
		trial.Close()
		if err != nil {
			return nil, err
		}
		return recordList(topic, topics, list), nil
	}
}

func recordList(topic string, topics []string, list []*try.Result) *RecordList {
	out := &RecordList{Topic: topic, Topics: topics, Records: []ReadRecord{}, Summary: try.Summary(list)}
	for _, r := range list {
		rec := ReadRecord{Partition: r.Partition, Outcome: string(r.Outcome), Class: r.Class, Reason: r.Reason,
			Samples: readSamples(r.Samples), Intervals: readSamples(r.Intervals)}
		if r.Offset != nil {
			rec.Offset = *r.Offset
		}
		if r.Timestamp != nil {
			rec.Timestamp = *r.Timestamp
		}
		out.Records = append(out.Records, rec)
	}
	return out
}

func readSamples(list []*try.Sample) []ReadSample {
	number := func(v *float64) Number {
		if v == nil {
			return Number(math.NaN())
		}
		return Number(*v)
	}
	samples := []ReadSample{}
	for _, s := range list {
		sample := ReadSample{Series: s.Key, Time: s.Time, Outcome: string(s.Outcome), Reason: s.Reason, Values: []ReadValue{}}
		for _, v := range s.Values {
			sample.Values = append(sample.Values, ReadValue{v.Field, number(v.Read), number(v.Value), v.Reason})
		}
		samples = append(samples, sample)
	}
	return samples
}
