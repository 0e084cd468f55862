package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/suggest"
)

const suggestAbout = `Proposes settings for one topic or several: it looks at records from the beginning, the middle
and the end of each partition, finds the series key, the event time and the values, whether a record holds many
sensors or many readings, and chooses detectors, window, thresholds, lateness, silence and the largest jump. It runs
the detectors on the newest records, through the worker's own code, and says how many anomalies a day to expect. The
result is a settings file with a comment on each choice, which says what was seen. Of several topics (-topic a -topic
b, or a pattern like 'plant-*') whose records differ, it has a mapping for each shape.

Settings that are given, as variables or with -config, are kept. Nothing is written to Kafka, no group is joined.`

const suggestExamples = `  ODRADEK_KAFKA_BROKERS=kafka:9092 worker suggest -topic sensors
  worker suggest -topic sensors -out sensors.yaml && worker check -online -config sensors.yaml && worker run -config sensors.yaml
  worker suggest -topic presses -topic 'pumps-*' -out plant.yaml
  ODRADEK_KEY_FIELD=site+machine worker suggest -topic sensors`

func (t terminal) suggest(ctx context.Context, args []string) int {
	fs := t.flags("suggest", suggestAbout, suggestExamples)
	s := &suggest.Config{}
	var topics stringList
	out, maxBytes := "", ""
	fs.Var(&topics, "topic", "topic to look at, or pattern of topics; may be given several times; ODRADEK_TOPICS by default")
	fs.Var(&topics, "t", "short for -topic")
	fs.StringVar(&out, "out", "", "file to write, which must not exist yet; standard output by default")
	fs.IntVar(&s.Records, "max-records", 12_000, "records by which the fields are known, at most")
	fs.IntVar(&s.Samples, "max-samples", 300_000, "samples that the detectors are run on, at most")
	fs.StringVar(&maxBytes, "max-bytes", "256MiB", "bytes of records to read for either, about, at most")
	fs.DurationVar(&s.Time, "time", time.Minute, "time for reading, and then for each run of the detectors")
	fs.Float64Var(&s.Alarms, "alarms", 20, "anomalies a day, of all series together, above which thresholds are raised")
	if code, done := parse(fs, args); done {
		return code
	}
	environ := t.environ
	c, faults, warnings := config.Parse(environ)
	if len(topics) == 0 {
		topics = slices.Clone(c.Group.Topics)
	}
	if len(topics) > 0 { // a worker needs no settings but these and a group
		environ = append(slices.Clip(environ), config.Prefix+"TOPICS="+strings.Join(topics, ","))
		if c.Group.Group == "" {
			environ = append(
				environ,
				config.Prefix+"GROUP=odradek-"+strings.Trim(strings.NewReplacer("*", "", "?", "").Replace(topics[0]), "-._"),
			)
		}
		c, faults, warnings = config.Parse(environ)
	}
	var size config.ByteSize
	fault := ""
	switch err := size.UnmarshalText([]byte(maxBytes)); {
	case len(topics) == 0:
		fault = "name the topic with -topic"
	case err != nil || size < 1:
		fault = fmt.Sprintf("-max-bytes %q is no size like 256MiB", maxBytes)
	case s.Records < 100 || s.Samples < 1000 || s.Time <= 0 || !(s.Alarms > 0):
		fault = "-max-records is at least 100, -max-samples at least 1000, -time and -alarms are above 0"
	}
	if fault != "" {
		fmt.Fprintln(t.err, "worker suggest:", fault)
		return exitUsage
	}
	for _, w := range warnings {
		fmt.Fprintln(t.err, "warning:", w)
	}
	if faults = slices.DeleteFunc(faults, suggest.Answers); len(faults) > 0 {
		printFaults(t.err, faults)
		return exitUsage
	}
	if err := mayWrite(out); err != nil { // before minutes of work
		return t.fail(err)
	}
	s.Environ, s.Given, s.Bytes = environ, c, int64(size)
	s.Fetch = c.FetchConfig()
	text, err := suggestText(ctx, s, topics)
	if err == nil {
		err = writeNew(t.out, out, text)
	}
	if err != nil {
		return t.fail(err)
	}
	return exitOK
}

func suggestText(ctx context.Context, s *suggest.Config, topics []string) (text string, err error) {
	client, registry, closeBoth, err := backtestCluster(ctx, s.Given)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, closeBoth()) }()
	s.Client, s.Registry = client, registry
	all := topics
	if s.Given.HasPatterns() {
		if _, err := admin.FindTopics(ctx, s.Given, client.Admin); err != nil {
			return "", fmt.Errorf("suggest: %w", err)
		}
		if all = s.Given.Inputs(); len(all) == 0 {
			return "", fmt.Errorf("suggest: no topic matches %s", strings.Join(topics, ", "))
		}
	}
	return s.SuggestAll(ctx, all, topics)
}

// mayWrite returns why a file cannot be made: it is there, or its folder is not.
func mayWrite(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return existsError(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".suggest-*")
	if err != nil {
		return fmt.Errorf("suggest: -out %s cannot be written: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func existsError(path string) error {
	return fmt.Errorf("suggest: %s exists: remove it, or name another file with -out", path)
}

// writeNew writes a text to a file that does not exist yet, or without one to w.
func writeNew(w io.Writer, path, text string) error {
	if path == "" {
		_, err := io.WriteString(w, text)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it holds no secret
	if errors.Is(err, os.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return fmt.Errorf("suggest: %w", err)
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}
