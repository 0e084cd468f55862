package backtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/output"
)

// publishBytes is the size of the records that are sent together.
const publishBytes = 4 << 20

// PublishConfig says where a publisher writes to, and how.
type PublishConfig struct {
	State       *state.Config
	Client      *kafka.Client
	Name        string // the topics are <name>-scores and <name>-anomalies, which are created where they are missing
	Partitions  int    // of a created topic, as is Replication
	Replication int
	Compression record.Codec
	MaxMessage  int // bytes of a batch
	// Register registers the schema of a topic's subject and returns its id; nil: records are written with NoSchemaID.
	Register   func(ctx context.Context, subject, schema string) (int32, error)
	NoSchemaID int32
	Numbered   bool            // records have the number of their sample in its source record
	Headers    []record.Header // of each record
}

// Topics returns the names of the topics.
func (c *PublishConfig) Topics() []string { return []string{c.Name + "-scores", c.Name + "-anomalies"} }

// topicPublisher writes the scores and anomalies of a backtest to topics of its own, in the records
// of the stream, with an idempotent producer and without transactions.
type topicPublisher struct {
	c                 *PublishConfig
	ctx               context.Context
	producer          *kafka.Producer
	scores, anomalies kafka.TopicInfo
	scoreID           int32
	anomalyID         int32

	mu     sync.Mutex
	out    map[kafka.TP]*record.Batches
	bytes  int
	encs   map[int32]*output.ScoreEncoder
	events map[int32]*output.AnomalyEncoder
	value  []byte
}

// NewTopicPublisher creates the topics where they are missing, and registers their schemas.
func NewTopicPublisher(ctx context.Context, c *PublishConfig) (Publisher, error) {
	p := &topicPublisher{c: c, ctx: context.WithoutCancel(ctx), scoreID: c.NoSchemaID, anomalyID: c.NoSchemaID,
		out: map[kafka.TP]*record.Batches{}, encs: map[int32]*output.ScoreEncoder{}, events: map[int32]*output.AnomalyEncoder{}}
	topics := c.Topics()
	scores, anomalies := output.ScoreSchema, output.AnomalySchema
	if c.Numbered {
		scores, anomalies = output.NumberedScoreSchema, output.NumberedAnomalySchema
	}
	for _, t := range []struct {
		topic, schema string
		info          *kafka.TopicInfo
		id            *int32
	}{{topics[0], scores, &p.scores, &p.scoreID}, {topics[1], anomalies, &p.anomalies, &p.anomalyID}} {
		if err := c.Client.Admin.CreateTopic(ctx, t.topic, c.Partitions, c.Replication, nil); err != nil {
			return nil, fmt.Errorf("backtest: create topic %q: %w", t.topic, err)
		}
		infos, err := c.Client.Admin.Topics(ctx, t.topic)
		if err != nil {
			return nil, fmt.Errorf("backtest: topic %q: %w", t.topic, err)
		}
		*t.info = infos[t.topic]
		if c.Register == nil {
			continue
		}
		if *t.id, err = c.Register(ctx, schemas.Subject(t.topic), t.schema); err != nil {
			return nil, fmt.Errorf("backtest: register the schema of %s: %w", t.topic, err)
		}
	}
	p.producer = c.Client.NewProducer(kafka.ProducerConfig{})
	if err := p.producer.Init(ctx); err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	return p, nil
}

// batches returns the batches of the topic's partition for a series key.
func (p *topicPublisher) batches(t *kafka.TopicInfo, key []byte) *record.Batches {
	tp := kafka.TP{Topic: t.Name, Partition: kafka.Partition(key, t.Partitions)}
	b := p.out[tp]
	if b == nil {
		b = record.NewBatches(p.c.MaxMessage, p.c.Compression)
		p.out[tp] = b
	}
	return b
}

func (p *topicPublisher) put(t *kafka.TopicInfo, key []byte) error {
	if err := p.batches(t, key).Append(time.Now().UnixMilli(), key, p.value, p.c.Headers); err != nil {
		return fmt.Errorf("backtest: publish to %s: %w", t.Name, err)
	}
	if p.bytes += len(key) + len(p.value); p.bytes < publishBytes {
		return nil
	}
	return p.flush()
}

func (p *topicPublisher) flush() error {
	if p.bytes == 0 {
		return nil
	}
	if err := p.producer.Produce(p.ctx, p.out); err != nil {
		return fmt.Errorf("backtest: publish: %w", err)
	}
	for _, b := range p.out {
		b.Reset()
	}
	p.bytes = 0
	return nil
}

func (p *topicPublisher) stateOf(partition *Partition) *state.Config {
	return partition.stateOf(&Config{State: p.c.State})
}

// names returns the names of a partition's detectors.
func (p *topicPublisher) names(partition *Partition) (names []string) {
	state := p.stateOf(partition)
	for i := range state.Detectors {
		names = append(names, state.Detectors[i].Name)
	}
	return names
}

// Scores implements Publisher.
func (p *topicPublisher) Scores(partition *Partition, rows []state.Row) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	enc := p.encs[partition.Number]
	if enc == nil {
		enc = output.NewScoreEncoder(p.scoreID, partition.Topic, partition.Number, p.names(partition))
		if p.c.Numbered {
			enc.Number(p.c.State.SampleBits)
		}
		p.encs[partition.Number] = enc
	}
	for i := range rows {
		r := &rows[i]
		name, offset := r.Key.Name(), r.Offset // with the sample's number
		if !p.c.Numbered {
			offset = p.c.State.Record(offset)
		}
		p.value = enc.Append(p.value[:0], name, r.Time, r.About, int(r.Detector), float64(r.Score), output.ScoreState(r.State), offset,
			r.Remaining, cycle.PredictionOf(r))
		if err := p.put(&p.scores, name); err != nil {
			return err
		}
	}
	return nil
}

// Anomaly implements Publisher.
func (p *topicPublisher) Anomaly(partition *Partition, e *state.EventRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	enc := p.events[partition.Number]
	if enc == nil {
		enc = output.NewAnomalyEncoder(p.anomalyID, partition.Topic, partition.Number)
		if p.c.Numbered {
			enc.Number()
		}
		p.events[partition.Number] = enc
	}
	a := cycle.AnomalyRecord(e, p.stateOf(partition))
	p.value = enc.Append(p.value[:0], &a)
	return p.put(&p.anomalies, a.Key)
}

// Close sends what is left.
func (p *topicPublisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flush()
}
