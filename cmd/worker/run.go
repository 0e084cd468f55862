package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"odradek/cmd/worker/config"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/outputs"
	"odradek/processor/policy"
	"odradek/processor/web"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

func cmdRun(ctx context.Context, args []string) int {
	t := stdTerminal()
	fs := t.flags("run", "Joins the consumer group, scores records and publishes scores until SIGTERM or SIGINT, then drains.",
		"  ODRADEK_GROUP=plant ODRADEK_TOPICS=sensors ODRADEK_SCHEMA_REGISTRY_URL=http://registry:8081 worker run")
	if code, done := parse(fs, args); done {
		return code
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	faults := web.NewFaults(100)
	log := newLogger(t.err, c, faults)
	log.Debug("effective configuration", "config", c.Print())
	if err := runWorker(ctx, c, log, faults); err != nil {
		log.Error("worker ended", "err", err)
		return exitCode(err)
	}
	return exitOK
}

// runWorker runs one worker until ctx ends and it has drained.
func runWorker(ctx context.Context, c *config.Config, log *slog.Logger, faults *web.Faults) error {
	limitHeap(os.Getenv)
	metrics := outputs.NewMetrics()
	exec, kind, err := newExecutor(c, log)
	if err != nil {
		return err
	}
	defer exec.Close()
	metrics.SetInfo(buildVersion(), runtime.Version(), kind)
	watchExecutor(metrics, exec)

	w := &worker{c: c, started: time.Now(), metrics: metrics, executor: kind, faults: faults}
	metrics.WatchReady(w.ready)
	stop, err := w.serve(log)
	if err != nil {
		return err
	}
	defer stop()

	var client *kafka.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	until := w.started.Add(startLimit)
	err = retryStart(ctx, log, until, func(ctx context.Context) error {
		cfg, err := c.KafkaConfig()
		if err != nil {
			return permanent(err)
		}
		client, err = kafka.Open(ctx, cfg)
		return err
	})
	if err != nil {
		return endOf(ctx, err)
	}
	registry, err := c.NewRegistry()
	if err != nil {
		return err
	}
	if registry != nil {
		if err := registry.CacheFault(); err != nil {
			log.Warn("no schema cache", "err", err)
		}
		metrics.WatchRegistry(registry.Stats)
	}
	var p *processor.Processor
	err = retryStart(ctx, log, until, func(ctx context.Context) error {
		if err = examineStart(ctx, c, client, registry, log); err == nil {
			p, err = newProcessor(ctx, c, client, registry, exec, metrics, log)
		}
		return err
	})
	if err != nil {
		return endOf(ctx, err)
	}
	metrics.SetBudget(int64(c.Keys.Bytes))
	metrics.Watch(p.Status)
	w.p.Store(p)
	return withDrainLimit(ctx, c.Program.DrainTimeout, p.Run)
}

// hooks are hooks of the processor. Only tests set them, in a process that runs main of the
// test binary.
var hooks processor.Hooks

// newProcessor creates missing topics, registers the schemas and builds the processor.
func newProcessor(ctx context.Context, c *config.Config, client *kafka.Client, registry *registry.Client, exec executor,
	metrics *metrics.Metrics, log *slog.Logger) (*processor.Processor, error) {
	if err := createTopics(ctx, c, client, log); err != nil {
		return nil, err
	}
	var ids outputs.SchemaIDs
	for i := range ids {
		ids[i] = -1
	}
	for _, out := range outputSchemas(c) {
		if registry == nil {
			break
		}
		subject := schemas.Subject(out.topic)
		id, err := registry.Register(ctx, subject, out.schema)
		if err != nil {
			return nil, fmt.Errorf("worker: register the schema of %s as %s (ODRADEK_SCHEMA_REGISTRY_URL): %w", out.what, subject, err)
		}
		ids[out.output] = id
	}
	cfg, err := processorConfig(c, client, registry)
	if err != nil {
		return nil, permanent(err)
	}
	cfg.Executor, cfg.Metrics, cfg.Log = exec, metrics, log
	cfg.SchemaIDs = ids
	cfg.Hooks = hooks
	return processor.New(ctx, cfg)
}

// processorConfig returns the configuration of the processor. An error is a fault of the
// settings.
func processorConfig(c *config.Config, client *kafka.Client, registry *registry.Client) (cfg processor.Config, err error) {
	opts, err := c.DecoderOptions()
	if err != nil {
		return cfg, err
	}
	dec, err := formats.NewDecoder(c.SchemaMapping(), registry, opts)
	if err != nil {
		return cfg, err
	}
	state, err := c.KeystateConfig()
	if err != nil {
		return cfg, err
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return cfg, err
	}
	start, err := c.StartAt()
	if err != nil {
		return cfg, err
	}
	cfg = processor.Config{
		Client: client, Group: c.Group.Group, InstanceID: c.Group.InstanceID, Topics: c.Group.Topics,
		Start: start, OffsetLost: policyOf(c.Group.OffsetLost), StateLost: policyOf(c.Cycle.StateLost),
		Session: c.Group.SessionTimeout, Rebalance: c.Group.RebalanceTimeout, Heartbeat: c.Group.HeartbeatInterval,
		Decoder: dec, State: state, Settings: c.StateSettings(state), StateBytes: int64(c.Keys.Bytes), MaxFuture: c.Keys.MaxFuture,
		SchemaGrace:        c.Registry.Grace,
		TransactionTimeout: c.Cycle.TransactionTimeout, CommitInterval: c.Cycle.CommitInterval, ReplayLimit: c.Cycle.ReplayLimit,
		Outputs: c.OutputTopics(), Changelog: c.ChangelogTopic, Codec: codec, MaxMessageBytes: int(c.Output.MaxMessage),
		Fetch: fetch.Config{ReadCommitted: true, MaxWait: c.Fetch.MaxWait, MinBytes: int(c.Fetch.MinBytes),
			MaxBytes: int(c.Fetch.MaxBytes), PartitionBytes: int(c.Fetch.PartitionBytes)},
	}
	if c.Cycle.Guarantee == "at_least_once" {
		cfg.Guarantee = processor.AtLeastOnce
	}
	if c.Output.Scores == "anomalous" {
		cfg.Scores = outputs.ScoresAnomalous
	}
	return cfg, nil
}

// outputSchema is one of the worker's schemas with the topic that has it.
type outputSchema struct {
	output                       outputs.Output
	what, topic, setting, schema string
}

func outputSchemas(c *config.Config) (list []outputSchema) {
	for i, name := range c.OutputTopics() {
		if spec := &outputs.Table[i]; name != "" && spec.Schema != "" {
			list = append(list, outputSchema{outputs.Output(i), spec.Holds, name, spec.Setting, spec.Schema})
		}
	}
	return list
}

func policyOf(s string) policy.OnLoss {
	switch s {
	case "earliest":
		return policy.Earliest
	case "latest":
		return policy.Latest
	case "reset":
		return policy.Reset
	}
	return policy.Fail
}
