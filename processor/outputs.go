package processor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
)

// outputs holds the topics that the worker writes, as the brokers describe them.
type outputs struct {
	topics     [outputCount]topic
	changelogs map[string]*topic // by input topic
}

type topic struct {
	name       string
	partitions int
	batchBytes int // bound of a batch, below the topic's max.message.bytes
}

// outgrown refuses a partition that its changelog does not have: the input topic
// has got more partitions since the start, or since the metadata that New saw.
func (o *outputs) outgrown(cfg *Config, tp kafka.TP) error {
	t := o.changelogs[tp.Topic]
	if t == nil || int(tp.Partition) < t.partitions { // nil: its records are only sent on
		return nil
	}
	return refuseGrown(cfg, tp.Topic, t, int(tp.Partition)+1)
}

// all lists the topics.
func (o *outputs) all() []*topic {
	var list []*topic
	for i := range o.topics {
		list = append(list, &o.topics[i])
	}
	for _, t := range o.changelogs {
		list = append(list, t)
	}
	return list
}

// leastBatch is the smallest bound of a batch that is tried.
const leastBatch = 512

// topicSlack is left of max.message.bytes for the batch header and estimates.
const topicSlack = 4 << 10

// open looks the topics up; cmd/worker has created what was to be created.
func (o *outputs) open(ctx context.Context, cfg *Config) error {
	var errs []error
	find := func(name, setting string, most int) topic {
		if name == "" {
			return topic{}
		}
		infos, err := cfg.Client.Topics(ctx, name)
		if err == nil && !infos[name].Exists {
			err = errors.New("it does not exist")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("processor: topic %q (%s): %w; create it or set ODRADEK_CREATE_TOPICS=true", name, setting, err))
			return topic{}
		}
		t := topic{name: name, partitions: infos[name].Partitions, batchBytes: cfg.MaxMessageBytes}
		if conf, err := cfg.Client.TopicConfig(ctx, name); err == nil {
			if n, err := strconv.Atoi(conf["max.message.bytes"]); err == nil {
				t.batchBytes = min(most, max(n-topicSlack, n/2, leastBatch))
			}
		}
		return t
	}
	for i := range Outputs {
		spec, most := &Outputs[i], cfg.MaxMessageBytes
		if spec.Copies {
			most = math.MaxInt32 // as large as the records of the input are
		}
		o.topics[i] = find(cfg.Outputs[i], "ODRADEK_"+spec.Setting, most)
		errs = append(errs, o.topics[i].holds(spec))
	}
	o.changelogs = map[string]*topic{}
	inputs := cfg.Topics
	if rekeyed := cfg.Outputs[OutputRekeyed]; rekeyed != "" {
		inputs = []string{rekeyed}
	}
	for _, in := range inputs {
		t := find(cfg.Changelog(in), "the changelog of "+in, cfg.MaxMessageBytes)
		o.changelogs[in] = &t
		infos, err := cfg.Client.Topics(ctx, in)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("processor: topic %q (ODRADEK_TOPICS): %w", in, err))
		case !infos[in].Exists:
			errs = append(errs, fmt.Errorf("processor: topic %q (ODRADEK_TOPICS) does not exist", in))
		case t.name != "" && infos[in].Partitions != t.partitions:
			if err := o.fit(ctx, cfg, in, &t, infos[in].Partitions); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// holds refuses a topic that does not hold the largest record of its row.
func (t *topic) holds(spec *OutputSpec) error {
	if t.name == "" || t.batchBytes >= spec.LargestRecord {
		return nil
	}
	return fmt.Errorf("processor: topic %q (ODRADEK_%s) takes batches of %d bytes, and one of %s with its headers has up to %d: "+
		"raise its max.message.bytes and ODRADEK_MAX_MESSAGE_BYTES, or %s", t.name, spec.Setting, t.batchBytes, spec.Holds,
		spec.LargestRecord, spec.Fix)
}

// copiedRecord is a record of the input on its way to a topic of such records; its
// bytes are copies, because the fetched ones are reused.
type copiedRecord struct {
	to         Output
	timestamp  int64
	key, value []byte
	headers    []record.Header // the record's own first, then ours
	own        int             // number of the record's own headers
	partition  int32
}

// copied copies b; nil stays nil.
func copied(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// maxErrorText bounds the text of a dead letter's header.
const maxErrorText = 1 << 10

// deadLetter keeps rec, byte for byte, for the dead-letter topic with the
// headers of KIP-1034 and the reason.
func (pt *partition) deadLetter(rec *record.Record, cause error) {
	pt.counts.Dead++
	class, field := "malformed", ""
	var de *schemas.DecodeError
	if errors.As(cause, &de) {
		class, field = de.Class, de.Field
	}
	text := fmt.Sprintf("%s/%d at offset %d: %v", pt.tp.Topic, pt.tp.Partition, rec.Offset, cause)
	pt.host.cfg.Metrics.DeadLetters(pt.tp, class, 1)
	pt.logDead(class, text)
	h := pt.originalHeaders(rec)
	own := len(h)
	h = append(h, pt.reason(class, text, rec.Offset)...)
	if field != "" {
		h = append(h, record.Header{Key: "odradek.error.field", Value: []byte(field)})
	}
	pt.copies = append(pt.copies, copiedRecord{to: OutputDeadLetters, timestamp: rec.Timestamp, key: copied(rec.Key), value: copied(rec.Value),
		headers: h, own: own, partition: pt.copyPartition(OutputDeadLetters, rec.Key)})
}

// reason is the headers of KIP-1034 that say why there is a dead letter.
func (pt *partition) reason(class, text string, offset int64) []record.Header {
	h := []record.Header{
		{Key: "__streams.errors.exception", Value: []byte("odradek." + class)},
		{Key: "__streams.errors.stacktrace", Value: nil},
		{Key: "__streams.errors.message", Value: []byte(text[:min(len(text), maxErrorText)])},
	}
	h = append(h, pt.sourceHeaders("__streams.errors.", offset)...)
	return append(h, record.Header{Key: "odradek.error.class", Value: []byte(class)})
}

// lateRecord keeps rec for the side topic of late records.
func (pt *partition) lateRecord(rec *record.Record, series []byte) {
	pt.lates.add(series, rec)
	h := pt.originalHeaders(rec)
	own := len(h)
	h = append(h, pt.sourceHeaders("odradek.source.", rec.Offset)...)
	pt.copies = append(pt.copies, copiedRecord{to: OutputLate, timestamp: rec.Timestamp, key: copied(rec.Key), value: copied(rec.Value),
		headers: h, own: own, partition: pt.copyPartition(OutputLate, rec.Key)})
}

// copyPartition keeps the records of a key in order, as any producer does; those
// without one stay with their source partition.
func (pt *partition) copyPartition(to Output, key []byte) int32 {
	partitions := pt.host.outputs.topics[to].partitions
	if key == nil {
		return pt.tp.Partition % int32(partitions)
	}
	return kafka.Partition(key, partitions)
}

// forwardRecord sends rec on to the internal topic, keyed by its series. What that
// topic does not hold is a dead letter here, whole: its end must not be cut off on
// the way to the decoder.
func (pt *partition) forwardRecord(rec *record.Record) {
	h := pt.originalHeaders(rec)
	own := len(h)
	h = append(h, pt.sourceHeaders("odradek.source.", rec.Offset)...)
	if size := record.BatchSize(pt.reading.Key, rec.Value, h); size > pt.forwardMost {
		pt.deadLetter(rec, &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf(
			"the record takes %d bytes in the internal topic of ODRADEK_REKEY, of at most %d: raise max.message.bytes of %s",
			size, pt.forwardMost, pt.host.outputs.topics[OutputRekeyed].name)})
		return
	}
	pt.counts.Forwarded++
	pt.copies = append(pt.copies, copiedRecord{to: OutputRekeyed, timestamp: rec.Timestamp,
		key: copied(pt.reading.Key), value: copied(rec.Value), headers: h, own: own,
		partition: kafka.Partition(pt.reading.Key, pt.host.outputs.topics[OutputRekeyed].partitions)})
}

func (pt *partition) originalHeaders(rec *record.Record) []record.Header {
	h := rec.AppendHeaders(nil)
	for i := range h {
		h[i].Value = copied(h[i].Value)
	}
	return h
}

func (pt *partition) sourceHeaders(prefix string, offset int64) []record.Header {
	return []record.Header{
		{Key: prefix + "topic", Value: []byte(pt.tp.Topic)},
		{Key: prefix + "partition", Value: strconv.AppendInt(nil, int64(pt.tp.Partition), 10)},
		{Key: prefix + "offset", Value: strconv.AppendInt(nil, offset, 10)},
	}
}

// logDead logs the first dead letter of a class and partition, and then how many
// there were, once a minute, so that a poisoned topic does not flood the log.
func (pt *partition) logDead(class, text string) {
	pt.trouble.warn(pt.log, class, "dead letter", "class", class, "err", text)
}

// latencySamples is how many rows of a chunk have their latency observed.
const latencySamples = 16

// writeScores encodes the chunk's rows into the cycle. Rows of one output
// partition usually come together, so its lock is kept from row to row.
func (pt *partition) writeScores(c *cycle, r *result, now time.Time) (bytes int, err error) {
	rows := pt.state.Rows
	if len(rows) == 0 {
		return 0, nil
	}
	t := &c.outs.topics[OutputScores]
	step := len(rows)/latencySamples + 1
	for i := 0; i < len(rows); i += step {
		r.work.Samples = append(r.work.Samples, rows[i].Time)
	}
	if t.name == "" {
		return 0, nil
	}
	var (
		ms   = now.UnixMilli()
		cur  *sink
		b    *record.Batches
		part = -1
		all  = c.sinks[OutputScores]
		some = pt.host.cfg.Scores == ScoresAnomalous
	)
	for i := range rows {
		row := &rows[i]
		if some && !row.Exceeds {
			continue
		}
		name := row.Key.Name()
		if row.Key.Tag == 0 {
			row.Key.Tag = 1 + uint32(kafka.Partition(name, len(all)))
		}
		if to := int(row.Key.Tag - 1); to != part {
			if cur != nil {
				cur.mu.Unlock()
			}
			part, cur = to, &all[to]
			b = c.lock(cur, t)
		}
		most := pt.enc.Most(name)
		value, e := b.Open(ms, name, most)
		if e != nil {
			// A series key is bounded, so this is a topic with a tiny limit.
			err = fmt.Errorf("processor: a score of up to %d bytes does not fit topic %s: %w; raise its max.message.bytes", most,
				t.name, e)
			break
		}
		n := pt.enc.Put(value, name, row.Time, row.About, int(row.Detector), float64(row.Score), output.ScoreState(row.State), row.Offset)
		b.Close(n)
		bytes += n + len(name) + 12
	}
	if cur != nil {
		cur.mu.Unlock()
	}
	return bytes, err
}

// writeCopies returns the writer of a topic of input records.
func writeCopies(to Output) func(*partition, *cycle, *result, time.Time) (int, error) {
	return func(pt *partition, c *cycle, _ *result, _ time.Time) (bytes int, err error) {
		t := &c.outs.topics[to]
		for i := range pt.copies {
			r := &pt.copies[i]
			if r.to != to {
				continue
			}
			s := &c.sinks[to][r.partition]
			b := c.lock(s, t)
			err := b.Append(r.timestamp, r.key, r.value, r.headers)
			if errors.Is(err, record.ErrTooLarge) && to != OutputRekeyed {
				err = appendTruncated(b, t, r)
			}
			s.mu.Unlock()
			if err != nil {
				return bytes, fmt.Errorf("processor: %s/%d: write to %s: %w; raise its max.message.bytes", pt.tp.Topic, pt.tp.Partition, t.name, err)
			}
			bytes += len(r.key) + len(r.value) + 256
		}
		return bytes, nil
	}
}

// appendTruncated writes what fits of a record that passes the topic's limit, and
// says in headers what is missing: of the value and the key the end, of the
// record's own headers all, and at a very low limit of our words the end. The
// record itself stays in the source topic at the coordinates that the headers give.
func appendTruncated(b *record.Batches, t *topic, r *copiedRecord) error {
	count := func(name string, n int) record.Header {
		return record.Header{Key: "odradek.truncated." + name, Value: strconv.AppendInt(nil, int64(n), 10)}
	}
	own, text := r.own, maxErrorText
	for n := min(len(r.value), t.batchBytes/2); ; {
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
		err := b.Append(r.timestamp, key, r.value[:n], h)
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

// snapshotBytes bounds the state that one chunk adds to a cycle.
const snapshotBytes = 4 << 20

// changelog locks the cycle's batches for the partition's changelog.
func (pt *partition) changelog(c *cycle) (s *sink, b *record.Batches, t *topic) {
	t = c.outs.changelogs[pt.tp.Topic]
	tp := kafka.TP{Topic: t.name, Partition: pt.tp.Partition}
	v, ok := c.changelog.Load(tp)
	if !ok {
		v, _ = c.changelog.LoadOrStore(tp, new(sink))
	}
	s = v.(*sink)
	return s, c.lock(s, t), t
}

// writeState snapshots the keys that hold the replay floor back until it is at
// want.
func (pt *partition) writeState(c *cycle, want int64, limit int) (bytes int, err error) {
	s, b, t := pt.changelog(c)
	defer s.mu.Unlock()
	ms := time.Now().UnixMilli()
	err = pt.state.Snapshot(want, limit, func(key, value []byte) error {
		bytes += len(key) + len(value)
		return b.Append(ms, key, value, nil)
	})
	if err != nil {
		return bytes, fmt.Errorf("processor: %s/%d: snapshot to %s: %w", pt.tp.Topic, pt.tp.Partition, t.name, err)
	}
	return bytes, nil
}
