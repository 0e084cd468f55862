package why

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

// UnknownError reports that the anomalies topic has no record of an id.
type UnknownError struct {
	ID, Topic string
	Records   int64 // that were searched
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("why: none of the %d records of topic %q is of anomaly %s: retention may have deleted it, or -topic, -partition "+
		"or -from leave it out; the page and the API of a worker show ids", e.Records, e.Topic, e.ID)
}

// leastDigits is the least number of digits that stand for an anomaly.
const leastDigits = 8

// CheckID returns what is wrong with the digits that stand for an anomaly; empty: nothing.
func CheckID(id string) string {
	if len(id) < leastDigits || len(id) > 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return fmt.Sprintf("%q is no id of an anomaly: 32 hexadecimal digits, or the first %d or more of them", id, leastDigits)
	}
	return ""
}

// found has the records of an anomaly in the anomalies topic.
type found struct {
	key       []byte           // of its series
	revisions []output.Anomaly // in their order, at least one; each once
}

// last returns the newest revision.
func (f *found) last() *output.Anomaly { return &f.revisions[len(f.revisions)-1] }

// Find returns the first and the last record of an anomaly that its topic has, from any partition. The error is an *UnknownError if
// there is none.
func Find(ctx context.Context, client *kafka.Client, topic, id string) (first, last *output.Anomaly, err error) {
	f := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true, MaxWait: 200 * time.Millisecond})
	defer f.Close()
	c := Config{Client: client, Anomalies: topic, Partition: -1}
	anomaly, err := c.find(ctx, f, id)
	if err != nil {
		return nil, nil, err
	}
	return &anomaly.revisions[0], anomaly.last(), nil
}

// find searches for the records of the anomaly whose id begins with the given digits.
func (c *Config) find(ctx context.Context, f *kafka.Fetcher, id string) (*found, error) {
	infos, err := c.Client.Admin.Topics(ctx, c.Anomalies)
	if err != nil {
		return nil, fmt.Errorf("why: topic %q: %w", c.Anomalies, err)
	}
	info := infos[c.Anomalies]
	if !info.Exists {
		return nil, fmt.Errorf("why: topic %q does not exist, or may not be described: is it where the group publishes its anomalies?",
			c.Anomalies)
	}
	var tps []kafka.TP
	for p := range info.Partitions {
		if c.Partition < 0 || c.Partition == int32(p) {
			tps = append(tps, kafka.TP{Topic: c.Anomalies, Partition: int32(p)})
		}
	}
	if len(tps) == 0 {
		return nil, fmt.Errorf("why: topic %q has no partition %d", c.Anomalies, c.Partition)
	}
	since := kafka.Earliest
	if !c.From.IsZero() {
		since = c.From.UnixMilli()
	}
	first, err := c.Client.Offsets.ListOffsets(ctx, tps, since)
	if err != nil {
		return nil, fmt.Errorf("why: %w", err)
	}
	end, err := c.Client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("why: %w", err)
	}
	ids, read := map[string]*found{}, int64(0)
	digits := []byte(id)
	for _, tp := range tps {
		err := f.ReadRange(ctx, tp, first[tp], end[tp], func(r *record.Record) (bool, error) {
			read++
			if !bytes.Contains(r.Value, digits) {
				return true, nil
			}
			a, err := output.DecodeAnomaly(bytes.Clone(r.Value))
			if err != nil {
				return true, nil //nolint:nilerr // of another program, or an id within another field
			}
			whole := hex.EncodeToString(a.ID[:])
			if !strings.HasPrefix(whole, id) {
				return true, nil
			}
			if ids[whole] == nil {
				ids[whole] = &found{key: bytes.Clone(r.Key)}
			}
			ids[whole].revisions = append(ids[whole].revisions, a)
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("why: %w", err)
		}
	}
	switch all := slices.Sorted(maps.Keys(ids)); len(all) {
	case 0:
		return nil, &UnknownError{id, c.Anomalies, read}
	case 1:
		anomaly := ids[all[0]]
		slices.SortStableFunc(anomaly.revisions, func(a, b output.Anomaly) int { return cmp.Compare(a.Revision, b.Revision) })
		anomaly.revisions = slices.CompactFunc(anomaly.revisions, func(a, b output.Anomaly) bool { return a.Revision == b.Revision })
		return anomaly, nil
	default:
		return nil, fmt.Errorf("why: %d anomalies begin with %s: give more digits, as of %s", len(all), id, strings.Join(all[:2], " or "))
	}
}
