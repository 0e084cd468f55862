package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/admin"
)

const stateAbout = `Shows or resets the state of a group: its changelog topics and its committed offsets.

  list     state by partition: committed offset, replay floor, records and bytes; -keys lists the series
  export   the changelog's live records as JSON lines
  reset    empties the state and commits a position to begin at; the group must not be running
  watermark  the newest event time and the watermark by partition; with -to and -yes repairs the effect of a wrong clock: sets
             the newest event time back and forgets the series with a later sample; the group must not be running
  resume     partitions that ODRADEK_STOP_ABOVE has paused go on, with dead letters for one more window, or with -to up to an offset or
             the end of the log; the workers read it from ODRADEK_FEEDBACK_TOPIC and need not stop`

const stateExamples = `  worker state list
  worker state list -topic sensors -partition 3 -keys
  worker state export -topic sensors -key pump-17 > pump-17.jsonl
  worker state reset -topic sensors -to committed -yes   # forget all series, resume where the group was
  worker state reset -to committed -warmup 24h -yes      # the same, with windows filled from the last 24 hours
  worker state reset -to earliest -yes                   # score everything again
  worker state reset -topic sensors -partition 3 -to 4711 -yes   # step over what partition 3 cannot read
  worker state resume -yes                               # all that are paused, for one window of ODRADEK_STOP_ABOVE
  worker state resume -topic sensors -partition 3 -to 4711   # without another pause before offset 4711`

const stateWatermarkExamples = `
  worker state watermark -topic sensors
  worker state watermark -topic sensors -to 2026-01-31T08:00:00Z -yes   # after a clock of the year 2999`

func (t terminal) state(ctx context.Context, args []string) int {
	yes := false
	o := admin.Options{Author: userName()}
	o.Agree = func(question string) error { return t.agree(ctx, yes, question) } // without the time limit
	var action string
	var timeout time.Duration
	fs := t.flags("state list|export|reset|watermark|resume", stateAbout, stateExamples+stateWatermarkExamples)
	fs.StringVar(&o.Topic, "topic", "", "input topic; default: all that the group has state of")
	fs.IntVar(&o.Partition, "partition", -1, "partition; -1 for all")
	fs.StringVar(&o.Key, "key", "", "list, export: only this series, by its key or by the digest that errors name")
	fs.BoolVar(&o.Keys, "keys", false, "list: a line for each series")
	fs.BoolVar(&o.JSON, "json", false, "list, watermark: one JSON object a line")
	fs.StringVar(&o.To, "to", "committed", "reset: where to begin: committed, earliest, latest, or an offset of the one partition that is "+
		"named; a partition without a committed offset begins at ODRADEK_START. watermark: the latest event time that is believed, like "+
		"2026-01-31T08:00:00Z. resume: latest, or an offset of the one partition that is named")
	fs.DurationVar(&o.Warmup, "warmup", 0, "reset: fill windows and histories from the input of this long before the position, and publish "+
		"nothing of it, as ODRADEK_WARMUP_FROM does")
	fs.BoolVar(
		&yes,
		"yes",
		false,
		"reset, watermark, resume: "+yesHelp+"; without it and without a terminal only what would be done is printed",
	)
	fs.DurationVar(&timeout, "timeout", 10*time.Minute, "time limit")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		action, args = args[0], args[1:]
	}
	if code, done := parse(fs, args); done {
		return code
	}
	usage := func(format string, args ...any) int {
		fmt.Fprintf(t.err, "worker state: "+format+"\n", args...)
		return exitUsage
	}
	switch {
	case action == "watermark":
		if o.To != "committed" {
			at, err := time.Parse(time.RFC3339Nano, o.To)
			if err != nil {
				return usage("watermark: -to %q is not a time like 2026-01-31T08:00:00Z", o.To)
			}
			o.ToTime = at
		} else if yes {
			return usage("watermark: -yes needs -to, the latest event time that is believed")
		}
	case action == "":
		return usage("say list, export, reset, watermark or resume; worker state -h tells more")
	case !slices.Contains([]string{"list", "export", "reset", "resume"}, action):
		return usage("no action %q; use list, export, reset, watermark or resume", action)
	case !slices.Contains([]string{"committed", "earliest", "latest"}, o.To) && !o.Offset():
		return usage("-to %q is not one of committed, earliest, latest, nor an offset", o.To)
	case o.Offset() && o.Partition < 0:
		return usage("-to %s is an offset of one partition: name it with -partition, and its topic with -topic where there are several", o.To)
	case action == "resume" && o.To == "earliest":
		return usage("resume: -to is latest, or an offset of one partition")
	case o.Warmup < 0 || o.Warmup > 0 && (action != "reset" || o.To == "earliest"):
		return usage("-warmup is a time like 24h, and goes with a reset to committed, latest or an offset: " +
			"before the earliest record there is nothing")
	case action == "reset" && o.Key != "":
		return usage("reset empties whole partitions: -key goes with list and export")
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := admin.OpenGroup(ctx, c, &o, t.out, t.err)
	if err != nil {
		return t.fail(err)
	}
	defer s.Close()
	switch action {
	case "list":
		err = s.List(ctx)
	case "export":
		err = s.Export(ctx)
	case "watermark":
		err = s.Watermark(ctx)
	case "resume":
		err = s.Resume(ctx)
	default:
		err = s.Reset(ctx)
	}
	if err != nil {
		return t.fail(err)
	}
	return exitOK
}
