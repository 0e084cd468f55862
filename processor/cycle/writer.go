package cycle

import (
	"fmt"
	"strconv"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// ScoresMode says which scores are published.
type ScoresMode int

// The modes of publishing scores.
const (
	ScoresAll       ScoresMode = iota
	ScoresAnomalous            // those above their detector's threshold
	ScoresNone
)

// Writer encodes the results of one input partition. It collects copies of input records
// until the next Write. One goroutine uses it.
type Writer struct {
	tp     kafka.TP
	topics *Topics
	state  *state.Config
	mode   ScoresMode

	scores    *output.ScoreEncoder
	anomalies [outputCount]*output.AnomalyEncoder // of Anomalies and ShadowAnomalies
	numbered  bool
	runs      *runs                        // nil: one record for each score
	headers   [outputCount][]record.Header // of every record, by output
	carried   *Carried
	value     []byte // of a record with headers
	copies    []copiedRecord
}

// NewWriter returns the writer of the input partition tp, whose state has the
// configuration state. Its scores and anomalies have the headers in carried.
func NewWriter(topics *Topics, tp kafka.TP, state *state.Config, ids *SchemaIDs, mode ScoresMode, carried *Carried) *Writer {
	names := make([]string, len(state.Detectors))
	for i := range names {
		names[i] = state.Detectors[i].Name
	}
	w := &Writer{
		tp: tp, topics: topics, state: state, mode: mode, carried: carried,
		scores: output.NewScoreEncoder(ids[Scores], tp.Topic, tp.Partition, names),
	}
	for _, to := range changeTopics {
		w.anomalies[to] = output.NewAnomalyEncoder(ids[to], tp.Topic, tp.Partition)
	}
	for i := range Outputs {
		if ids[i] == output.JSON {
			w.headers[i] = []record.Header{{Key: "content-type", Value: []byte(output.JSONType)}}
		}
	}
	return w
}

// Publish sets which scores are published from the next Write on.
func (w *Writer) Publish(mode ScoresMode) { w.mode = mode }

// Number has scores and anomalies name the number of their sample in its record, by the schemas that have it.
func (w *Writer) Number() {
	w.numbered = true
	w.scores.Number(w.state.SampleBits)
	for _, to := range changeTopics {
		w.anomalies[to].Number()
	}
}

// Write adds the results in s, and the copied records, to the payload. It returns about
// how many bytes they take. After an error some of them are in the payload, which then
// must not be committed.
func (w *Writer) Write(p *Payload, s *state.State, work *metrics.Work, now time.Time) (bytes int, err error) {
	for i := range Outputs {
		n, err := Outputs[i].write(w, p, s, work, now)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// Reset discards the copied records.
func (w *Writer) Reset() {
	clear(w.copies)
	w.copies = w.copies[:0]
}

// sourceHeaders returns the coordinates of an input record as headers.
func (w *Writer) sourceHeaders(prefix string, offset int64) []record.Header {
	return []record.Header{
		{Key: prefix + "topic", Value: []byte(w.tp.Topic)},
		{Key: prefix + "partition", Value: strconv.AppendInt(nil, int64(w.tp.Partition), 10)},
		{Key: prefix + "offset", Value: strconv.AppendInt(nil, offset, 10)},
	}
}

// latencySamples is how many rows of a chunk have their latency observed.
const latencySamples = 16

// writeScores encodes the rows of s. Rows of one output partition usually come
// together, so its lock is held from row to row.
func (w *Writer) writeScores(p *Payload, s *state.State, work *metrics.Work, now time.Time) (bytes int, err error) {
	rows := s.Rows
	if len(rows) == 0 {
		return 0, nil
	}
	t := &p.topics.Outputs[Scores]
	step := len(rows)/latencySamples + 1
	for i := 0; i < len(rows); i += step {
		work.Samples = append(work.Samples, rows[i].Time)
	}
	if t.Name == "" || w.mode == ScoresNone {
		return 0, nil
	}
	to := target{p: p, topic: t, input: w.tp, sinks: p.sinks[Scores], partition: -1}
	defer to.unlock() // after a panic, too: other partitions write to the sink
	if w.runs != nil {
		return w.writeRuns(&to, now.UnixMilli(), rows)
	}
	ms := now.UnixMilli()
	for i := range rows {
		row := &rows[i]
		if w.mode == ScoresAnomalous && !row.Exceeds {
			continue
		}
		name := row.Key.Name()
		n, err := w.writeScore(to.batches(row.Key, name), ms, row, name)
		if err != nil {
			return bytes, scoreTooLarge(n, t, err)
		}
		bytes += n + len(name) + 12
	}
	return bytes, nil
}

// scoreTooLarge is the error of a score of up to n bytes. A series key is bounded, so this is a topic with a tiny limit.
func scoreTooLarge(n int, t *Topic, err error) error {
	return fmt.Errorf("cycle: a score of up to %d bytes does not fit topic %s: %w; raise its max.message.bytes", n, t.Name, err)
}

// target is the partition of the scores topic that rows are added to, with its lock.
type target struct {
	p         *Payload
	topic     *Topic
	input     kafka.TP
	sinks     []sink // by partition
	partition int    // -1: none yet
	locked    *sink
	b         *record.Batches
}

// batches returns the batches of a series' partition, which it locks.
func (t *target) batches(k *state.Key, name []byte) *record.Batches {
	if k.Tag == 0 {
		k.Tag = 1 + uint32(kafka.Partition(name, len(t.sinks)))
	}
	if to := int(k.Tag - 1); to != t.partition {
		t.unlock()
		t.b = t.p.lock(&t.sinks[to], t.topic, t.input)
		t.partition, t.locked = to, &t.sinks[to]
	}
	return t.b
}

func (t *target) unlock() {
	if t.locked != nil {
		t.locked.mu.Unlock()
		t.locked = nil
	}
}

// writeScore adds a row to b. It returns the bytes of the value, or how many it may have where they do not fit.
func (w *Writer) writeScore(b *record.Batches, ms int64, row *state.Row, name []byte) (n int, err error) {
	score, state, offset := float64(row.Score), output.ScoreState(row.State), w.state.Record(row.Offset)
	headers := w.headers[Scores]
	if w.carried.Any() {
		headers = w.carried.Headers(headers, offset, row.Behind)
	}
	if w.numbered {
		offset = row.Offset
	}
	if len(headers) > 0 {
		w.value = w.scores.Append(w.value[:0], name, row.Time, row.About, int(row.Detector), score, state, offset, row.Remaining,
			PredictionOf(row))
		return len(w.value), b.Append(ms, name, w.value, headers)
	}
	most := w.scores.Most(name)
	value, err := b.Open(ms, name, most)
	if err != nil {
		return most, err
	}
	n = w.scores.Put(value, name, row.Time, row.About, int(row.Detector), score, state, offset, row.Remaining, PredictionOf(row))
	b.Close(n)
	return n, nil
}

// PredictionOf returns what a row's detector expected.
func PredictionOf(row *state.Row) output.Prediction {
	return output.Prediction{Predicted: row.Predicted, Expected: row.Expected, Spread: float64(row.Spread)}
}

// blockHeaders bounds the bytes of a block's headers and of what the record's batch adds.
const blockHeaders = 4 << 10

// writeBlocks writes the blocks that detectors made of whole windows, byte for byte,
// keyed by series. Headers say what a block is and of which samples.
func (w *Writer) writeBlocks(p *Payload, s *state.State, _ *metrics.Work, now time.Time) (bytes int, err error) {
	t, sinks := &p.topics.Outputs[Blocks], p.sinks[Blocks]
	if t.Name == "" {
		return 0, nil
	}
	for i := range s.Blocks {
		row := &s.Blocks[i]
		key := row.Key.Name()
		h := append(w.sourceHeaders("odradek.source.", w.state.Record(row.Offset)),
			record.Header{Key: "content-type", Value: []byte(row.MediaType)},
			record.Header{Key: "odradek.detector", Value: []byte(w.state.Detectors[row.Detector].Name)},
			record.Header{Key: "odradek.from", Value: strconv.AppendInt(nil, row.About, 10)},
			record.Header{Key: "odradek.to", Value: strconv.AppendInt(nil, row.Until, 10)})
		if w.numbered && w.state.SampleBits > 0 {
			h = append(h, record.Header{Key: "odradek.source.sample", Value: strconv.AppendInt(nil, int64(w.state.Number(row.Offset)), 10)})
		}
		err := p.add(&sinks[kafka.Partition(key, len(sinks))], t, w.tp, func(b *record.Batches) error {
			return b.Append(now.UnixMilli(), key, row.Data, h)
		})
		if err != nil {
			return bytes, fmt.Errorf("cycle: a block of %d bytes does not fit topic %s: %w; raise its max.message.bytes",
				len(row.Data), t.Name, err)
		}
		bytes += len(key) + len(row.Data) + blockHeaders/16
	}
	return bytes, nil
}
