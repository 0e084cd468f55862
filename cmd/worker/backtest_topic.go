package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// topicSource opens the range of a topic that the flags name. The caller closes the client.
func (o *backtestOptions) topicSource(ctx context.Context, c *config.Config, state *state.Config, client *kafka.Client,
	registry *registry.Client) (backtest.Source, error) {
	dec, err := c.NewDecoder(registry)
	if err != nil {
		return nil, err
	}
	return backtest.NewTopic(ctx, &backtest.TopicConfig{
		Client: client, Decoder: dec, Series: c.Series(), State: state, Topic: o.inTopic, From: o.from, To: o.to,
		MaxFuture: c.Keys.MaxFuture, Patience: c.Registry.Grace,
		Fetch: c.FetchConfig(),
	})
}

// topicPublisher makes a publisher to the topics of -to-topic.
func topicPublisher(ctx context.Context, c *config.Config, state *state.Config, client *kafka.Client, registry *registry.Client,
	o *backtestOptions, partitions int) (backtest.Publisher, error) {
	p := &backtest.PublishConfig{State: state, Client: client, Name: o.toTopic, Partitions: partitions, Replication: c.Output.Replication,
		MaxMessage: int(c.Output.MaxMessage), NoSchemaID: c.Output.NoSchemaID(), Numbered: o.numbered}
	for _, topic := range p.Topics() {
		if fault := config.TopicFault(topic); fault != "" {
			return nil, fmt.Errorf("backtest: -to-topic: %q %s", topic, fault)
		}
		if slices.Contains(c.Output.Topics[:], topic) {
			return nil, fmt.Errorf("backtest: -to-topic %s: %s is where the group's workers publish; use another name", o.toTopic, topic)
		}
	}
	if registry != nil && !c.Output.NeedsNoSchemas() {
		p.Register = registry.Register
	}
	if c.Output.NeedsNoSchemas() {
		p.Headers = []record.Header{{Key: "content-type", Value: []byte(output.JSONType)}}
	}
	var err error
	if p.Compression, err = record.ParseCodec(c.Output.Compression); err != nil {
		return nil, err
	}
	return backtest.NewTopicPublisher(ctx, p)
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
