package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// demoView is the table that the demo shows while it runs.
type demoView struct {
	t       terminal
	o       *demoOptions
	began   time.Time
	streams []*stream
	live    bool // a table that is drawn over and over
	addrs   []string
	cluster *kafkatest.Cluster

	log   demoLog
	first time.Duration // from the start to the first anomaly on the screen
	lines int           // drawn
	rate  struct {
		at time.Time
		n  int64
		v  float64
	}
}

// isTerminal reports whether w is one on which lines can be drawn over.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// streamAnomaly is a record of the anomalies topic of a stream.
type streamAnomaly struct {
	stream int
	output.Anomaly
}

// watch shows the anomalies topics until the generators end.
func (v *demoView) watch(ctx context.Context, client *kafka.Client, generated, worked <-chan error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan streamAnomaly, 256)
	for i, s := range v.streams {
		go followAnomalies(ctx, client, s.config.AnomaliesTopic(), i, news)
	}
	every := 5 * time.Second
	if v.live {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	v.rate.at = v.began
	v.say("Odradek demo: %d sensors, a fleet of machines, regions; %d workers of %d groups, exactly once; status page http://%s\n",
		v.o.sensors, len(v.addrs), len(v.streams), v.addrs[0])
	for {
		select {
		case err := <-generated:
			return err
		case err := <-worked:
			return fmt.Errorf("a worker ended: %v", err) //nolint:errorlint // err is nil where it ended without one
		case a := <-news:
			opened := v.log.byID[a.ID] == nil
			d := v.log.add(a.stream, a.Anomaly)
			if opened && v.first == 0 {
				v.first = time.Since(v.began)
				v.draw()
			}
			if opened && !v.live {
				v.line(d)
			}
		case <-tick.C:
			v.draw()
		}
	}
}

// followAnomalies sends the committed records of the topic as they come, until
// ctx ends.
func followAnomalies(ctx context.Context, client *kafka.Client, topic string, stream int, news chan<- streamAnomaly) {
	f := fetch.New(client, fetch.Config{ReadCommitted: true, MaxWait: 100 * time.Millisecond})
	defer f.Close()
	partitions := 0
	for ; partitions == 0; partitions = partitionsOf(ctx, client.Admin, topic) {
		if pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
	for p := range partitions {
		go func() {
			_ = f.ReadRange(ctx, kafka.TP{Topic: topic, Partition: int32(p)}, 0, math.MaxInt64, func(rec *record.Record) (bool, error) {
				a, err := output.DecodeAnomaly(rec.Value)
				if err != nil {
					return false, err
				}
				a.Key = append([]byte(nil), a.Key...)
				select {
				case news <- streamAnomaly{stream, a}:
					return true, nil
				case <-ctx.Done():
					return false, nil
				}
			})
		}()
	}
	<-ctx.Done()
}

func partitionsOf(ctx context.Context, admin *kafka.Admin, topic string) int {
	infos, err := admin.Topics(ctx, topic)
	if err != nil || !infos[topic].Exists {
		return 0
	}
	return infos[topic].Partitions
}

// readAnomalies adds the whole topic of a stream to log, committed records only.
func readAnomalies(ctx context.Context, client *kafka.Client, topic string, stream int, log *demoLog) error {
	var tps []kafka.TP
	for p := range partitionsOf(ctx, client.Admin, topic) {
		tps = append(tps, kafka.TP{Topic: topic, Partition: int32(p)})
	}
	if len(tps) == 0 {
		return fmt.Errorf("there is no topic %s", topic)
	}
	ends, err := client.ListStable(ctx, tps)
	if err != nil {
		return err
	}
	f := fetch.New(client, fetch.Config{ReadCommitted: true, MaxWait: 100 * time.Millisecond})
	defer f.Close()
	for _, tp := range tps {
		err := f.ReadRange(ctx, tp, 0, ends[tp], func(rec *record.Record) (bool, error) {
			a, err := output.DecodeAnomaly(rec.Value)
			if err == nil {
				log.add(stream, a)
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judge compares the anomalies so far with what was planted so far.
func (v *demoView) judge() *demoResult {
	r := newDemoResult(v.log.list)
	for i, s := range v.streams {
		var list []*demoAnomaly
		for _, a := range v.log.list {
			if a.stream == i {
				list = append(list, a)
			}
		}
		s.truth.upTo(s.made.Load())
		s.truth.judge(list, r)
	}
	return r
}

func (v *demoView) say(format string, args ...any) { fmt.Fprintf(v.t.out, format, args...) }

// line is an anomaly that opened, in a line of its own.
func (v *demoView) line(a *demoAnomaly) {
	v.say("%s  %s\n", time.UnixMicro(a.OpenedAt).UTC().Format("01-02 15:04:05"), v.describe(a))
}

func (v *demoView) describe(a *demoAnomaly) string {
	state := "open"
	if a.closed {
		state = "over"
	}
	s := v.streams[a.stream]
	s.truth.upTo(s.made.Load() + int64(v.o.sensors))
	return fmt.Sprintf("%-13s  %-8s  %3d %-8s  %-4s  %s", a.sensor, a.Detector, a.Severity, output.SeverityBands[a.Band],
		state, s.truth.describe(a))
}

// tableRows is how many anomalies the table shows.
const tableRows = 10

// draw prints the state of things: a line, or the table over the last one.
func (v *demoView) draw() {
	now, made := time.Now(), int64(0)
	for _, s := range v.streams {
		made += s.made.Load()
	}
	if since := now.Sub(v.rate.at); since > 400*time.Millisecond {
		v.rate.v = float64(made-v.rate.n) / since.Seconds()
		v.rate.at, v.rate.n = now, made
	}
	open := 0
	for _, a := range v.log.list {
		if !a.closed {
			open++
		}
	}
	first := v.streams[0]
	passed := time.Duration(first.made.Load()/int64(v.o.sensors)) * demoInterval
	status := fmt.Sprintf("%s after %v: event time %s, %.1f hours; %.0f records/s; %d anomalies, %d open", now.Format("15:04:05"),
		now.Sub(v.began).Round(time.Second), first.options.Start.Add(passed).UTC().Format("2006-01-02 15:04:05"), passed.Hours(), v.rate.v,
		len(v.log.list), open)
	if !v.live {
		v.say("-- %s\n", status)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"Odradek demo: %d sensors, a fleet of machines, regions; %d workers of %d groups, exactly once; status pages http://%s\n%s\n\n",
		v.o.sensors, len(v.addrs), len(v.streams), strings.Join(v.addrs, " http://"), status)
	v.judge().table(&b)
	fmt.Fprintf(&b, "\n%-14s  %-13s  %-8s  %-12s  %-4s\n", "opened", "sensor", "detector", "severity", "")
	for i := range min(tableRows, len(v.log.list)) {
		a := v.log.list[len(v.log.list)-1-i]
		fmt.Fprintf(&b, "%s  %s\n", time.UnixMicro(a.OpenedAt).UTC().Format("01-02 15:04:05"), v.describe(a))
	}
	v.clear()
	text := b.String()
	v.lines = strings.Count(text, "\n")
	v.say("%s", text)
}

// clear takes the table off the screen.
func (v *demoView) clear() {
	if v.live && v.lines > 0 {
		v.say("\x1b[%dA\x1b[J", v.lines)
		v.lines = 0
	}
}
