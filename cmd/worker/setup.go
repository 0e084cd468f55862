package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/processor/kafka"
)

// setupOptions are the flags of `setup`.
type setupOptions struct {
	inputPartitions  int
	inputReplication int
}

// setup creates the topics and schemas that run creates at its start, and input topics on
// request.
func (t terminal) setup(ctx context.Context, args []string) int {
	fs := t.flags("setup",
		`Creates the output topics and changelogs that are missing and registers the schemas of what is published, then ends:
once, before the workers, so that these can do with ODRADEK_CREATE_TOPICS=false. What is there is left as it is. While brokers or
registry do not answer it tries again, for two minutes.`,
		"  worker setup\n  worker setup -input-partitions 8    # the input topics, too")
	var o setupOptions
	fs.IntVar(&o.inputPartitions, "input-partitions", 0, "create missing input topics with this many partitions; 0: they have to be there")
	fs.IntVar(&o.inputReplication, "input-replication", -1, "replication factor of created input topics; -1 for the brokers' default")
	if code, done := parse(fs, args); done {
		return code
	}
	if o.inputPartitions < 0 || o.inputPartitions > 100_000 {
		fmt.Fprintf(t.err, "worker setup: -input-partitions %d: use 0 to 100000\n", o.inputPartitions)
		return exitUsage
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	c.Output.CreateTopics = true // ODRADEK_CREATE_TOPICS is for run
	log := newLogger(t.err, c, new(slog.LevelVar), page.NewFaults(1))
	until := time.Now().Add(admin.StartLimit)
	if err := admin.Retry(ctx, log, until, func(ctx context.Context) error { return o.run(ctx, c, log) }); err != nil {
		return t.fail(fmt.Errorf("setup: %w", err))
	}
	return exitOK
}

func (o *setupOptions) run(ctx context.Context, c *config.Config, log *slog.Logger) error {
	cfg, err := c.KafkaConfig()
	if err != nil {
		return admin.Permanent(err)
	}
	client, err := kafka.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	if o.inputPartitions > 0 {
		for _, topic := range c.Inputs() {
			have, err := client.Admin.Topics(ctx, topic)
			if err != nil {
				return fmt.Errorf("look up topic %q: %w", topic, err)
			}
			if have[topic].Exists {
				continue
			}
			if err := client.Admin.CreateTopic(ctx, topic, o.inputPartitions, o.inputReplication, nil); err != nil {
				return fmt.Errorf("create input topic %q: %w", topic, err)
			}
			log.Info("created topic", "topic", topic, "partitions", o.inputPartitions)
		}
	}
	if err := admin.CreateTopics(ctx, c, client, log); err != nil {
		return err
	}
	registry, err := c.NewRegistry()
	if err != nil {
		return admin.Permanent(err)
	}
	if !registry.HasIDs() {
		return nil
	}
	defer registry.Close()
	for _, out := range admin.OutputSchemas(c) {
		subject := out.Subject
		id, err := registry.Register(ctx, subject, out.Schema)
		if err != nil {
			return fmt.Errorf("register the schema of %s as %s (ODRADEK_SCHEMA_REGISTRY_URL): %w", out.What, subject, err)
		}
		log.Info("registered schema", "subject", subject, "id", id)
	}
	return nil
}
