package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/preflight"
	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/outputs"
	"odradek/processor/provenance"
)

const stateAbout = `Shows or resets the state of a group: its changelog topics and its committed offsets.

  list     state by partition: committed offset, replay floor, records and bytes; -keys lists the series
  export   the changelog's live records as JSON lines
  reset    empties the state and commits a position to begin at; the group must not be running
  watermark  the newest event time and the watermark by partition; with -to and -yes repairs the effect of a wrong clock: sets
             the newest event time back and forgets the series with a later sample; the group must not be running
  resume     partitions that ODRADEK_STOP_ABOVE has paused go on, with dead letters for one more window, or with -to up to an offset or
             the end of the log; the workers read it from ODRADEK_FEEDBACK_TOPIC and need not stop`

const stateExamples = `  worker state list
  worker state list -topic sensors -partition 3 -keys
  worker state export -topic sensors -key pump-17 > pump-17.jsonl
  worker state reset -topic sensors -to committed -yes   # forget all series, resume where the group was
  worker state reset -to earliest -yes                   # score everything again
  worker state reset -topic sensors -partition 3 -to 4711 -yes   # step over what partition 3 cannot read
  worker state resume                                    # all that are paused, for one window of ODRADEK_STOP_ABOVE
  worker state resume -topic sensors -partition 3 -to 4711   # without another pause before offset 4711`

const stateWatermarkExamples = `
  worker state watermark -topic sensors
  worker state watermark -topic sensors -to 2026-01-31T08:00:00Z -yes   # after a clock of the year 2999`

// stateOptions are the flags of `state`.
type stateOptions struct {
	action    string
	topic     string
	partition int
	key       string
	keys      bool
	asJSON    bool
	to        string
	at        int64     // of -to, where it is an offset
	toTime    time.Time // of -to, for watermark
	yes       bool
	timeout   time.Duration
}

// wants reports whether -key names the series, directly or by its digest.
func (o *stateOptions) wants(series string) bool {
	return o.key == "" || o.key == series || o.key == keystate.Digest([]byte(series))
}

// offset reports whether -to is an offset, and keeps it.
func (o *stateOptions) offset() bool {
	at, err := strconv.ParseInt(o.to, 10, 64)
	o.at = at
	return err == nil && at >= 0
}

func (t terminal) state(ctx context.Context, args []string) int {
	var o stateOptions
	fs := t.flags("state list|export|reset|watermark|resume", stateAbout, stateExamples+stateWatermarkExamples)
	fs.StringVar(&o.topic, "topic", "", "input topic; default: all that the group has state of")
	fs.IntVar(&o.partition, "partition", -1, "partition; -1 for all")
	fs.StringVar(&o.key, "key", "", "list, export: only this series, by its key or by the digest that errors name")
	fs.BoolVar(&o.keys, "keys", false, "list: a line for each series")
	fs.BoolVar(&o.asJSON, "json", false, "list, watermark: one JSON object a line")
	fs.StringVar(&o.to, "to", "committed", "reset: where to begin: committed, earliest, latest, or an offset of the one partition that is "+
		"named; a partition without a committed offset begins at ODRADEK_START. watermark: the latest event time that is believed, like "+
		"2026-01-31T08:00:00Z. resume: latest, or an offset of the one partition that is named")
	fs.BoolVar(&o.yes, "yes", false, "reset, watermark: do it; without it only what would be done is printed")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.action, args = args[0], args[1:]
	}
	if code, done := parse(fs, args); done {
		return code
	}
	usage := func(format string, args ...any) int {
		fmt.Fprintf(t.err, "worker state: "+format+"\n", args...)
		return exitUsage
	}
	switch {
	case o.action == "watermark":
		if o.to != "committed" {
			at, err := time.Parse(time.RFC3339Nano, o.to)
			if err != nil {
				return usage("watermark: -to %q is not a time like 2026-01-31T08:00:00Z", o.to)
			}
			o.toTime = at
		} else if o.yes {
			return usage("watermark: -yes needs -to, the latest event time that is believed")
		}
	case o.action == "":
		return usage("say list, export, reset, watermark or resume; worker state -h tells more")
	case !slices.Contains([]string{"list", "export", "reset", "resume"}, o.action):
		return usage("no action %q; use list, export, reset, watermark or resume", o.action)
	case !slices.Contains([]string{"committed", "earliest", "latest"}, o.to) && !o.offset():
		return usage("-to %q is not one of committed, earliest, latest, nor an offset", o.to)
	case o.offset() && o.partition < 0:
		return usage("-to %s is an offset of one partition: name it with -partition, and its topic with -topic where there are several", o.to)
	case o.action == "resume" && o.to == "earliest":
		return usage("resume: -to is latest, or an offset of one partition")
	case o.action == "reset" && o.key != "":
		return usage("reset empties whole partitions: -key goes with list and export")
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	s, err := openStateTool(ctx, c, &o)
	if err != nil {
		return t.fail(err)
	}
	defer s.close()
	switch o.action {
	case "list":
		err = s.list(ctx, t)
	case "export":
		err = s.export(ctx, t)
	case "watermark":
		err = s.watermark(ctx, t)
	case "resume":
		err = s.resume(ctx, t)
	default:
		err = s.reset(ctx, t)
	}
	if err != nil {
		return t.fail(err)
	}
	return exitOK
}

// stateTool reads and resets the state of a group.
type stateTool struct {
	c       *config.Config
	o       *stateOptions
	client  *kafka.Client
	fetcher *fetch.Fetcher
	tps     []kafka.TP      // selected input partitions
	counts  map[string]int  // partitions of each of their topics
	logs    map[string]int  // partitions of each changelog, 0 where there is none
	stateOf map[string]bool // input topics that have state; the others only offsets
}

func openStateTool(ctx context.Context, c *config.Config, o *stateOptions) (*stateTool, error) {
	s := &stateTool{c: c, o: o, counts: map[string]int{}, logs: map[string]int{}, stateOf: map[string]bool{}}
	kc, err := c.KafkaConfig()
	if err != nil {
		return nil, err
	}
	if s.client, err = kafka.Open(ctx, kc); err != nil {
		return nil, err
	}
	s.fetcher = fetch.New(s.client, fetch.Config{ReadCommitted: true, MaxWait: 200 * time.Millisecond, MaxBytes: 16 << 20,
		PartitionBytes: 4 << 20})
	if err := s.find(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// find lists the selected partitions.
func (s *stateTool) find(ctx context.Context) error {
	topics := s.c.Group.Topics
	if s.c.Cycle.Rekey {
		topics = append(slices.Clone(topics), s.c.Output.Topics[outputs.Rekeyed])
		s.stateOf[s.c.Output.Topics[outputs.Rekeyed]] = true
	} else {
		for _, t := range topics {
			s.stateOf[t] = true
		}
	}
	if s.o.topic != "" {
		if !slices.Contains(topics, s.o.topic) {
			return fmt.Errorf("state: %q is none of the group's topics %s", s.o.topic, strings.Join(topics, ", "))
		}
		topics = []string{s.o.topic}
	}
	if err := preflight.KeepChangelogs(ctx, s.c, s.client, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	all := slices.Clone(topics)
	for _, t := range topics {
		all = append(all, s.c.ChangelogTopic(t))
	}
	infos, err := s.client.Topics(ctx, all...)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	for _, t := range topics {
		if !infos[t].Exists {
			return fmt.Errorf("state: topic %q does not exist, or may not be described", t)
		}
		s.counts[t] = infos[t].Partitions
		s.logs[t] = infos[s.c.ChangelogTopic(t)].Partitions
		for p := range infos[t].Partitions {
			if s.o.partition < 0 || s.o.partition == p {
				s.tps = append(s.tps, kafka.TP{Topic: t, Partition: int32(p)})
			}
		}
	}
	if len(s.tps) == 0 {
		return fmt.Errorf("state: no partition %d", s.o.partition)
	}
	return nil
}

func (s *stateTool) close() {
	s.fetcher.Close()
	s.client.Close()
}

// changelog returns the changelog partition of an input partition; ok is false where there
// is none.
func (s *stateTool) changelog(tp kafka.TP) (log kafka.TP, ok bool) {
	return kafka.TP{Topic: s.c.ChangelogTopic(tp.Topic), Partition: tp.Partition}, s.stateOf[tp.Topic] && int(tp.Partition) < s.logs[tp.Topic]
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
func (s *stateTool) read(ctx context.Context, log kafka.TP, values bool) ([]*stored, error) {
	first, err := s.client.ListOffsets(ctx, []kafka.TP{log}, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	// To the end of the log, not to the present last stable offset: a transaction may be
	// committed meanwhile.
	last, err := s.client.ListOffsets(ctx, []kafka.TP{log}, kafka.Latest)
	if err != nil {
		return nil, err
	}
	live := map[string]*stored{}
	var order []*stored
	err = s.fetcher.ReadRange(ctx, log, first[log], last[log], func(rec *record.Record) (bool, error) {
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
		case values || r.key == provenance.OwnerKey:
			r.value = append([]byte{}, rec.Value...)
		}
		return true, nil
	})
	return slices.DeleteFunc(order, func(r *stored) bool { return r.bytes < 0 }), err
}

// recordKinds names the types of changelog records: the first byte of a key, and
// how many numbers of 8 bytes follow the series in it (keystate's codec).
var recordKinds = map[byte]struct {
	name    string
	numbers int
}{'H': {"head", 0}, 'P': {"part", 1}, 'S': {"segment", 2}, 'B': {"held samples", 2}, 'E': {"eviction", 0},
	'D': {"decision", 1}, 'O': {"owner", 0}}

// splitRecordKey splits a changelog key; a key of another form is returned as the series. A
// decision has no series but a subject, which is left out, and the numbers of its
// kind and its offset.
func splitRecordKey(key string) (kind, series string, numbers []uint64) {
	if key == "" {
		return "unknown", key, nil
	}
	if key == provenance.SettingsKey {
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

// partitionState is a line of `state list`.
type partitionState struct {
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

func (s *stateTool) list(ctx context.Context, t terminal) error {
	committed, err := s.client.Committed(ctx, s.c.Group.Group, s.tps)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	if !s.o.asJSON {
		fmt.Fprintln(w, "topic\tpartition\tcommitted\treplay from\trecords to replay\tseries\trecords\tbytes")
	}
	for _, tp := range s.tps {
		p := partitionState{Topic: tp.Topic, Partition: tp.Partition, Committed: committed[tp].Offset, Floor: "none", Records: map[string]int{}}
		if f, err := keystate.ParseFloor(committed[tp].Metadata); err == nil {
			p.Floor, p.Replay = strconv.FormatInt(f.Offset, 10), max(0, p.Committed-f.Offset)
		}
		keys := map[string]int64{}
		if log, ok := s.changelog(tp); ok {
			recs, err := s.read(ctx, log, false)
			if err != nil {
				return fmt.Errorf("state: %w", err)
			}
			for _, r := range recs {
				kind, series, _ := splitRecordKey(r.key)
				if !s.o.wants(series) {
					continue
				}
				if kind == "head" {
					p.Series++
				}
				p.Records[kind]++
				if provenance.IsRecord(r.key) && r.key != provenance.OwnerKey {
					continue
				}
				if r.key == provenance.OwnerKey {
					owner, err := provenance.ParseOwner(r.value)
					if err == nil {
						p.Owner, err = owner.Group, owner.Foreign(log.Topic, s.c.Group.Group, tp)
					}
					if err != nil {
						fmt.Fprintln(t.err, "warning:", err)
					}
					continue
				}
				if p.Bytes += int64(r.bytes); kind != "decision" {
					keys[series] += int64(r.bytes)
				}
			}
		}
		if s.o.keys || s.o.key != "" {
			p.Keys = keys
		}
		if s.o.asJSON {
			if err := json.NewEncoder(t.out).Encode(p); err != nil {
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
			fmt.Fprintf(w, "\t\t\t\t%s\t%q\t\t%d\n", keystate.Digest([]byte(k)), k, p.Keys[k])
		}
	}
	return nil
}

// exported is a line of `state export`.
type exported struct {
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

func (s *stateTool) export(ctx context.Context, t terminal) error {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	for _, tp := range s.tps {
		log, ok := s.changelog(tp)
		if !ok {
			continue
		}
		recs, err := s.read(ctx, log, true)
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		for _, r := range recs {
			kind, series, numbers := splitRecordKey(r.key)
			if !s.o.wants(series) {
				continue
			}
			if err := enc.Encode(exported{tp.Topic, tp.Partition, r.offset, kind, series, keystate.Digest([]byte(series)), numbers, []byte(r.key),
				r.value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// errGroupActive reports that the group has members.
var errGroupActive = errors.New(
	"state: the group has members: stop its workers first (each drains at SIGTERM; one that was killed leaves after the session timeout)")
