package suggest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/formats"
)

const (
	// samplePartitions is the most partitions that the sample is from.
	samplePartitions = 64
	// leastChunk is the least number of records to read at one place.
	leastChunk = 50
)

// raw is a record as it was read.
type raw struct {
	offset     int64
	timestamp  int64 // of the record, in milliseconds
	key, value []byte
	id         []byte // header with the schema's id; nil: none
}

func (r *raw) header(name string) ([]byte, bool) {
	if r.id == nil || name != schemas.SchemaIDHeader {
		return nil, false
	}
	return r.id, true
}

// headers returns the function that finds a header; nil: there are none.
func (r *raw) headers() func(string) ([]byte, bool) {
	if r.id == nil {
		return nil
	}
	return r.header
}

// partitionRange is a partition with the offsets that can be read.
type partitionRange struct {
	tp         kafka.TP
	first, end int64
}

// chunk are successive records of a partition.
type chunk struct {
	partition int // index into ranges
	records   []raw
}

// topicSample is what was read to know the shape of the records.
type topicSample struct {
	topic  string
	ranges []partitionRange
	total  int64 // offsets of all partitions
	chunks []chunk
	whole  bool   // all records of the topic are in chunks
	cut    string // why the reading ended early; "": it did not
}

func (t *topicSample) records() (n int) {
	for i := range t.chunks {
		n += len(t.chunks[i].records)
	}
	return n
}

// partitions returns the number of partitions that records are from.
func (t *topicSample) partitions() int {
	filled := map[int]bool{}
	for i := range t.chunks {
		if len(t.chunks[i].records) > 0 {
			filled[t.chunks[i].partition] = true
		}
	}
	return len(filled)
}

// readSample reads the beginning, the middle and the end of each partition.
func (c *Config) readSample(ctx context.Context) (*topicSample, error) {
	t := &topicSample{topic: c.Topic, whole: true}
	infos, err := c.Client.Admin.Topics(ctx, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("suggest: topic %q: %w", c.Topic, err)
	}
	if info := infos[c.Topic]; !info.Exists || info.Partitions == 0 {
		return nil, c.noTopic(ctx)
	}
	var tps []kafka.TP
	for p := range infos[c.Topic].Partitions {
		tps = append(tps, kafka.TP{Topic: c.Topic, Partition: int32(p)})
	}
	first, err := c.Client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("suggest: first offsets of %q: %w", c.Topic, err)
	}
	end, err := c.Client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("suggest: last offsets of %q: %w", c.Topic, err)
	}
	filled := 0
	for _, tp := range tps {
		t.ranges = append(t.ranges, partitionRange{tp, first[tp], end[tp]})
		if t.total += end[tp] - first[tp]; end[tp] > first[tp] {
			filled++
		}
	}
	if t.total == 0 {
		return nil, fmt.Errorf("suggest: topic %q has no records: let the producer write some minutes of them first", c.Topic)
	}
	f := kafka.NewFetcher(c.Client, c.Fetch)
	defer f.Close()
	places := min(filled, samplePartitions)
	most, size := int64(max(leastChunk, c.Records/(3*places))), c.Bytes/int64(3*places)
	nth := 0
	for i := range t.ranges {
		p := &t.ranges[i]
		if p.first == p.end {
			continue
		}
		// places of the filled partitions, evenly
		chosen := nth*places/filled != (nth+1)*places/filled
		if nth++; !chosen {
			t.whole = false
			continue
		}
		if p.end-p.first <= 3*most {
			err = t.readChunk(ctx, f, i, p.first, p.end, 3*size)
		} else {
			t.whole = false
			middle := p.first + (p.end-p.first-most)/2
			for _, from := range []int64{p.first, middle, p.end - most} {
				if err == nil {
					err = t.readChunk(ctx, f, i, from, from+most, size)
				}
			}
		}
		if ctx.Err() != nil && t.records() > 0 {
			t.cut, t.whole = "the limit of time", false
			break
		}
		if err != nil {
			return nil, fmt.Errorf("suggest: %w", err)
		}
	}
	if t.records() == 0 {
		return nil, fmt.Errorf("suggest: the %d offsets of topic %q have no visible records: they are aborted, or compacted away", t.total,
			c.Topic)
	}
	return t, nil
}

// noTopic returns the error for a topic that does not exist.
func (c *Config) noTopic(ctx context.Context) error {
	names := map[string]bool{}
	if all, err := c.Client.Admin.Topics(ctx); err == nil {
		for name, info := range all {
			if info.Exists && !info.Internal {
				names[name] = true
			}
		}
	}
	hint := ""
	if near, d := config.Nearest(c.Topic, names); near != "" && d <= max(2, len(c.Topic)/4) {
		hint = ": did you mean " + near + "?"
	} else if list := sortedKeys(names); len(list) > 0 {
		hint = "; there are " + strings.Join(list[:min(8, len(list))], ", ")
	}
	return fmt.Errorf("suggest: topic %q does not exist, or may not be described%s", c.Topic, hint)
}

// readChunk reads the records of a partition from an offset to another, and no more than a number of bytes.
func (t *topicSample) readChunk(ctx context.Context, f *kafka.Fetcher, p int, from, to, size int64) error {
	t.chunks = append(t.chunks, chunk{partition: p})
	ch := &t.chunks[len(t.chunks)-1]
	err := f.ReadRange(ctx, t.ranges[p].tp, from, to, func(r *record.Record) (bool, error) {
		if size -= int64(len(r.Key) + len(r.Value)); size < 0 && len(ch.records) > 0 {
			t.whole = false
			return false, nil
		}
		own := raw{offset: r.Offset, timestamp: cycle.Timestamp(r), key: clone(r.Key), value: clone(r.Value)}
		if r.HeaderCount > 0 {
			if id, ok := r.Header(schemas.SchemaIDHeader); ok {
				own.id = append([]byte{}, id...)
			}
		}
		ch.records = append(ch.records, own)
		return true, nil
	})
	var gone *kafka.OffsetOutOfRangeError
	if errors.As(err, &gone) { // retention is faster
		t.whole = false
		return nil
	}
	return err
}

// clone keeps nil, which is a tombstone or no key.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// detectedFormat says what the bytes of records look like.
type detectedFormat struct {
	values, framed, json, framedJSON int
	like                             map[string]int // by a format that says so itself
}

func (t *topicSample) look() (d detectedFormat) {
	d.like = map[string]int{}
	for i := range t.chunks {
		for j := range t.chunks[i].records {
			r := &t.chunks[i].records[j]
			v := r.value
			if v == nil {
				continue
			}
			d.values++
			switch {
			case r.id != nil:
				d.framed++
				if isJSON(v) {
					d.framedJSON++
				}
			case len(v) > 5 && v[0] == schemas.MagicID:
				d.framed++
				if isJSON(v[5:]) {
					d.framedJSON++
				}
			case len(v) > 10 && v[0] == schemas.SingleObject0 && v[1] == schemas.SingleObject1, len(v) > 17 && v[0] == schemas.MagicGUID,
				schemas.IsGlue(v):
				d.framed++
			case formats.Like(v) != "":
				d.like[formats.Like(v)]++
			case isJSON(v):
				d.json++
			}
		}
	}
	return d
}

func isJSON(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[' || b[0] == '-' || b[0] >= '0' && b[0] <= '9')
}
