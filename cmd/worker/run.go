package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/detectors"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
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
	faults := page.NewFaults(100)
	level := new(slog.LevelVar)
	log := newLogger(t.err, c, level, faults)
	log.Debug("effective configuration", "config", c.Print())
	metrics := cycle.NewMetrics()
	settings := config.NewReloader(t.environ, c, log, level, metrics)
	defer settings.Watch(ctx)()
	if err := runWorker(ctx, settings, log, metrics, faults); err != nil {
		log.Error("worker ended", "err", err)
		return exitCode(err)
	}
	return exitOK
}

// runWorker runs one worker until ctx ends and it has drained.
func runWorker(ctx context.Context, settings *config.Reloader, log *slog.Logger, metrics *metrics.Metrics, faults *page.Faults) error {
	limitHeap(os.Getenv)
	c := settings.Started()
	exec, kind, err := newExecutor(c, log)
	if err != nil {
		return err
	}
	defer exec.Close()
	metrics.SetInfo(buildVersion(), runtime.Version(), kind)
	log.Info("outputs", "format", c.Output.Format, "written", c.OutputText())
	for _, m := range c.Mappings() {
		log.Info("order of samples", "mapping", m.MappingName(), "late", m.LatenessText())
	}
	watchExecutor(metrics, exec)

	w := &worker{c: c, settings: settings, started: time.Now(), metrics: metrics, executor: kind, gpus: gpusOf(exec), faults: faults}
	id, release := instanceID(c, log)
	defer release()
	w.instance = id
	metrics.WatchReady(w.ready)
	stop, err := w.serve(log)
	if err != nil {
		return err
	}
	defer stop()
	defer notify(ctx, os.Getenv, w.ready, w.healthy, log)()

	var client *kafka.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	until := w.started.Add(admin.StartLimit)
	err = admin.Retry(ctx, log, until, func(ctx context.Context) error {
		cfg, err := c.KafkaConfig()
		if err != nil {
			return admin.Permanent(err)
		}
		client, err = kafka.Open(ctx, cfg)
		return err
	})
	if err != nil {
		return admin.EndOf(ctx, err)
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
	traced, stopTraces, err := startTracing(ctx, os.Getenv, c.Group.Group, buildVersion(), log)
	if err != nil {
		return err
	}
	defer stopTraces()
	reader := feedbackReader(c, client, log)
	var ps processors
	err = admin.Retry(ctx, log, until, func(ctx context.Context) error {
		if err = admin.Examine(ctx, c, client, registry, log); err == nil {
			ps, err = newProcessors(ctx, settings, id, client, registry, exec, metrics, log, reader, traced)
		}
		return err
	})
	if err != nil {
		return admin.EndOf(ctx, err)
	}
	defer readFeedback(ctx, reader)()
	stopExplorer, err := w.explore(ctx, client, registry, log)
	if err != nil {
		return err
	}
	defer stopExplorer()
	metrics.SetBudget(int64(c.Keys.Bytes))
	metrics.Watch(ps.Status)
	w.ps.Store(&ps)
	return withDrainLimit(ctx, c.Program.DrainTimeout, ps.Run)
}

// instanceID returns the id of the setting, or the one that a folder keeps for this worker; "" makes a dynamic member.
func instanceID(c *config.Config, log *slog.Logger) (id string, release func()) {
	if c.Group.InstanceDir == "" {
		return c.Group.InstanceID, func() {}
	}
	id, release, err := claimInstanceID(c.Group.InstanceDir, c.Group.Group)
	if err != nil {
		log.Warn("no instance id: the membership is dynamic (ODRADEK_INSTANCE_ID)", "err", err)
		return "", func() {}
	}
	log.Info("instance id", "id", id, "folder", c.Group.InstanceDir)
	return id, release
}

// hooks are hooks of the processor. Only tests set them, in a process that runs main of the
// test binary.
var hooks processor.Hooks

// newProcessors creates missing topics, registers the schemas and builds the processors.
func newProcessors(
	ctx context.Context,
	settings *config.Reloader,
	instance string,
	client *kafka.Client,
	registry *registry.Client,
	exec detectors.Executor,
	metrics *metrics.Metrics,
	log *slog.Logger,
	reader *feedback.Reader,
	traced func(*cycle.Trace),
) (ps processors, err error) {
	c := settings.Started()
	if err := admin.CreateTopics(ctx, c, client, log); err != nil {
		return nil, err
	}
	var ids cycle.SchemaIDs
	for i := range ids {
		ids[i] = c.Output.NoSchemaID()
	}
	for _, out := range admin.OutputSchemas(c) {
		if !registry.HasIDs() {
			break
		}
		subject := out.Subject
		id, err := registry.Register(ctx, subject, out.Schema)
		if err != nil {
			return nil, fmt.Errorf("worker: register the schema of %s as %s (ODRADEK_SCHEMA_REGISTRY_URL): %w", out.What, subject, err)
		}
		ids[out.Output] = id
	}
	cfgs, err := admin.ProcessorConfigs(c, client, registry)
	if err != nil {
		return nil, admin.Permanent(err)
	}
	cfgs[0].FindTopics = admin.Finder(c, client, log)
	for i := range cfgs {
		cfg := &cfgs[i]
		cfg.InstanceID, cfg.Executor, cfg.Metrics, cfg.Log = instance, exec, metrics, log
		if len(cfgs) > 1 {
			cfg.Log = log.With("group", cfg.Group)
		}
		cfg.SchemaIDs = ids
		cfg.Hooks = hooks
		if reader != nil {
			cfg.Rules, cfg.Resume = reader.Rules, reader.Resume
		}
		cfg.Changeable = settings.Changeable
		cfg.Traced = traced
		cfg.CreateOutput = admin.OutputCreator(c, client)
		p, err := processor.New(ctx, *cfg)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// feedbackReader returns the reader of the feedback topic; nil where nothing of it concerns the worker.
func feedbackReader(c *config.Config, client *kafka.Client, log *slog.Logger) *feedback.Reader {
	if c.Detect.Feedback == config.Off || !c.Detect.Anomalies && c.Output.Scores != "anomalous" && c.StopAbove().Of == 0 {
		return nil
	}
	return feedback.NewReader(client, c.Detect.Feedback, c.Detect.LearnFrom, log)
}

// firstFeedback bounds how long the start waits for the rules of now.
const firstFeedback = 5 * time.Second

// readFeedback reads the topic once and then in the background, until ctx ends and stop is called.
func readFeedback(ctx context.Context, r *feedback.Reader) (stop func()) {
	if r == nil {
		return func() {}
	}
	first, cancel := context.WithTimeout(ctx, firstFeedback)
	r.Poll(first)
	cancel()
	ctx, cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
