package try

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
)

// Topic returns the last n records of a topic by their timestamps, or with first the first n; fewer where they have more than most
// bytes. Records of a partition are in order.
func Topic(ctx context.Context, client *kafka.Client, fetch kafka.FetchConfig, topic string, n int, first bool,
	most int64) ([]*Record, error) {
	infos, err := client.Admin.Topics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("try: topic %q: %w", topic, err)
	}
	if !infos[topic].Exists {
		return nil, fmt.Errorf("try: topic %q does not exist, or may not be described", topic)
	}
	var tps []kafka.TP
	for p := range infos[topic].Partitions {
		tps = append(tps, kafka.TP{Topic: topic, Partition: int32(p)})
	}
	begins, err := client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("try: first offsets of %q: %w", topic, err)
	}
	ends, err := client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("try: last offsets of %q: %w", topic, err)
	}
	f := kafka.NewFetcher(client, fetch)
	defer f.Close()
	all := make([][]*Record, len(tps))
	for i, tp := range tps {
		// Markers, aborted records and compaction leave offsets without a record.
		for span := int64(n); ; span *= 8 {
			from := begins[tp]
			if !first {
				from = max(from, ends[tp]-span)
			}
			var cut bool
			if all[i], cut, err = partition(ctx, f, tp, from, ends[tp], n, first, most/int64(len(tps))); err != nil {
				return nil, fmt.Errorf("try: %w", err)
			}
			if cut || first || len(all[i]) >= n || from == begins[tp] || span > 1<<20 {
				break
			}
		}
	}
	return merge(all, n, first), nil
}

// partition reads the first n records from an offset on, or the last n before another. cut: they are fewer, one at least, since more
// would have more than most bytes.
func partition(ctx context.Context, f *kafka.Fetcher, tp kafka.TP, from, to int64, n int, first bool, most int64) (list []*Record, cut bool,
	err error) {
	size := func(r *Record) int64 { return int64(len(r.Key) + len(r.Value)) }
	bytesOf := int64(0)
	err = f.ReadRange(ctx, tp, from, to, func(r *record.Record) (bool, error) {
		rec := &Record{Topic: tp.Topic, Partition: tp.Partition, Offset: r.Offset, Timestamp: cycle.Timestamp(r), Key: bytes.Clone(r.Key),
			Value: bytes.Clone(r.Value)}
		if r.HeaderCount > 0 {
			rec.Headers = func(string) ([]byte, bool) { return nil, false }
			if id, ok := r.Header(schemas.SchemaIDHeader); ok {
				id = bytes.Clone(id)
				rec.Headers = func(name string) ([]byte, bool) { return id, name == schemas.SchemaIDHeader }
			}
		}
		if bytesOf += size(rec); first && bytesOf > most && len(list) > 0 {
			cut = true
			return false, nil
		}
		for list = append(list, rec); len(list) > n || bytesOf > most && len(list) > 1; list = list[1:] {
			cut = cut || len(list) <= n
			bytesOf -= size(list[0])
			list[0] = nil
		}
		return !first || len(list) < n, nil
	})
	return list, cut, err
}

// merge returns n records of partitions in the order of their timestamps, the first or the last; a partition's records stay in
// order.
func merge(parts [][]*Record, n int, first bool) (list []*Record) {
	next := func(part []*Record) *Record {
		if first {
			return part[0]
		}
		return part[len(part)-1]
	}
	for len(list) < n {
		best := -1
		for i, part := range parts {
			if len(part) == 0 {
				continue
			}
			if best < 0 || first == (next(part).Timestamp < next(parts[best]).Timestamp) && next(part).Timestamp != next(parts[best]).Timestamp {
				best = i
			}
		}
		if best < 0 {
			break
		}
		list = append(list, next(parts[best]))
		if part := parts[best]; first {
			parts[best] = part[1:]
		} else {
			parts[best] = part[:len(part)-1]
		}
	}
	if !first {
		slices.Reverse(list)
	}
	return list
}

// maxFile bounds a file of records, in bytes.
const maxFile = 64 << 20

// IsTable reports whether File reads rows of a file.
func IsTable(path string) bool {
	name := strings.ToLower(path)
	return strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".csv.gz")
}

// File returns the first n records of a file for a topic: of .csv and .csv.gz the rows, as worker backtest reads them; of .jsonl
// and .ndjson a record a line; of others one record, which has the bytes of the file. A line is the record's value, or what kcat -J
// and rpk topic consume write of a record, which has its partition and offset. "-" is the standard input, in lines.
func File(ctx context.Context, path string, in io.Reader, c *config.Config, topic string, n int) ([]*Record, error) {
	name := strings.ToLower(path)
	switch {
	case IsTable(path):
		return rows(ctx, path, c.ForTopic(topic), topic, n)
	case strings.HasSuffix(name, ".parquet"), strings.HasSuffix(name, ".avro"):
		return nil, fmt.Errorf("try: %s: worker backtest reads such files; here use .csv, .jsonl, or the bytes of one record", path)
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("try: %w", err)
		}
		defer f.Close()
		in = f
	}
	all, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("try: %s: %w", path, err)
	}
	if len(all) > maxFile {
		return nil, fmt.Errorf("try: %s has more than %d MiB: cut it", path, maxFile>>20)
	}
	if path != "-" && !strings.HasSuffix(name, ".jsonl") && !strings.HasSuffix(name, ".ndjson") {
		return []*Record{{Topic: topic, Offset: -1, Timestamp: -1, Value: all}}, nil
	}
	var list []*Record
	number := int64(0)
	for line := range bytes.Lines(all) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(list) == n {
			break
		}
		rec := &Record{Topic: topic, Offset: -1, Timestamp: -1, Value: bytes.Clone(line)}
		rec.dumped(line)
		rec.Line = number
		list = append(list, rec)
	}
	return list, nil
}

// dumped takes a line that kcat -J or rpk topic consume has written.
func (r *Record) dumped(line []byte) {
	var d struct {
		Partition *int32  `json:"partition"`
		Offset    *int64  `json:"offset"`
		TS        *int64  `json:"ts"`
		Timestamp *int64  `json:"timestamp"`
		Key       *string `json:"key"`
		Value     *string `json:"value"`
		Payload   *string `json:"payload"`
		Topic     *string `json:"topic"`
	}
	if json.Unmarshal(line, &d) != nil || d.Partition == nil || d.Offset == nil || d.Topic == nil {
		return
	}
	r.Partition, r.Offset, r.Value = *d.Partition, *d.Offset, nil
	for _, v := range []*string{d.Value, d.Payload} {
		if v != nil {
			r.Value = []byte(*v)
		}
	}
	if d.Key != nil {
		r.Key = []byte(*d.Key)
	}
	for _, ms := range []*int64{d.TS, d.Timestamp} {
		if ms != nil {
			r.Timestamp = *ms
		}
	}
}

// errEnough ends the reading of a table.
var errEnough = errors.New("enough rows")

// rows returns the first n rows of a table.
func rows(ctx context.Context, path string, c *config.Config, topic string, n int) (list []*Record, err error) {
	if c.HasReadings() {
		return nil, errors.New("try: " + config.Prefix + "READINGS_FIELD names an array in a record, and a row of a file has none")
	}
	left := map[int64]LeftOut{}
	t, err := table.Open(path, table.Options{Mapping: c.RecordMapping(), LeftOut: func(row int64, filtered bool, why string) {
		if left[row] = (LeftOut{Dead, why}); filtered {
			left[row] = LeftOut{Filtered, "only_if " + c.Mapping.OnlyIf + " is false"}
		}
	}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Close() }()
	number := int64(0)
	add := func(row *Row) error {
		if len(list) == n {
			return errEnough
		}
		list = append(list, &Record{Topic: topic, Offset: -1, Timestamp: -1, Line: number + 1, Row: row}) // the first line has the names
		return nil
	}
	rest := func() error { // those that are left out before the next row
		for {
			out, there := left[number+1]
			if !there {
				return nil
			}
			number++
			if err := add(&Row{LeftOut: out}); err != nil {
				return err
			}
		}
	}
	err = t.Read(ctx, func(b *table.Batch) error {
		defer b.Release()
		for i := range b.Len() {
			if err := rest(); err != nil {
				return err
			}
			number++
			row := &Row{bytes.Clone(b.Keys[b.Key[i]]), b.Times[i], slices.Clone(b.Row(i)), slices.Clone(b.RowAbsent(i)), LeftOut{Read, ""}}
			if err := add(row); err != nil {
				return err
			}
		}
		return rest()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, err
}
