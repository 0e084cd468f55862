package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Header is a record's header.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as it was written or read back.
type Record struct {
	Topic      string
	Partition  int32 // when producing: -1 takes the key's, by Java's hash
	Offset     int64
	Time       int64 // milliseconds since the epoch; when producing: 0 is now
	Key, Value []byte
	Headers    []Header
}

// TP returns the record's partition.
func (r *Record) TP() TP { return TP{r.Topic, r.Partition} }

// Header returns the value of the last header of that name.
func (r *Record) Header(name string) ([]byte, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == name {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}

// Equal reports whether key, value and headers are the same, nil and empty apart.
func (r *Record) Equal(o *Record) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	if !same(r.Key, o.Key) || !same(r.Value, o.Value) || len(r.Headers) != len(o.Headers) {
		return false
	}
	for i := range r.Headers {
		if r.Headers[i].Key != o.Headers[i].Key || !same(r.Headers[i].Value, o.Headers[i].Value) {
			return false
		}
	}
	return true
}

// sortRecords sorts by topic, partition and offset.
func sortRecords(rs []Record) {
	sort.SliceStable(rs, func(i, j int) bool {
		if a, b := rs[i].TP(), rs[j].TP(); a != b {
			return less(a, b)
		}
		return rs[i].Offset < rs[j].Offset
	})
}

// ReadAll reads a topic from its first offset to the end that it has at the
// call, in order of partition and offset. With committed it reads to the last
// stable offset and leaves out aborted records (see Admin.WaitStable), else to
// the high watermark and leaves out nothing but control records.
func ReadAll(ctx context.Context, brokers []string, topic string, committed bool) ([]Record, error) {
	a, err := NewAdmin(brokers)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.ReadAll(ctx, topic, committed)
}

// ReadAll reads a topic from its first offset to its end; see the function
// ReadAll.
func (a *Admin) ReadAll(ctx context.Context, topic string, committed bool) ([]Record, error) {
	var out []Record
	err := a.Read(ctx, topic, committed, func(r *Record) error { out = append(out, *r); return nil })
	sortRecords(out)
	return out, err
}

// Read calls f with each record of a topic from its first offset to the end
// that it has at the call; partitions are interleaved, each in order. The record
// is f's to keep. Leaders may move and brokers restart meanwhile.
func (a *Admin) Read(ctx context.Context, topic string, committed bool, f func(*Record) error) error {
	which := HighWatermark
	if committed {
		which = LastStable
	}
	ends, err := a.Ends(ctx, topic, which)
	if err != nil {
		return err
	}
	at, err := a.Ends(ctx, topic, Earliest)
	if err != nil {
		return err
	}
	return a.ReadRange(ctx, topic, committed, at, ends, f)
}

// ReadRange calls f with the records of each partition from the offset in from to before
// the offset in to. It advances by the position in the log, not by the last record seen, so
// it also finishes a partition that ends in aborted records and markers.
func (a *Admin) ReadRange(ctx context.Context, topic string, committed bool, from, to map[int32]int64, f func(*Record) error) error {
	isolation := kgo.ReadUncommitted()
	if committed {
		isolation = kgo.ReadCommitted()
	}
	return a.readRange(ctx, topic, kgo.ProcessFetchPartitionOpts{IsolationLevel: isolation}, committed, from, to,
		func(r *kgo.Record) error { return f(record(r)) })
}

// ReadLog calls f with everything in the log of a topic: also with the records of aborted and of open transactions, and with
// the markers that end transactions.
func (a *Admin) ReadLog(ctx context.Context, topic string, f func(*kgo.Record) error) error {
	to, err := a.Ends(ctx, topic, HighWatermark)
	if err != nil {
		return err
	}
	from, err := a.Ends(ctx, topic, Earliest)
	if err != nil {
		return err
	}
	all := kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadUncommitted(), KeepControlRecords: true}
	return a.readRange(ctx, topic, all, false, from, to, f)
}

func (a *Admin) readRange(ctx context.Context, topic string, opts kgo.ProcessFetchPartitionOpts, committed bool, from, to map[int32]int64,
	f func(*kgo.Record) error) error {
	at := make(map[int32]int64)
	for p, end := range to {
		if from[p] < end {
			at[p] = from[p]
		}
	}
	decompress := kgo.DefaultDecompressor()
	for len(at) > 0 {
		m, err := a.metadata(ctx, topic)
		if err != nil {
			return err
		}
		if err := failed("read "+topic, m.Topics[0].ErrorCode, nil); err != nil {
			return err
		}
		leaders := make(map[int32][]int32)
		for _, p := range m.Topics[0].Partitions {
			if _, ok := at[p.Partition]; ok && p.Leader >= 0 {
				leaders[p.Leader] = append(leaders[p.Leader], p.Partition)
			}
		}
		moved := len(leaders) == 0 // some leader is not where it was
		for !moved && len(leaders) > 0 {
			for leader, ps := range leaders {
				res, err := a.fetch(ctx, leader, m.Topics[0], ps, at, committed)
				if err != nil {
					moved = true
					delete(leaders, leader)
					continue
				}
				for _, t := range res.Topics {
					for i := range t.Partitions {
						rp := &t.Partitions[i]
						if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
							if !kerr.IsRetriable(err) {
								return fmt.Errorf("kafkatest: read %s/%d at %d: %w", topic, rp.Partition, at[rp.Partition], err)
							}
							moved = true
							continue
						}
						opts.Topic, opts.Partition, opts.Offset = topic, rp.Partition, at[rp.Partition]
						fp, next := kgo.ProcessFetchPartition(opts, rp, decompress, nil)
						if fp.Err != nil {
							return fmt.Errorf("kafkatest: read %s/%d at %d: %w", topic, rp.Partition, at[rp.Partition], fp.Err)
						}
						for _, r := range fp.Records {
							if r.Offset < to[rp.Partition] {
								if err := f(r); err != nil {
									return err
								}
							}
						}
						at[rp.Partition] = next
					}
				}
				var left []int32
				for _, p := range ps {
					if at[p] < to[p] {
						left = append(left, p)
					} else {
						delete(at, p)
					}
				}
				if leaders[leader] = left; len(left) == 0 {
					delete(leaders, leader)
				}
			}
		}
		if len(at) > 0 && moved {
			select {
			case <-ctx.Done():
				return fmt.Errorf("kafkatest: read %s: %w at %v of %v", topic, ctx.Err(), at, to)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func (a *Admin) fetch(ctx context.Context, leader int32, topic kmsg.MetadataResponseTopic, ps []int32, at map[int32]int64,
	committed bool) (*kmsg.FetchResponse, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 32<<20
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = *topic.Topic, topic.TopicID
	for _, p := range ps {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, at[p], 4<<20
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	res, err := req.RequestWith(ctx, a.cl.Broker(int(leader)))
	if err != nil {
		return nil, err
	}
	return res, kerr.ErrorForCode(res.ErrorCode)
}

func record(r *kgo.Record) *Record {
	out := &Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{h.Key, h.Value})
	}
	return out
}

// Ledger is what a producer knows of the records that it was given.
type Ledger struct {
	mu                      sync.Mutex
	acked, refused, unknown []Record
	aborted                 []Record
}

// Acked returns the records that are in the log, by topic, partition and offset;
// of a transactional producer, those whose transaction was committed.
func (l *Ledger) Acked() []Record { return l.copy(&l.acked) }

// Aborted returns the records of transactions that were aborted.
func (l *Ledger) Aborted() []Record { return l.copy(&l.aborted) }

// Refused returns the records that are certainly not in the log.
func (l *Ledger) Refused() []Record { return l.copy(&l.refused) }

// Unknown returns the records that may or may not be in the log, once at most:
// the answer was lost.
func (l *Ledger) Unknown() []Record { return l.copy(&l.unknown) }

func (l *Ledger) copy(from *[]Record) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := append([]Record(nil), *from...)
	sortRecords(out)
	return out
}

func (l *Ledger) note(r *kgo.Record, err error) {
	rec := record(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	var refusal *kerr.Error
	switch {
	case err == nil:
		l.acked = append(l.acked, *rec)
	case errors.As(err, &refusal) && !refusal.Retriable:
		l.refused = append(l.refused, *rec)
	default:
		l.unknown = append(l.unknown, *rec)
	}
}
