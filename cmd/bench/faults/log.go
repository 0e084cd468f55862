package faults

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// This file checks the logs themselves, as brokers have them: with aborted records and with the markers that end transactions.
//
//   - Each transaction has ended, and no record of an older epoch follows one of a newer.
//   - What a reader of committed records gets is what committed transactions have written, and nothing else.
//   - The scores of a transaction are of the input whose offsets it commits, of all of it and of no other.
//   - The last state of each series in the changelog is the undisturbed worker's, which has folded the input from its begin.

// producer is what a record's batch names.
type producer struct {
	id    int64
	epoch int16
}

// entry is what is kept of a record.
type entry struct {
	offset     int64
	crc        uint64
	places     []at // in the input: of a record's scores, or what it commits
	key, value []byte
}

// part is what one transaction has written to one partition.
type part struct {
	kafkatest.TP
	producer
	records   []entry
	end       int64 // offset of the marker; -1: it is open
	committed bool
}

// parts collects the parts of transactions in logs.
type parts struct {
	open    map[kafkatest.TP]map[int64]*part // by producer id
	epochs  map[kafkatest.TP]map[int64]int16
	ended   []*part
	outside int // records of no transaction
	wrong   func(format string, args ...any)
}

func newParts(wrong func(format string, args ...any)) *parts {
	return &parts{open: map[kafkatest.TP]map[int64]*part{}, epochs: map[kafkatest.TP]map[int64]int16{}, wrong: wrong}
}

// opened returns the open transactions of a partition by producer id, after the next batch of one of them.
func (ps *parts) opened(tp kafkatest.TP, offset int64, p producer) map[int64]*part {
	if ps.open[tp] == nil {
		ps.open[tp], ps.epochs[tp] = map[int64]*part{}, map[int64]int16{}
	}
	if last, seen := ps.epochs[tp][p.id]; seen && p.epoch < last {
		ps.wrong("%v offset %d: producer %d has epoch %d after epoch %d: it was not fenced", tp, offset, p.id, p.epoch, last)
	}
	ps.epochs[tp][p.id] = p.epoch
	return ps.open[tp]
}

// add takes the next record of a partition that is of a transaction.
func (ps *parts) add(tp kafkatest.TP, p producer, e entry) {
	open := ps.opened(tp, e.offset, p)
	if open[p.id] == nil {
		open[p.id] = &part{TP: tp, producer: p, end: -1}
	}
	if first := open[p.id].epoch; first != p.epoch {
		ps.wrong("%v offset %d: a transaction of producer %d has the epochs %d and %d", tp, e.offset, p.id, first, p.epoch)
	}
	open[p.id].records = append(open[p.id].records, e)
}

// end takes the next marker. There may be nothing of the transaction that it ends.
func (ps *parts) end(tp kafkatest.TP, p producer, offset int64, committed bool) {
	open := ps.opened(tp, offset, p)
	if x := open[p.id]; x != nil {
		x.end, x.committed = offset, committed
		ps.ended = append(ps.ended, x)
		delete(open, p.id)
	}
}

// close returns the parts, of each partition in the order in which they took effect.
func (ps *parts) close() []*part {
	for tp, open := range ps.open {
		for id := range open {
			ps.wrong("%v: a transaction of producer %d is open", tp, id)
		}
	}
	return ps.ended
}

// commit is an offset that a transaction has committed.
type commit struct {
	before int64 // the offset after the last record that it covers
	by     *part
}

// chains returns the commits of each partition of the input, and says what is wrong with their order.
func chains(offsets []*part, wrong func(format string, args ...any)) map[int32][]commit {
	by := map[int32][]commit{}
	for _, p := range offsets {
		for _, e := range p.records {
			for _, x := range e.places {
				chain := by[x.partition]
				if n := len(chain); !p.committed {
					continue
				} else if n > 0 && x.offset < chain[n-1].before {
					wrong("partition %d of the input: offset %d is committed after %d", x.partition, x.offset, chain[n-1].before)
				}
				by[x.partition] = append(chain, commit{x.offset, p})
			}
		}
	}
	return by
}

// sourced wants the scores of each transaction to be of input whose offsets the same transaction commits, and those that
// belong to one commit to be of one transaction. It returns the transactions whose scores are of input that another has committed.
func sourced(scores []*part, chain map[int32][]commit, wrong func(format string, args ...any)) (apart []*part) {
	type half struct {
		kafkatest.TP
		offsets *part
	}
	seen := map[half]*part{}
	for _, s := range scores {
		if !s.committed {
			continue
		}
		var with *part // the offsets of the same transaction
		for _, e := range s.records {
			for _, place := range e.places {
				c := chain[place.partition]
				i := sort.Search(len(c), func(i int) bool { return c[i].before > place.offset })
				switch {
				case i == len(c):
					wrong("%v offset %d: no transaction commits the offset of its input, %v", s.TP, e.offset, place)
				case c[i].by.producer != s.producer:
					wrong("%v offset %d: producer %v wrote the score of %v, and producer %v committed its offset", s.TP, e.offset,
						s.producer, place, c[i].by.producer)
					if len(apart) == 0 || apart[len(apart)-1] != s {
						apart = append(apart, s)
					}
				case with != nil && c[i].by != with:
					wrong("%v offset %d: the scores of one transaction are of input that two have committed, %v is of the other", s.TP,
						e.offset, place)
				default:
					with = c[i].by
				}
			}
		}
		if other := seen[half{s.TP, with}]; with != nil && other != nil {
			wrong("%v: the transactions that end at %d and at %d have scores of input that one has committed", s.TP, other.end, s.end)
		}
		seen[half{s.TP, with}] = s
	}
	return apart
}

// String says where a part is and how it ended.
func (p *part) String() string {
	end := "is open"
	if p.end >= 0 {
		end = fmt.Sprintf("%s at %d", map[bool]string{true: "committed", false: "aborted"}[p.committed], p.end)
	}
	return fmt.Sprintf("%v from %d %s", p.TP, p.records[0].offset, end)
}

// last returns the last committed state of the series in each partition of a changelog, by key, without the offset that it was
// written at: that is the same for the undisturbed worker by chance alone.
func last(ended []*part) map[int32]map[string]string {
	state := map[int32]map[string]string{}
	for _, p := range ended {
		if !p.committed {
			continue
		}
		if state[p.Partition] == nil {
			state[p.Partition] = map[string]string{}
		}
		for _, r := range p.records {
			switch key := string(r.key); {
			case !strings.HasPrefix(key, seriesKey):
			case r.value == nil:
				delete(state[p.Partition], key)
			default:
				state[p.Partition][key] = string(withoutOffset(r.value))
			}
		}
	}
	return state
}

// The key of a series' state begins with seriesKey, its value with headBytes bytes and an offset.
const (
	seriesKey = "H"
	headBytes = 3
)

func withoutOffset(value []byte) []byte {
	if len(value) < headBytes {
		return value
	}
	_, n := binary.Uvarint(value[headBytes:])
	return value[headBytes+max(n, 0):]
}

// audit checks the logs of a round, and returns the number of transactions that committed offsets.
func (r *round) audit(ctx context.Context, input string, got *outputs, wrong func(format string, args ...any)) (transactions int,
	err error) {
	var one sync.Mutex // logs are read at once
	safely := func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		wrong(format, args...)
	}
	type log struct {
		topic string
		parts *parts
	}
	var reads []func() error
	reading := func(topic string, entryOf func(*kgo.Record) (entry, error)) *log {
		l := &log{topic, newParts(safely)}
		reads = append(reads, func() error { return r.readLog(ctx, topic, l.parts, entryOf) })
		return l
	}
	offsets := reading("__consumer_offsets", committing(r.group(), input))
	state := reading(changelog(r.group(), input), whole)
	reference := reading(changelog(r.group()+"-ref", input), whole)
	var published []*log
	for topic := range got.digest {
		entryOf := checksum
		if topic == r.group()+"-scores" {
			entryOf = scored
		}
		published = append(published, reading(topic, entryOf))
	}
	if err := together(reads...); err != nil {
		return 0, err
	}
	chain := chains(offsets.parts.close(), wrong)
	seen := map[*part]bool{}
	for _, c := range chain {
		for _, x := range c {
			seen[x.by] = true
		}
	}
	var apart []*part
	for _, l := range published {
		ended := l.parts.close()
		var d digest
		for _, p := range ended {
			for _, e := range p.records {
				if p.committed {
					d.Records++
					d.Sum += e.crc
				}
			}
		}
		if want := got.digest[l.topic]; d != want || l.parts.outside > 0 {
			wrong("%s: committed transactions wrote %+v, %d records are of none, and a reader got %+v", l.topic, d, l.parts.outside, want)
		}
		apart = append(apart, sourced(ended, chain, wrong)...)
	}
	for _, s := range apart[:min(len(apart), 2)] { // the whole transaction says where it was torn
		var all []string
		for _, l := range append(slices.Clone(published), offsets, state) {
			for _, p := range l.parts.ended {
				if p.producer == s.producer {
					all = append(all, p.String())
				}
			}
		}
		got.example("transaction of %v: %s", s.producer, strings.Join(all, ", "))
	}
	is, want := last(state.parts.close()), last(reference.parts.close())
	for _, p := range slices.Sorted(maps.Keys(want)) {
		different(p, is[p], want[p], wrong)
	}
	return len(seen), nil
}

// readLog adds the transactions in a topic's log to the parts.
func (r *round) readLog(ctx context.Context, topic string, ps *parts, entryOf func(*kgo.Record) (entry, error)) error {
	return r.c.Admin().ReadLog(ctx, topic, func(r *kgo.Record) error {
		tp, p := kafkatest.TP{Topic: r.Topic, Partition: r.Partition}, producer{r.ProducerID, r.ProducerEpoch}
		switch {
		case !r.Attrs.IsTransactional():
			ps.outside++
		case r.Attrs.IsControl(): // the key is a version and a type: 0 aborts, 1 commits
			ps.end(tp, p, r.Offset, len(r.Key) >= 4 && r.Key[3] == 1)
		default:
			e, err := entryOf(r)
			e.offset = r.Offset
			ps.add(tp, p, e)
			return err
		}
		return nil
	})
}

// changelog returns the name of a group's changelog of the input.
func changelog(group, input string) string {
	return config.ChangelogName(config.ChangelogPrefix(group), input)
}

// What is kept of a record: the offsets that it commits for a group and a topic, the places of its scores, its checksum, all.

func committing(group, topic string) func(*kgo.Record) (entry, error) {
	return func(r *kgo.Record) (e entry, err error) {
		var key kmsg.OffsetCommitKey
		var value kmsg.OffsetCommitValue
		if key.ReadFrom(r.Key) == nil && key.Version <= 1 && key.Group == group && key.Topic == topic && value.ReadFrom(r.Value) == nil {
			e.places = []at{{key.Partition, value.Offset}}
		}
		return e, nil
	}
}

func scored(r *kgo.Record) (entry, error) {
	e, err := checksum(r)
	if err == nil {
		err = eachScore(r.Value, func(id scoreID, _ float64, _ []byte) {
			if id.detector == level { // scores of change are of samples that were read before
				e.places = append(e.places, id.at)
			}
		})
	}
	if err != nil {
		err = fmt.Errorf("score at %s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return e, err
}

func checksum(r *kgo.Record) (entry, error) {
	var d digest
	d.add(r.Key, r.Value)
	return entry{crc: d.Sum}, nil
}

func whole(r *kgo.Record) (entry, error) { return entry{key: r.Key, value: r.Value}, nil }

// different compares the state of a partition with what it has to be.
func different(partition int32, got, want map[string]string, wrong func(format string, args ...any)) {
	for key, value := range want {
		if got[key] != value {
			wrong("changelog of partition %d: the state under key %q is not the undisturbed worker's: %d bytes, want %d", partition, key,
				len(got[key]), len(value))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			wrong("changelog of partition %d: the undisturbed worker has no state under key %q", partition, key)
		}
	}
}
