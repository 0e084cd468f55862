package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/try"
	"odradek/schemas/registry"
)

const tryAbout = `Reads a few records as a worker would and shows what it would read of each: series key, time, and the values in the record
and after VALID, MISSING_IF and TRANSFORM, and the intervals of EVERY that it closes; or why the record is filtered, late, missing or a
dead letter. By default these are the last records of each input topic. State begins with the first of them, so the first
sample of a rate has no value before.

-in reads a file instead, without a broker: the rows of a .csv as worker backtest does, a record a line of .jsonl (its value, or
what kcat -J and rpk topic consume write), or one record with the bytes of any other file; - is the standard input, in lines.

Nothing is written, no group is joined. Exits with 1 if none of the records is read.`

const tryExamples = `  worker try -config plant.yaml
  worker try -topic sensors -n 5 -first
  kcat -C -t sensors -c 100 -J | worker try -in - -n 100 -json | jq 'select(.outcome == "dead").reason'`

// readingSettings begin the names of the settings by which records are read, and their samples folded and scored.
func readingSettings() []string {
	records, samples := config.MappingSettings()
	return slices.Concat(records, samples, []string{"DETECTOR", "PRESET", "MAPPING", "SCHEMA", "GROUP_BY"})
}

// withoutFormat leaves out the settings that say in which format a record is: rows of a table have none.
func withoutFormat(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "FORMAT" || strings.HasPrefix(name, "SCHEMA") })
}

// mostTried is the most bytes of records of a topic that are read.
const mostTried = 1 << 30

// tryOptions are the flags of `try`.
type tryOptions struct {
	topics  stringList
	in      string
	n       int
	first   bool
	asJSON  bool
	timeout time.Duration
}

func (t terminal) try(ctx context.Context, args []string) int {
	fs := t.flags("try", tryAbout, tryExamples)
	var o tryOptions
	fs.Var(&o.topics, "topic", "topic to read; may be given several times; ODRADEK_TOPICS by default; with -in the topic that the "+
		"records stand for")
	fs.StringVar(&o.in, "in", "", "file of records to read instead of a topic; - for the standard input")
	fs.IntVar(&o.n, "n", 20, "records of each topic, at most")
	fs.BoolVar(&o.first, "first", false, "read the first records of a topic, not the last")
	fs.BoolVar(&o.asJSON, "json", false, "print one JSON object a record")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "time limit")
	if code, done := parse(fs, args); done {
		return code
	}
	if o.n < 1 || o.n > 100_000 {
		fmt.Fprintf(t.err, "worker try: -n %d: use 1 to 100000\n", o.n)
		return exitUsage
	}
	names := readingSettings()
	if o.in == "" {
		names = append(names, "KAFKA", "REKEY")
	}
	if o.in == "" && len(o.topics) == 0 {
		names = append(names, "TOPICS")
	}
	if try.IsTable(o.in) {
		names = withoutFormat(names)
	}
	c, code, ok := t.configFor(names...)
	if !ok {
		return code
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	list, err := o.read(ctx, t, c)
	if err != nil {
		return t.fail(err)
	}
	if err := o.print(t, list); err != nil {
		return t.fail(err)
	}
	if !try.Some(list) {
		return exitFailed
	}
	return exitOK
}

// read reads the records that the options name.
func (o *tryOptions) read(ctx context.Context, t terminal, c *config.Config) (list []*try.Result, err error) {
	if o.in != "" {
		reg, err := c.NewRegistry()
		if err != nil {
			return nil, err
		}
		if reg != nil {
			defer reg.Close()
		}
		topic := "file"
		for _, name := range append(o.topics, c.Group.Topics...) {
			topic = name
			break
		}
		records, err := try.File(ctx, o.in, os.Stdin, c, topic, o.n)
		if err != nil {
			return nil, err
		}
		return readAll(ctx, c, reg, records)
	}
	client, reg, closeBoth, err := backtestCluster(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeBoth()) }()
	topics := []string(o.topics)
	if len(topics) == 0 {
		if _, err := admin.FindTopics(ctx, c, client.Admin); err != nil {
			return nil, fmt.Errorf("try: %w", err)
		}
		topics = c.Inputs()
	}
	var records []*try.Record
	for _, topic := range topics {
		some, err := try.Topic(ctx, client, c.FetchConfig(), topic, o.n, o.first, mostTried)
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			fmt.Fprintf(t.err, "worker try: topic %s has no records\n", topic)
		}
		records = append(records, some...)
	}
	return readAll(ctx, c, reg, records)
}

// readAll reads records by the settings.
func readAll(ctx context.Context, c *config.Config, reg *registry.Client, records []*try.Record) ([]*try.Result, error) {
	trial := try.New(c, reg)
	defer trial.Close()
	for _, rec := range records {
		if err := trial.Read(ctx, rec); err != nil {
			return nil, err
		}
	}
	return trial.End(ctx)
}

func (o *tryOptions) print(t terminal, list []*try.Result) error {
	if o.asJSON {
		enc := json.NewEncoder(t.out)
		enc.SetEscapeHTML(false)
		for _, r := range list {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range list {
		for _, line := range r.Lines() {
			fmt.Fprintln(t.out, line)
		}
	}
	_, err := fmt.Fprintln(t.out, try.Summary(list))
	return err
}
