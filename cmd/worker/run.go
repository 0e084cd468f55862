package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"odradek/cmd/worker/config"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/web"
	"odradek/schemas"
)

// startLimit is how long a start goes on trying where trying can help: brokers
// or a registry that are not up yet, an output topic that someone is about to make. The
// attempt under way at its end may take up to startGrace.
const (
	startLimit = 2 * time.Minute
	startGrace = time.Minute
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
	metrics := processor.NewMetrics()
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

// hooks are the processor's. Only tests set them, in a process that runs main of
// the test binary.
var hooks processor.Hooks

// newProcessor makes the topics and schemas that are missing and builds the
// processor.
func newProcessor(ctx context.Context, c *config.Config, client *kafka.Client, registry *schemas.Registry, exec executor, metrics *processor.Metrics, log *slog.Logger) (*processor.Processor, error) {
	if err := createTopics(ctx, c, client, log); err != nil {
		return nil, err
	}
	scoreID, anomalyID := int32(-1), int32(-1)
	for _, out := range outputSchemas(c) {
		if registry == nil {
			break
		}
		subject := schemas.Subject(out.topic)
		id, err := registry.Register(ctx, subject, out.schema)
		if err != nil {
			return nil, fmt.Errorf("worker: register the schema of %s as %s (ODRADEK_SCHEMA_REGISTRY_URL): %w", out.what, subject, err)
		}
		if out.schema == schemas.ScoreSchema {
			scoreID = id
		} else {
			anomalyID = id
		}
	}
	cfg, err := processorConfig(c, client, registry)
	if err != nil {
		return nil, permanent(err)
	}
	cfg.Executor, cfg.Metrics, cfg.Log = exec, metrics, log
	cfg.ScoreSchemaID, cfg.AnomalySchemaID = scoreID, anomalyID
	cfg.Hooks = hooks
	return processor.New(ctx, cfg)
}

// processorConfig is what the configuration says of a processor. An error is a fault of
// the configuration.
func processorConfig(c *config.Config, client *kafka.Client, registry *schemas.Registry) (cfg processor.Config, err error) {
	opts, err := c.DecoderOptions()
	if err != nil {
		return cfg, err
	}
	dec, err := schemas.NewDecoder(c.SchemaMapping(), registry, opts)
	if err != nil {
		return cfg, err
	}
	state, err := c.KeystateConfig()
	if err != nil {
		return cfg, err
	}
	codec, err := kafka.ParseCodec(c.Output.Compression)
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
		Decoder: dec, State: state, Settings: c.StateSettings(state), StateBytes: int64(c.Keys.Bytes), MaxFuture: c.Keys.MaxFuture, SchemaGrace: c.Registry.Grace,
		TransactionTimeout: c.Cycle.TransactionTimeout, CommitInterval: c.Cycle.CommitInterval, ReplayLimit: c.Cycle.ReplayLimit,
		ScoresTopic: c.Output.ScoresTopic, DLQTopic: c.Output.DLQTopic, LateTopic: c.Output.LateTopic,
		Changelog: c.ChangelogTopic, Codec: codec, MaxMessageBytes: int(c.Output.MaxMessage),
		Fetch: kafka.FetcherConfig{ReadCommitted: true, MaxWait: c.Fetch.MaxWait, MinBytes: int(c.Fetch.MinBytes),
			MaxBytes: int(c.Fetch.MaxBytes), PartitionBytes: int(c.Fetch.PartitionBytes)},
	}
	if c.Cycle.Guarantee == "at_least_once" {
		cfg.Guarantee = processor.AtLeastOnce
	}
	if c.Cycle.Rekey {
		cfg.RekeyTopic = c.Output.RekeyTopic
	}
	switch c.Output.Scores {
	case "none":
		cfg.Scores = processor.ScoresNone
	case "anomalous":
		cfg.Scores = processor.ScoresAnomalous
	}
	if c.Anomalies() {
		cfg.AnomaliesTopic = c.Output.AnomaliesTopic
	}
	return cfg, nil
}

// outputSchema is one of our schemas with the topic that is written in it.
type outputSchema struct{ what, topic, setting, schema string }

func outputSchemas(c *config.Config) (list []outputSchema) {
	if c.Output.Scores != "none" {
		list = append(list, outputSchema{"the scores", c.Output.ScoresTopic, "SCORES_TOPIC", schemas.ScoreSchema})
	}
	if c.Anomalies() {
		list = append(list, outputSchema{"the anomalies", c.Output.AnomaliesTopic, "ANOMALIES_TOPIC", schemas.AnomalySchema})
	}
	return list
}

func policyOf(s string) processor.Policy {
	switch s {
	case "earliest":
		return processor.Earliest
	case "latest":
		return processor.Latest
	case "reset":
		return processor.Reset
	}
	return processor.Fail
}

// createTopics makes what is missing of the output topics and changelogs, if
// that is allowed. Input topics are never made.
func createTopics(ctx context.Context, c *config.Config, client *kafka.Client, log *slog.Logger) error {
	inputs, faults, err := inputTopics(ctx, c, client)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if len(faults) > 0 {
		return permanent(&startError{faults})
	}
	if err := keepChangelogs(ctx, c, client, log); err != nil {
		return err
	}
	if !c.Output.CreateTopics {
		return nil
	}
	plans, err := topicPlans(ctx, c, client, inputs)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for _, p := range plans {
		if p.info.Exists {
			if p.setting == "REKEY_TOPIC" {
				if short := tooSmall(ctx, c, client, inputs); short != "" {
					log.Warn("the internal topic of ODRADEK_REKEY does not hold the input's largest records: those become dead letters", "topic", p.name, "why", short)
				}
			}
			continue
		}
		if err := client.CreateTopic(ctx, p.name, p.partitions, c.Output.Replication, p.configs); err != nil {
			return fmt.Errorf("worker: create topic %q: %w; %s", p.name, err, creationFix(err))
		}
		log.Info("created topic", "topic", p.name, "partitions", p.partitions)
	}
	return nil
}

// topicPlan is a topic that the worker writes, as it is or as it is to be made.
type topicPlan struct {
	name, setting string
	partitions    int // of a new one; a changelog has to have them
	configs       map[string]string
	of            string          // input topic of a changelog
	info          kafka.TopicInfo // what there is
}

// topicPlans lists the topics that the worker writes.
func topicPlans(ctx context.Context, c *config.Config, client *kafka.Client, inputs []kafka.TopicInfo) ([]topicPlan, error) {
	partitions := c.Output.Partitions
	if partitions == 0 {
		for _, in := range inputs {
			partitions = max(partitions, in.Partitions)
		}
	}
	partitions = max(partitions, 1) // check goes on without an input topic
	// Records come here as they are in the input, with headers on top.
	large := map[string]string{"max.message.bytes": strconv.Itoa(largestInput(ctx, client, inputs) + forwardSlack)}
	out := &c.Output
	plans := []topicPlan{{name: out.DLQTopic, setting: "DLQ_TOPIC", partitions: partitions, configs: large},
		{name: out.LateTopic, setting: "LATE_TOPIC", partitions: partitions, configs: large}}
	if out.Scores != "none" {
		plans = append(plans, topicPlan{name: out.ScoresTopic, setting: "SCORES_TOPIC", partitions: partitions})
	}
	if c.Anomalies() {
		plans = append(plans, topicPlan{name: out.AnomaliesTopic, setting: "ANOMALIES_TOPIC", partitions: partitions})
	}
	stateOf := inputs
	if c.Cycle.Rekey {
		plans = append(plans, topicPlan{name: out.RekeyTopic, setting: "REKEY_TOPIC", partitions: partitions, configs: large})
		infos, err := client.Topics(ctx, out.RekeyTopic)
		if err != nil {
			return nil, fmt.Errorf("look up topic %q: %w", out.RekeyTopic, err)
		}
		rekey := kafka.TopicInfo{Name: out.RekeyTopic, Partitions: partitions}
		if infos[rekey.Name].Exists {
			rekey = infos[rekey.Name]
		}
		stateOf = []kafka.TopicInfo{rekey}
	}
	for _, in := range stateOf {
		plans = append(plans, topicPlan{name: c.ChangelogTopic(in.Name), setting: "CHANGELOG_PREFIX", partitions: in.Partitions, configs: changelogConfigs(), of: in.Name})
	}
	names := make([]string, len(plans))
	for i := range plans {
		names[i] = plans[i].name
	}
	infos, err := client.Topics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("look up the output topics: %w", err)
	}
	for i := range plans {
		plans[i].info = infos[plans[i].name]
	}
	return plans, nil
}

// forwardSlack is what a record may grow by on its way to the internal, late or
// dead-letter topic: by a series key of 8 KiB, the headers that say where it came
// from and why, and what the processor leaves free of a topic's limit.
const forwardSlack = 16 << 10

// defaultMessage is the brokers' default of max.message.bytes.
const defaultMessage = 1048588

// largestInput is the largest max.message.bytes of the input topics, as far as
// brokers tell.
func largestInput(ctx context.Context, client *kafka.Client, inputs []kafka.TopicInfo) int {
	if len(inputs) == 0 {
		return defaultMessage
	}
	most := 0
	for _, in := range inputs {
		n := defaultMessage
		if conf, err := client.TopicConfig(ctx, in.Name); err == nil {
			if v, err := strconv.Atoi(conf["max.message.bytes"]); err == nil {
				n = v
			}
		}
		most = max(most, n)
	}
	return most
}

// tooSmall says in which way the internal topic of ODRADEK_REKEY, which exists,
// holds less than the input does; empty where it does not, or brokers do not tell.
func tooSmall(ctx context.Context, c *config.Config, client *kafka.Client, inputs []kafka.TopicInfo) string {
	conf, err := client.TopicConfig(ctx, c.Output.RekeyTopic)
	if err != nil {
		return ""
	}
	have, err := strconv.Atoi(conf["max.message.bytes"])
	need := largestInput(ctx, client, inputs)
	if err != nil || have >= need {
		return ""
	}
	return fmt.Sprintf("its max.message.bytes is %d, and the input has records of up to %d; %d leaves room for headers", have, need, need+forwardSlack)
}

// permanentError is a fault that trying again does not mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanent(err error) error { return permanentError{err} }

// retryStart calls f until it succeeds, says something final, or the time is
// past deadline. Each failure is logged.
func retryStart(ctx context.Context, log *slog.Logger, deadline time.Time, f func(context.Context) error) error {
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := f(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err), time.Now().After(deadline):
			return err
		}
		log.Warn("not started yet, trying again", "err", err, "in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// final reports whether trying again cannot mend err.
func final(err error) bool {
	var never permanentError
	var refused *processor.RefusedError
	var registry *schemas.RegistryError
	return errors.As(err, &never) || errors.As(err, &refused) || kafka.ClassOf(err) == kafka.Fatal ||
		errors.As(err, &registry) && (registry.Status == http.StatusUnauthorized || registry.Status == http.StatusForbidden)
}

// endOf makes a start that was told to stop a clean end.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
