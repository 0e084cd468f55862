package admin

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
)

// This file reads, resets and repairs what a consumer group has stored: its changelog topics and its
// committed offsets. `worker state` is its command line.

// Options are the flags of `worker state`.
type Options struct {
	Topic     string
	Partition int
	Key       string
	Keys      bool
	JSON      bool
	To        string
	At        int64         // of To, where it is an offset
	ToTime    time.Time     // of To, for Watermark
	Warmup    time.Duration // of Reset: the group fills its windows from the input of this long before To; 0: it does not
	// Agree is asked whether to do what was printed; an error means that nothing is to be changed.
	Agree  func(question string) error
	Author string // of a resumption
}

// wants reports whether Key names the series, directly or by its digest.
func (o *Options) wants(series string) bool {
	return o.Key == "" || o.Key == series || o.Key == state.Digest([]byte(series))
}

// Offset reports whether To is an offset, and stores it in At.
func (o *Options) Offset() bool {
	at, err := strconv.ParseInt(o.To, 10, 64)
	o.At = at
	return err == nil && at >= 0
}

// Group reads and resets the state of a group.
type Group struct {
	c       *config.Config
	o       *Options
	out     io.Writer // results
	err     io.Writer // what is done
	client  *kafka.Client
	fetcher *kafka.Fetcher
	tps     []kafka.TP      // selected input partitions
	counts  map[string]int  // partitions of each of their topics
	logs    map[string]int  // partitions of each changelog, 0 where there is none
	stateOf map[string]bool // input topics that have state; the others only offsets
}

// OpenGroup connects to the cluster and finds the selected partitions.
func OpenGroup(ctx context.Context, c *config.Config, o *Options, out, errs io.Writer) (*Group, error) {
	s := &Group{c: c, o: o, out: out, err: errs, counts: map[string]int{}, logs: map[string]int{}, stateOf: map[string]bool{}}
	kc, err := c.KafkaConfig()
	if err != nil {
		return nil, err
	}
	if s.client, err = kafka.Open(ctx, kc); err != nil {
		return nil, err
	}
	s.fetcher = kafka.NewFetcher(s.client, kafka.FetchConfig{ReadCommitted: true, MaxWait: 200 * time.Millisecond, MaxBytes: 16 << 20,
		PartitionBytes: 4 << 20})
	if err := s.find(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// find lists the selected partitions.
func (g *Group) find(ctx context.Context) error {
	if _, err := FindTopics(ctx, g.c, g.client.Admin); err != nil {
		return err
	}
	topics := g.c.Consumed()
	for _, t := range g.c.Scored() {
		g.stateOf[t] = true
	}
	if g.o.Topic != "" {
		if !slices.Contains(topics, g.o.Topic) {
			return fmt.Errorf("admin: %q is none of the group's topics %s", g.o.Topic, strings.Join(topics, ", "))
		}
		topics = []string{g.o.Topic}
	}
	all := slices.Clone(topics)
	for _, t := range topics {
		all = append(all, g.c.ChangelogTopic(t))
	}
	infos, err := g.client.Admin.Topics(ctx, all...)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for _, t := range topics {
		if !infos[t].Exists {
			return fmt.Errorf("admin: topic %q does not exist, or may not be described", t)
		}
		g.counts[t] = infos[t].Partitions
		g.logs[t] = infos[g.c.ChangelogTopic(t)].Partitions
		for p := range infos[t].Partitions {
			if g.o.Partition < 0 || g.o.Partition == p {
				g.tps = append(g.tps, kafka.TP{Topic: t, Partition: int32(p)})
			}
		}
	}
	if len(g.tps) == 0 {
		return fmt.Errorf("admin: no partition %d", g.o.Partition)
	}
	return nil
}

// committedOffsets returns what the groups of the workers have committed.
func committedOffsets(ctx context.Context, c *config.Config, client *kafka.Client, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	all := map[kafka.TP]kafka.Offset{}
	for group, tps := range byGroup(c, slices.Values(tps)) {
		offs, err := client.Offsets.Committed(ctx, group, tps)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, offs)
	}
	return all, nil
}

// byGroup returns partitions by the group that reads them.
func byGroup(c *config.Config, tps iter.Seq[kafka.TP]) map[string][]kafka.TP {
	by := map[string][]kafka.TP{}
	for tp := range tps {
		by[c.GroupOf(tp.Topic)] = append(by[c.GroupOf(tp.Topic)], tp)
	}
	return by
}

// Close ends the connections.
func (g *Group) Close() {
	g.fetcher.Close()
	g.client.Close()
}

// changelog returns the changelog partition of an input partition; ok is false where there
// is none.
func (g *Group) changelog(tp kafka.TP) (log kafka.TP, ok bool) {
	return kafka.TP{Topic: g.c.ChangelogTopic(tp.Topic), Partition: tp.Partition}, g.stateOf[tp.Topic] && int(tp.Partition) < g.logs[tp.Topic]
}

// stored is one live record of a changelog.
type stored struct {
	key    string
	offset int64
	value  []byte // nil without values
	bytes  int
}

// read returns the live records of a changelog partition in the order of their
// first appearance.
func (g *Group) read(ctx context.Context, log kafka.TP, values bool) ([]*stored, error) {
	first, err := g.client.Offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	// To the end of the log, not to the present last stable offset: a transaction may be
	// committed meanwhile.
	last, err := g.client.Offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Latest)
	if err != nil {
		return nil, err
	}
	live := map[string]*stored{}
	var order []*stored
	err = g.fetcher.ReadRange(ctx, log, first[log], last[log], func(rec *record.Record) (bool, error) {
		r := live[string(rec.Key)]
		if r == nil {
			r = &stored{key: string(rec.Key)}
			live[r.key] = r
			order = append(order, r)
		}
		r.offset, r.bytes, r.value = rec.Offset, len(rec.Key)+len(rec.Value), nil
		switch {
		case rec.Value == nil:
			r.bytes = -1 // a tombstone
		case values || r.key == processor.OwnerKey:
			r.value = append([]byte{}, rec.Value...)
		}
		return true, nil
	})
	return slices.DeleteFunc(order, func(r *stored) bool { return r.bytes < 0 }), err
}

// recordKinds names the types of changelog records: the first byte of a key, and
// how many numbers of 8 bytes follow the series in it (the codec of package changelog).
var recordKinds = map[byte]struct {
	name    string
	numbers int
}{'H': {"head", 0}, 'P': {"head fragment", 1}, 'S': {"segment", 2}, 'B': {"held samples", 2}, 'E': {"eviction", 0},
	'D': {"decision", 1}, 'O': {"owner", 0}}

// splitRecordKey splits a changelog key; a key of another form is returned as the series. A
// decision has no series but a subject, which is left out, and the numbers of its
// kind and its offset.
func splitRecordKey(key string) (kind, series string, numbers []uint64) {
	if key == "" {
		return "unknown", key, nil
	}
	if key == processor.SettingsKey {
		return "settings", "", nil
	}
	k, ok := recordKinds[key[0]]
	end := len(key) - 8*k.numbers
	if !ok || end < 1 {
		return "unknown", key, nil
	}
	for i := range k.numbers {
		numbers = append(numbers, binary.BigEndian.Uint64([]byte(key[end+8*i:])))
	}
	if key[0] == 'D' && end > 1 {
		return k.name, "", append([]uint64{uint64(key[1])}, numbers...)
	}
	return k.name, key[1:end], numbers
}

// PartitionState is a line of List.
type PartitionState struct {
	Topic     string           `json:"topic"`
	Partition int32            `json:"partition"`
	Committed int64            `json:"committed"` // -1: none
	Floor     string           `json:"replay_floor"`
	Replay    int64            `json:"replay_records"`
	Series    int              `json:"series"`
	Records   map[string]int   `json:"records"`         // by kind
	Owner     string           `json:"owner,omitempty"` // the group whose state the changelog holds
	Bytes     int64            `json:"bytes"`
	Keys      map[string]int64 `json:"keys,omitempty"` // bytes of each series
}

// List prints the state by partition.
func (g *Group) List(ctx context.Context) error {
	committed, err := committedOffsets(ctx, g.c, g.client, g.tps)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	if !g.o.JSON {
		fmt.Fprintln(w, "topic\tpartition\tcommitted\treplay from\trecords to replay\tseries\trecords\tbytes")
	}
	for _, tp := range g.tps {
		p := PartitionState{Topic: tp.Topic, Partition: tp.Partition, Committed: committed[tp].Offset, Floor: "none", Records: map[string]int{}}
		if f, err := state.ParseFloor(committed[tp].Metadata); err == nil {
			p.Floor, p.Replay = strconv.FormatInt(f.Offset, 10), max(0, p.Committed-f.Offset)
		}
		keys := map[string]int64{}
		if log, ok := g.changelog(tp); ok {
			recs, err := g.read(ctx, log, false)
			if err != nil {
				return fmt.Errorf("admin: %w", err)
			}
			for _, r := range recs {
				kind, series, _ := splitRecordKey(r.key)
				if !g.o.wants(series) {
					continue
				}
				if kind == "head" {
					p.Series++
				}
				p.Records[kind]++
				if processor.IsRecord(r.key) && r.key != processor.OwnerKey {
					continue
				}
				if r.key == processor.OwnerKey {
					owner, err := processor.ParseOwner(r.value)
					if err == nil {
						p.Owner, err = owner.Group, owner.Foreign(log.Topic, g.c.Group.Group, tp)
					}
					if err != nil {
						fmt.Fprintln(g.err, "warning:", err)
					}
					continue
				}
				if p.Bytes += int64(r.bytes); kind != "decision" {
					keys[series] += int64(r.bytes)
				}
			}
		}
		if g.o.Keys || g.o.Key != "" {
			p.Keys = keys
		}
		if g.o.JSON {
			if err := json.NewEncoder(g.out).Encode(p); err != nil {
				return err
			}
			continue
		}
		n := 0
		for _, k := range p.Records {
			n += k
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\n", p.Topic, p.Partition, p.Committed, p.Floor, p.Replay, p.Series, n, p.Bytes)
		names := make([]string, 0, len(p.Keys))
		for k := range p.Keys {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			fmt.Fprintf(w, "\t\t\t\t%s\t%q\t\t%d\n", state.Digest([]byte(k)), k, p.Keys[k])
		}
	}
	return nil
}

// Exported is a line of Export.
type Exported struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"` // in the changelog
	Kind      string   `json:"kind"`
	Series    string   `json:"series"`
	Digest    string   `json:"digest"` // of the series, as errors name it
	Numbers   []uint64 `json:"numbers,omitempty"`
	Key       []byte   `json:"key"` // base64, as the value
	Value     []byte   `json:"value"`
}

// Export prints the live records of the changelogs as JSON lines.
func (g *Group) Export(ctx context.Context) error {
	enc := json.NewEncoder(g.out)
	enc.SetEscapeHTML(false)
	for _, tp := range g.tps {
		log, ok := g.changelog(tp)
		if !ok {
			continue
		}
		recs, err := g.read(ctx, log, true)
		if err != nil {
			return fmt.Errorf("admin: %w", err)
		}
		for _, r := range recs {
			kind, series, numbers := splitRecordKey(r.key)
			if !g.o.wants(series) {
				continue
			}
			if err := enc.Encode(Exported{tp.Topic, tp.Partition, r.offset, kind, series, state.Digest([]byte(series)), numbers, []byte(r.key),
				r.value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// errGroupActive reports that the group has members.
var errGroupActive = errors.New(
	"admin: the group has members: stop its workers first (each drains at SIGTERM; one that was killed leaves after the session timeout)")
