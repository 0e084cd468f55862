// Package feedback reads the feedback of operators and gives it to the partitions: mute rules, labels of anomalies, and orders to
// resume a paused partition.
//
// The feedback topic is compacted, so a replay cannot read it again as of an offset. A partition's owner therefore writes the
// rules that it finds to the changelog, as a decision with all of their content (Follow).
package feedback

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// Partitions is the number of partitions of a new feedback topic.
const Partitions = 1

// Configs is the configuration of a new feedback topic.
var Configs = map[string]string{"cleanup.policy": "compact"}

// How often the topic is looked for, and when it is there, its end.
const (
	lookEvery = 10 * time.Second
	pollEvery = time.Second
)

// Reader keeps up with a feedback topic. Its methods but Rules and Resume are for one goroutine.
type Reader struct {
	client  *kafka.Client
	topic   string
	least   int // false alarms of a kind that teach a rule; 0: none do
	log     *slog.Logger
	trouble metrics.FailureLog
	fetcher *kafka.Fetcher // nil while there is no topic
	tps     []kafka.TP
	next    map[kafka.TP]int64
	rules   map[string]Mute       // by the record's key
	resumes map[string]Resume     // by the record's key
	labels  map[string]timedLabel // by the record's key
	current atomic.Pointer[Rules]
	resumed atomic.Pointer[map[kafka.TP]Resume]
}

// Resume says that a partition, paused before the record at Offset for its dead letters, goes on; the records before
// Until do not pause it again.
type Resume = output.Resume

// NewReader returns a reader of a topic, which need not exist. So many false alarms of a kind teach a rule; 0: none do.
func NewReader(client *kafka.Client, topic string, learnFrom int, log *slog.Logger) *Reader {
	return &Reader{client: client, topic: topic, least: learnFrom, log: log, rules: map[string]Mute{}, resumes: map[string]Resume{},
		labels: map[string]timedLabel{}}
}

// Rules returns the rules as of the last poll; nil before the first. Any goroutine may call it.
func (r *Reader) Rules() *Rules { return r.current.Load() }

// Resume returns the resume of a partition as of the last poll. Any goroutine may call it.
func (r *Reader) Resume(tp kafka.TP) (Resume, bool) {
	all := r.resumed.Load()
	if all == nil {
		return Resume{}, false
	}
	at, ok := (*all)[tp]
	return at, ok
}

// Run polls the topic until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	defer r.close()
	for {
		r.Poll(ctx)
		pause := pollEvery
		if r.fetcher == nil {
			pause = lookEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (r *Reader) close() {
	if r.fetcher != nil {
		r.fetcher.Close()
		r.fetcher = nil
	}
}

// Poll reads what is new in the topic. A failure is logged, and the rules stay as they are.
func (r *Reader) Poll(ctx context.Context) {
	err := r.poll(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.close() // the topic may be gone
		r.trouble.Warn(r.log, "feedback", "the feedback topic cannot be read; what was read of it stays in force", "topic", r.topic, "err", err)
	default:
		r.trouble.Over(r.log, "feedback")
	}
}

func (r *Reader) poll(ctx context.Context) error {
	if r.fetcher == nil {
		infos, err := r.client.Admin.Topics(ctx, r.topic)
		if err != nil {
			return err
		}
		switch info := infos[r.topic]; {
		case !info.Authorized: // nothing is known of it
			return nil
		case !info.Exists && !r.client.Admin.Unknown(ctx, r.topic):
			return nil // some broker knows it, or does not answer
		}
		clear(r.rules)
		clear(r.resumes)
		clear(r.labels)
		if !infos[r.topic].Exists {
			r.publish()
			return nil
		}
		r.tps, r.next = nil, map[kafka.TP]int64{}
		for p := range infos[r.topic].Partitions {
			r.tps = append(r.tps, kafka.TP{Topic: r.topic, Partition: int32(p)})
		}
		r.fetcher = kafka.NewFetcher(r.client, kafka.FetchConfig{ReadCommitted: true})
	}
	ends, err := r.client.Offsets.ListStable(ctx, r.tps)
	if err != nil {
		return err
	}
	changed := false
	for _, tp := range r.tps {
		from, end := r.next[tp], ends[tp]
		if from == end {
			continue
		}
		if end < from {
			return fmt.Errorf("%s ends at offset %d, before %d, which was read: it was created again", tp, end, from)
		}
		first, err := r.client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, kafka.Earliest)
		if err != nil {
			return err
		}
		if err := r.fetcher.ReadRange(ctx, tp, max(from, first[tp]), end, func(rec *record.Record) (bool, error) {
			r.apply(rec)
			return true, nil
		}); err != nil {
			return err
		}
		r.next[tp] = end
		changed = true
	}
	if changed || r.current.Load() == nil {
		r.publish()
	}
	return nil
}

// apply applies a record.
func (r *Reader) apply(rec *record.Record) {
	id := string(rec.Key)
	delete(r.rules, id)
	delete(r.resumes, id)
	delete(r.labels, id)
	if rec.Value == nil {
		return
	}
	f, err := output.DecodeFeedback(rec.Value)
	if err == nil {
		if f.Resume != nil {
			r.resumes[id] = *f.Resume
		}
		m, ok := MuteOf(&f)
		if why := m.Check(); ok && why != "" {
			err = fmt.Errorf("feedback: %s", why)
		} else if ok {
			r.rules[id] = m
		}
		if label, ok := LabelOf(&f); ok {
			if r.labels[id] = (timedLabel{label, f.WrittenAt}); len(r.labels) > 2*rules.MaxLabels {
				r.labels = newest(r.labels, rules.MaxLabels)
			}
		}
	}
	if err != nil {
		r.log.Warn("a record of the feedback topic is left out", "topic", r.topic, "offset", rec.Offset, "err", err)
	}
}

// publish installs resumes and rules for Resume and Rules to return.
func (r *Reader) publish() {
	resumed := make(map[kafka.TP]Resume, len(r.resumes))
	for _, at := range r.resumes {
		tp := kafka.TP{Topic: at.Topic, Partition: at.Partition}
		if last, ok := resumed[tp]; !ok || at.Offset > last.Offset {
			resumed[tp] = at
		}
	}
	r.resumed.Store(&resumed)
	list := InForce(slices.Collect(maps.Values(r.rules)))
	if len(list) < len(r.rules) {
		r.log.Warn("there are more mute rules than fit: those that end first are not in force; remove some (worker mute remove)",
			"topic", r.topic, "rules", len(r.rules), "in_force", len(list))
	}
	now := &Rules{mutes: list, least: r.least}
	if r.least > 0 {
		now.labels = valid(r.labels)
	}
	if n := len(r.labels); n > rules.MaxLabels {
		r.log.Warn("there are more labels of anomalies than the workers learn from: the newest count; remove some (worker mute remove)",
			"topic", r.topic, "labels", n, "most", rules.MaxLabels)
	}
	old := r.current.Load()
	if old != nil && old.equal(now) {
		return
	}
	now.learnAs(old)
	r.current.Store(now)
	if len(list) > 0 || r.fetcher != nil {
		r.log.Info("mute rules, and labels to learn from", "topic", r.topic, "rules", len(list), "labels", len(now.labels))
	}
}
