package admin

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// This file reads the dead letters of a group and sends them again, each once.
//
// A letter is a record that the worker could not read, byte for byte, behind whose headers
// the worker has put its own: the reason, and the coordinates of the record (docs/operations/dead-letters.md lists them).
// Redrive writes the records that can be read by now to where they came from, or to another topic,
// and in the same transactions to a topic of its own which letters those were (ledger).

// Headers of a letter. The first of the worker's own is either exceptionHeader or, of a letter
// that was cut off, one that begins with truncatedPrefix.
const (
	streamsPrefix   = "__streams.errors."
	exceptionHeader = streamsPrefix + "exception"
	classHeader     = "odradek.error.class"
	fieldHeader     = "odradek.error.field"
	batchPrefix     = "odradek.batch."
	truncatedPrefix = "odradek.truncated."
	exceptionMark   = "odradek."
)

// Headers that Redrive adds to a record.
const (
	AttemptsHeader = "odradek.redrive.attempts" // how often the record has been sent again, this time included
	FromHeader     = "odradek.redrive.from"     // the letter: topic/partition/offset
)

// Batch says which records of the source a letter of a whole batch stands for.
type Batch struct {
	First   int64 `json:"first_offset"`
	Last    int64 `json:"last_offset"`
	Records int64 `json:"records"`
}

// Letter is a dead letter: a record that the worker could not read, with the reason and the place that it came from.
type Letter struct {
	TP        kafka.TP
	Offset    int64
	Timestamp int64 // of the record, in milliseconds; of a whole batch the letter's
	Key       []byte
	Value     []byte
	Headers   []record.Header // the record's own, without the headers that the worker and Redrive add

	Class        string // "" where the worker has not written it
	Field        string
	Message      string
	Source       kafka.TP
	SourceOffset int64 // -1: not known
	Attempts     int   // how often it was sent again before
	Batch        *Batch
	Truncated    bool // key, value or headers are not complete
}

// Parse reads a letter. It copies what it keeps.
func Parse(tp kafka.TP, rec *record.Record) *Letter {
	l := &Letter{TP: tp, Offset: rec.Offset, Timestamp: rec.Timestamp, Key: bytes.Clone(rec.Key), Value: bytes.Clone(rec.Value),
		SourceOffset: -1}
	all := rec.AppendHeaders(nil)
	for i := range all {
		all[i].Value = bytes.Clone(all[i].Value)
	}
	own := ownCount(all)
	for _, h := range all[own:] {
		l.note(h.Key, string(h.Value))
	}
	for _, h := range all[:own] {
		switch h.Key {
		case AttemptsHeader:
			l.Attempts, _ = strconv.Atoi(string(h.Value))
		case FromHeader:
		default:
			l.Headers = append(l.Headers, h)
		}
	}
	return l
}

// ownCount returns how many headers the record itself had. The worker's begin at the last
// exceptionHeader, and may follow others of that name, of a record that was a letter of
// another program already.
func ownCount(all []record.Header) int {
	i := len(all) - 1
	for i >= 0 && !(all[i].Key == exceptionHeader && strings.HasPrefix(string(all[i].Value), exceptionMark)) {
		i--
	}
	if i < 0 {
		return len(all)
	}
	for i > 0 && strings.HasPrefix(all[i-1].Key, truncatedPrefix) {
		i--
	}
	return i
}

func (l *Letter) note(key, value string) {
	number := func() int64 {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	switch key {
	case streamsPrefix + "topic":
		l.Source.Topic = value
	case streamsPrefix + "partition":
		l.Source.Partition = int32(number())
	case streamsPrefix + "offset":
		l.SourceOffset = number()
	case streamsPrefix + "message":
		l.Message = value
	case classHeader:
		l.Class = value
	case cycle.TimestampHeader:
		l.Timestamp = number()
	case fieldHeader:
		l.Field = value
	}
	switch {
	case strings.HasPrefix(key, truncatedPrefix):
		l.Truncated = true
	case strings.HasPrefix(key, batchPrefix):
		if l.Batch == nil {
			l.Batch = &Batch{}
		}
		switch strings.TrimPrefix(key, batchPrefix) {
		case "first_offset":
			l.Batch.First = number()
		case "last_offset":
			l.Batch.Last = number()
		case "records":
			l.Batch.Records = number()
		}
	}
}

// Header returns the value of the record's last own header of that name.
func (l *Letter) Header(name string) ([]byte, bool) {
	for _, h := range slices.Backward(l.Headers) {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// Filter selects letters. Its zero value with Partition -1 selects all.
type Filter struct {
	Classes   []string // reasons; none: all
	Topic     string   // of the source; "": any
	Partition int32    // of the source; -1: any
	From, To  time.Time
	At        *kafka.TP // with AtOffset, one letter by its own coordinates; the topic does not count
	AtOffset  int64
}

// Selects reports whether the filter selects the letter; it compares times with the record's timestamp.
func (f *Filter) Selects(l *Letter) bool {
	at := time.UnixMilli(l.Timestamp)
	switch {
	case f.At != nil && (l.TP.Partition != f.At.Partition || l.Offset != f.AtOffset),
		len(f.Classes) > 0 && !slices.Contains(f.Classes, l.Class),
		f.Topic != "" && l.Source.Topic != f.Topic,
		f.Partition >= 0 && l.Source.Partition != f.Partition,
		!f.From.IsZero() && at.Before(f.From),
		!f.To.IsZero() && !at.Before(f.To):
		return false
	}
	return true
}
