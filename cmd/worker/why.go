package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/cmd/internal/why"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/schemas/registry"
)

const whyAbout = `Says why an anomaly was published. It finds the anomaly's records by its id, reads back the partition of the input that
they name, folds the samples of its series as the worker does, up to the highest score, and prints what that score was
computed from: window, neighbours or directions, what was expected, each field's share, the threshold then. It compares the
score with the published one, and says whether they are equal bit for bit, or within the op's tolerance, and what retention
has taken.

The settings are the workers'. Nothing is written to Kafka, no group is joined. The id, or its first 8 digits or
more, is in the records of the anomalies topic, on the page of a worker and in its API. docs/operations/why.md explains the output.`

const whyExamples = `  worker why 6e1f0c2a91b4d07733a8f25b9c6d1e40
  worker why 6e1f0c2a -html why.html
  worker why -json -from 2026-01-31T08:00:00Z 6e1f0c2a | jq .verdict`

// whyOptions are the flags of `why`.
type whyOptions struct {
	id         string
	topic      string
	partition  int
	from       string
	maxRecords int64
	maxBytes   string
	html       string
	asJSON     bool
	timeout    time.Duration

	since time.Time
	bytes config.ByteSize
	usual bool // topic comes from the settings
}

// check completes the options and returns what is wrong with them.
func (o *whyOptions) check(c *config.Config) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if o.id == "" {
		wrong("name the anomaly by its id; worker why -h tells more")
	} else if fault := why.CheckID(o.id); fault != "" {
		wrong("%s", fault)
	}
	if o.topic == "" {
		o.usual = true
		if o.topic = c.Output.Topics[cycle.Anomalies]; o.topic == config.Off || !c.Detect.Anomalies {
			wrong("the workers of these settings publish no anomalies; -topic names the topic of others")
		}
	}
	if o.partition < -1 {
		wrong("-partition %d: a partition is at least 0", o.partition)
	}
	if o.from != "" {
		var err error
		if o.since, err = time.Parse(time.RFC3339Nano, o.from); err != nil {
			wrong("-from %q is not a time like 2026-01-31T08:00:00Z", o.from)
		}
	}
	if o.maxRecords < 1 {
		wrong("-max-records %d: use 1 or more", o.maxRecords)
	}
	if err := o.bytes.UnmarshalText([]byte(o.maxBytes)); err != nil || o.bytes < 1 {
		wrong("-max-bytes %q is no size like 1GiB", o.maxBytes)
	}
	return faults
}

func (t terminal) why(ctx context.Context, args []string) int {
	o := whyOptions{}
	fs := t.flags("why <id>", whyAbout, whyExamples)
	fs.StringVar(&o.topic, "topic", "", "anomalies topic; default: the settings' topic, then the topic of their detectors in shadow mode")
	fs.IntVar(&o.partition, "partition", -1, "look only in this partition of the anomalies topic; -1: in all")
	fs.StringVar(&o.from, "from", "", "look only at anomalies written then and later, like 2026-01-31T08:00:00Z")
	fs.Int64Var(&o.maxRecords, "max-records", 2_000_000, "records of the input to read back from the anomaly, at most")
	fs.StringVar(&o.maxBytes, "max-bytes", "1GiB", "bytes of the input to read back, about, at most")
	fs.StringVar(&o.html, "html", "", "file for a page with drawings that needs nothing beside it")
	fs.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.id, args = args[0], args[1:]
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	rest := fs.Args()
	if o.id == "" && len(rest) > 0 {
		o.id, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		fmt.Fprintf(t.err, "worker why: unexpected argument %q: flags come before the id or after it, and there is one id\n", rest[0])
		return exitUsage
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	if faults := o.check(c); len(faults) > 0 {
		for _, f := range faults {
			fmt.Fprintf(t.err, "worker why: %s\n", f)
		}
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := t.explain(ctx, c, &o)
	if err == nil {
		err = o.write(t, r)
	}
	if err != nil {
		return t.fail(err)
	}
	if r.Verdict != why.Equal && r.Verdict != why.Within {
		return exitFailed
	}
	return exitOK
}

// explain explains the anomaly that the options name.
func (t terminal) explain(ctx context.Context, c *config.Config, o *whyOptions) (r *why.Report, err error) {
	client, registry, closeBoth, err := backtestCluster(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeBoth()) }()
	level := new(slog.LevelVar)
	log := newLogger(t.err, c, level, page.NewFaults(1))
	level.Set(max(level.Level(), slog.LevelWarn)) // the report says which executor it was
	exec, _, err := newExecutor(c, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	w := &why.Config{
		Client: client, Executor: exec, Select: func(w *why.Config, topic string) error { return selectMapping(w, c.ForTopic(topic), registry) },
		Anomalies: o.topic, Partition: int32(o.partition), From: o.since, MaxRecords: o.maxRecords, MaxBytes: int64(o.bytes),
		Earlier: func(ctx context.Context, tp kafka.TP, detector, key string) ([]why.Earlier, error) {
			return t.earlier(ctx, client, c, registry, tp, detector, key)
		},
		Patience: c.Registry.Grace,
		Fetch:    c.FetchConfig(),
	}
	r, err = w.Explain(ctx, o.id)
	if unknown := (*why.UnknownError)(nil); errors.As(err, &unknown) && o.usual && c.Shadow() {
		w.Anomalies = c.Output.Topics[cycle.ShadowAnomalies]
		r, err = w.Explain(ctx, o.id)
	}
	return r, err
}

// earlier returns the settings of a detector that the changelog of a source partition has recorded.
func (t terminal) earlier(ctx context.Context, client *kafka.Client, c *config.Config, registry *registry.Client, tp kafka.TP,
	detector, key string) (list []why.Earlier, err error) {
	log := kafka.TP{Topic: c.ChangelogTopic(tp.Topic), Partition: tp.Partition}
	recorded, err := why.ReadFormer(ctx, client, c.FetchConfig(), log)
	if err != nil {
		return nil, err
	}
	found, err := why.FormerSettings(t.environ, tp.Topic, detector, key, recorded)
	for _, s := range found {
		e := why.Earlier{Changed: s.Changed, Why: s.Why}
		if s.Config != nil {
			e.Select = func(w *why.Config) error { return selectMapping(w, s.Config, registry) }
		}
		list = append(list, e)
	}
	return list, err
}

// selectMapping sets what depends on the settings of the topic.
func selectMapping(w *why.Config, c *config.Config, registry *registry.Client) (err error) {
	if w.State, err = c.KeystateConfig(); err != nil {
		return err
	}
	if w.Decoder, err = c.NewDecoder(registry); err != nil {
		return err
	}
	w.Series, w.Fields, w.MaxFuture = c.Series(), valueNames(c), c.Keys.MaxFuture
	w.Settings = func(i int) string { return c.Changed(&c.Detectors[i]) }
	return nil
}

// write prints the report and writes its page.
func (o *whyOptions) write(t terminal, r *why.Report) error {
	if o.html != "" {
		var b bytes.Buffer
		if err := r.WriteHTML(&b); err != nil {
			return err
		}
		if err := os.WriteFile(o.html, b.Bytes(), 0o644); err != nil { //nolint:gosec // a report for people
			return fmt.Errorf("why: %w", err)
		}
	}
	if o.asJSON {
		enc := json.NewEncoder(t.out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("why: %w", err)
		}
		return nil
	}
	return r.WriteText(t.out)
}
