package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"odradek/cmd/worker/backtests"
	"odradek/cmd/worker/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/outputs"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// topicSource opens the range of a topic that the flags name. The caller closes the client.
func (o *backtestOptions) topicSource(ctx context.Context, c *config.Config, client *kafka.Client,
	registry *registry.Client) (backtests.Source, error) {
	opts, err := c.DecoderOptions()
	if err != nil {
		return nil, err
	}
	dec, err := formats.NewDecoder(c.SchemaMapping(), registry, opts)
	if err != nil {
		return nil, err
	}
	return backtests.NewTopic(ctx, &backtests.TopicConfig{
		Client: client, Decoder: dec, Topic: o.inTopic, From: o.from, To: o.to, MaxFuture: c.Keys.MaxFuture, Patience: c.Registry.Grace,
		Fetch: fetch.Config{ReadCommitted: true, MaxWait: c.Fetch.MaxWait, MinBytes: int(c.Fetch.MinBytes),
			MaxBytes:       int(c.Fetch.MaxBytes),
			PartitionBytes: int(c.Fetch.PartitionBytes)},
	})
}

// publishBytes is the size of the records that are sent together.
const publishBytes = 4 << 20

// publisher writes the scores and anomalies of a backtest to topics of its own, in the records
// of the stream, with an idempotent producer and without transactions.
type publisher struct {
	c                 *config.Config
	ctx               context.Context
	state             *keystate.Config
	producer          *kafka.Producer
	scores, anomalies kafka.TopicInfo
	scoreID           int32
	anomalyID         int32
	headers           []record.Header
	names             []string

	mu     sync.Mutex
	out    map[kafka.TP]*record.Batches
	bytes  int
	encs   map[int32]*output.ScoreEncoder
	events map[int32]*output.AnomalyEncoder
	value  []byte
}

// newPublisher creates the topics <name>-scores and <name>-anomalies where they are missing
// and registers their schemas.
func newPublisher(ctx context.Context, c *config.Config, state *keystate.Config, client *kafka.Client, registry *registry.Client,
	name string,
	partitions int) (*publisher, error) {
	p := &publisher{c: c, ctx: context.WithoutCancel(ctx), state: state, scoreID: c.Output.NoSchemaID(), anomalyID: c.Output.NoSchemaID(),
		out: map[kafka.TP]*record.Batches{}, encs: map[int32]*output.ScoreEncoder{}, events: map[int32]*output.AnomalyEncoder{}}
	if c.Output.NeedsNoSchemas() {
		p.headers = []record.Header{{Key: "content-type", Value: []byte(output.JSONType)}}
	}
	for i := range state.Detectors {
		p.names = append(p.names, state.Detectors[i].Name)
	}
	for _, t := range []struct {
		topic  string
		schema string
		info   *kafka.TopicInfo
		id     *int32
	}{{name + "-scores", output.ScoreSchema, &p.scores, &p.scoreID}, {name + "-anomalies", output.AnomalySchema, &p.anomalies,
		&p.anomalyID}} {
		if fault := config.TopicFault(t.topic); fault != "" {
			return nil, fmt.Errorf("backtest: -to-topic: %q %s", t.topic, fault)
		}
		if slices.Contains(c.Output.Topics[:], t.topic) {
			return nil, fmt.Errorf("backtest: -to-topic %s: %s is where the group's workers publish; use another name", name, t.topic)
		}
		if err := client.CreateTopic(ctx, t.topic, partitions, c.Output.Replication, nil); err != nil {
			return nil, fmt.Errorf("backtest: create topic %q: %w", t.topic, err)
		}
		infos, err := client.Topics(ctx, t.topic)
		if err != nil {
			return nil, fmt.Errorf("backtest: topic %q: %w", t.topic, err)
		}
		*t.info = infos[t.topic]
		if registry == nil || c.Output.NeedsNoSchemas() {
			continue
		}
		if *t.id, err = registry.Register(ctx, schemas.Subject(t.topic), t.schema); err != nil {
			return nil, fmt.Errorf("backtest: register the schema of %s: %w", t.topic, err)
		}
	}
	p.producer = client.NewProducer(kafka.ProducerConfig{})
	if err := p.producer.Init(ctx); err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	return p, nil
}

// batches returns the batches of the topic's partition for a series key.
func (p *publisher) batches(t *kafka.TopicInfo, key []byte) (*record.Batches, error) {
	tp := kafka.TP{Topic: t.Name, Partition: kafka.Partition(key, t.Partitions)}
	b := p.out[tp]
	if b == nil {
		codec, err := record.ParseCodec(p.c.Output.Compression)
		if err != nil {
			return nil, err
		}
		b = record.NewBatches(int(p.c.Output.MaxMessage), codec)
		p.out[tp] = b
	}
	return b, nil
}

func (p *publisher) put(t *kafka.TopicInfo, key []byte) error {
	b, err := p.batches(t, key)
	if err == nil {
		err = b.Append(time.Now().UnixMilli(), key, p.value, p.headers)
	}
	if err != nil {
		return fmt.Errorf("backtest: publish to %s: %w", t.Name, err)
	}
	if p.bytes += len(key) + len(p.value); p.bytes < publishBytes {
		return nil
	}
	return p.flush()
}

func (p *publisher) flush() error {
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

// Scores implements backtests.Publisher.
func (p *publisher) Scores(partition *backtests.Partition, rows []keystate.Row) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	enc := p.encs[partition.Number]
	if enc == nil {
		enc = output.NewScoreEncoder(p.scoreID, partition.Topic, partition.Number, p.names)
		p.encs[partition.Number] = enc
	}
	for i := range rows {
		r := &rows[i]
		name := r.Key.Name()
		p.value = enc.Append(p.value[:0], name, r.Time, r.About, int(r.Detector), float64(r.Score), output.ScoreState(r.State), r.Offset)
		if err := p.put(&p.scores, name); err != nil {
			return err
		}
	}
	return nil
}

// Anomaly implements backtests.Publisher.
func (p *publisher) Anomaly(partition *backtests.Partition, e *keystate.EventRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	enc := p.events[partition.Number]
	if enc == nil {
		enc = output.NewAnomalyEncoder(p.anomalyID, partition.Topic, partition.Number)
		p.events[partition.Number] = enc
	}
	a := outputs.AnomalyRecord(e, p.state)
	p.value = enc.Append(p.value[:0], &a)
	return p.put(&p.anomalies, a.Key)
}

// Close sends what is left.
func (p *publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flush()
}

// backtestCluster opens the client and the registry that a topic needs; the returned function
// closes both.
func backtestCluster(ctx context.Context, c *config.Config) (client *kafka.Client, registry *registry.Client, closeBoth func() error,
	err error) {
	cfg, err := c.KafkaConfig()
	if err != nil {
		return nil, nil, nil, err
	}
	if client, err = kafka.Open(ctx, cfg); err != nil {
		return nil, nil, nil, err
	}
	if registry, err = c.NewRegistry(); err != nil {
		return nil, nil, nil, errors.Join(err, client.Close())
	}
	return client, registry, func() error {
		if registry != nil {
			registry.Close()
		}
		return client.Close()
	}, nil
}
