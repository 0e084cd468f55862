package cycle

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// copiedRecord is a record of the input on its way to a topic of such records; its
// bytes are copies, because the fetched ones are reused.
type copiedRecord struct {
	to         Output
	key, value []byte
	headers    []record.Header // the record's own first, then ours
	own        int             // number of the record's own headers
	partition  int32
}

func timestampHeader(rec *record.Record) record.Header {
	return record.Header{Key: TimestampHeader, Value: strconv.AppendInt(nil, Timestamp(rec), 10)}
}

// copyOf returns a copy of rec with its own headers.
func copyOf(rec *record.Record, to Output) copiedRecord {
	h := ownHeaders(rec)
	return copiedRecord{to: to, key: bytes.Clone(rec.Key), value: bytes.Clone(rec.Value), headers: h, own: len(h)}
}

// ownHeaders returns a copy of the headers of rec.
func ownHeaders(rec *record.Record) []record.Header {
	h := rec.AppendHeaders(nil)
	for i := range h {
		h[i].Value = bytes.Clone(h[i].Value)
	}
	return h
}

// maxErrorText bounds the text of a dead letter's header.
const maxErrorText = 1 << 10

// DeadLetter copies rec, byte for byte, to the dead-letter topic, with the headers of
// KIP-1034 and the reason: a class of errors, a text, and the field that could not be
// read, if it was one.
func (w *Writer) DeadLetter(rec *record.Record, class, text, field string) {
	c := copyOf(rec, DeadLetters)
	c.headers = append(append(c.headers, w.reason(class, text, rec.Offset)...), timestampHeader(rec))
	if field != "" {
		c.headers = append(c.headers, record.Header{Key: "odradek.error.field", Value: []byte(field)})
	}
	w.add(c)
}

// DeadBatch copies a batch that cannot be read to the dead-letter topic as it is in the
// log: its header, and its records as they were compressed.
func (w *Writer) DeadBatch(u *record.Unreadable, class, text string) {
	h := w.reason(class, text, u.First)
	number := func(name string, n int64) {
		h = append(h, record.Header{Key: "odradek.batch." + name, Value: strconv.AppendInt(nil, n, 10)})
	}
	number("first_offset", u.First)
	number("last_offset", u.Last)
	number("records", u.Records)
	// The records' own times are in the bytes that are damaged.
	w.add(copiedRecord{to: DeadLetters, value: bytes.Clone(u.Raw), headers: h})
}

// reason returns the headers of KIP-1034 that say why there is a dead letter.
func (w *Writer) reason(class, text string, offset int64) []record.Header {
	h := []record.Header{
		{Key: "__streams.errors.exception", Value: []byte("odradek." + class)},
		{Key: "__streams.errors.stacktrace", Value: nil},
		{Key: "__streams.errors.message", Value: []byte(text[:min(len(text), maxErrorText)])},
	}
	h = append(h, w.sourceHeaders("__streams.errors.", offset)...)
	return append(h, record.Header{Key: "odradek.error.class", Value: []byte(class)})
}

// Late copies rec to the topic of late records. If records may have several samples, headers name the late ones by their
// numbers in the record; samples has these numbers in rising order.
func (w *Writer) Late(rec *record.Record, samples []int) {
	c := copyOf(rec, Late)
	c.headers = append(append(c.headers, w.sourceHeaders("odradek.source.", rec.Offset)...), timestampHeader(rec))
	if w.state.SampleBits > 0 {
		c.headers = append(c.headers, record.Header{Key: "odradek.late.count", Value: strconv.AppendInt(nil, int64(len(samples)), 10)},
			record.Header{Key: "odradek.late.samples", Value: appendRanges(nil, samples)})
	}
	w.add(c)
}

// maxRanges bounds the length of the header with the numbers of late samples, in bytes.
const maxRanges = 8 << 10

// appendRanges appends rising numbers as ranges: 0-3,7. A text that would be longer than maxRanges ends with three dots.
func appendRanges(b []byte, numbers []int) []byte {
	for from := 0; from < len(numbers); {
		to := from + 1
		for to < len(numbers) && numbers[to] == numbers[to-1]+1 {
			to++
		}
		if from > 0 {
			b = append(b, ',')
		}
		if len(b) > maxRanges-32 {
			return append(b, "..."...)
		}
		b = strconv.AppendInt(b, int64(numbers[from]), 10)
		if to > from+1 {
			b = strconv.AppendInt(append(b, '-'), int64(numbers[to-1]), 10)
		}
		from = to
	}
	return b
}

// add adds a copied record, to the partition of its key as any producer does, so that records of
// a key stay in order; records without a key go to the partition of their source partition's number.
func (w *Writer) add(c copiedRecord) {
	partitions := w.topics.Outputs[c.to].Partitions
	if c.key == nil {
		c.partition = w.tp.Partition % int32(partitions)
	} else {
		c.partition = kafka.Partition(c.key, partitions)
	}
	w.copies = append(w.copies, c)
}

// CopyByKey copies rec to a topic, with another key. It does nothing but return the size of a record that a batch of most bytes
// does not hold.
func (w *Writer) CopyByKey(rec *record.Record, to Output, key []byte, most int) (tooLarge int) {
	c := copyOf(rec, to)
	c.headers = append(append(c.headers, w.sourceHeaders("odradek.source.", rec.Offset)...), timestampHeader(rec))
	if size := record.BatchSize(key, rec.Value, c.headers); size > most {
		return size
	}
	c.key = bytes.Clone(key)
	w.add(c)
	return 0
}

// WriteCopies adds the copied records to the payload, as Write does.
func (w *Writer) WriteCopies(p *Payload, now time.Time) (bytes int, err error) {
	for i := range Outputs {
		if Outputs[i].Copies {
			n, err := Outputs[i].write(w, p, nil, nil, now)
			if err != nil {
				return 0, err
			}
			bytes += n
		}
	}
	return bytes, nil
}

// writeCopies returns the writer of a topic of input records. truncate says what to do with one that no batch holds: write a
// part of it, or refuse it.
func writeCopies(to Output, truncate bool) func(*Writer, *Payload, *state.State, *metrics.Work, time.Time) (int, error) {
	return func(w *Writer, p *Payload, _ *state.State, _ *metrics.Work, now time.Time) (bytes int, err error) {
		t, ms := &p.topics.Outputs[to], now.UnixMilli()
		for i := range w.copies {
			r := &w.copies[i]
			if r.to != to {
				continue
			}
			err := p.add(&p.sinks[to][r.partition], t, w.tp, func(b *record.Batches) error {
				err := b.Append(ms, r.key, r.value, r.headers)
				if errors.Is(err, record.ErrTooLarge) && truncate {
					err = appendTruncated(b, t, ms, r)
				}
				return err
			})
			if err != nil {
				return bytes, fmt.Errorf("cycle: %s/%d: write to %s: %w; raise its max.message.bytes", w.tp.Topic, w.tp.Partition, t.Name, err)
			}
			bytes += len(r.key) + len(r.value) + 256
		}
		return bytes, nil
	}
}

// appendTruncated writes what fits of a record that passes the topic's limit, and
// says in headers what is missing: the end of the value and of the key, all of the
// record's own headers, and at a very low limit the end of the reason. The record itself
// stays in the source topic at the coordinates in the headers.
func appendTruncated(b *record.Batches, t *Topic, ms int64, r *copiedRecord) error {
	count := func(name string, n int) record.Header {
		return record.Header{Key: "odradek.truncated." + name, Value: strconv.AppendInt(nil, int64(n), 10)}
	}
	own, text := r.own, maxErrorText
	for n := min(len(r.value), t.BatchBytes/2); ; {
		h := append(r.headers[:own:own], count("size", len(r.value)))
		key := r.key[:min(len(r.key), max(n, 64))]
		if len(key) < len(r.key) {
			h = append(h, count("key", len(r.key)))
		}
		if own < r.own {
			h = append(h, count("headers", r.own))
		}
		for _, our := range r.headers[r.own:] {
			our.Value = our.Value[:min(len(our.Value), text)]
			h = append(h, our)
		}
		err := b.Append(ms, key, r.value[:n], h)
		switch {
		case !errors.Is(err, record.ErrTooLarge):
			return err
		case own > 0:
			own = 0
		case n > 0:
			n /= 2
		case text > maxSourceName:
			text = maxSourceName
		default:
			return err
		}
	}
}

// maxSourceName is the longest name of a topic: coordinates are never cut.
const maxSourceName = 249
