package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"odradek/processor/kafka"
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
	screen  *screen // on which a table is drawn over and over; nil: lines are printed
	addrs   []string
	cluster *kafkatest.Cluster

	log   demoLog
	first time.Duration // from the start to the first anomaly on the screen
	rate  struct {
		at time.Time
		n  int64
		v  float64
	}
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
	if v.screen != nil {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	look := time.NewTicker(50 * time.Millisecond) // a changed size; signals of it are not on every system
	defer look.Stop()
	v.rate.at = v.began
	if v.screen == nil {
		v.say("%s; status page http://%s\n", v.title(), v.addrs[0])
	}
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
			if opened && v.screen == nil {
				v.line(d)
			}
		case <-tick.C:
			v.draw()
		case <-look.C:
			if v.screen != nil && v.screen.resized() {
				v.screen.draw(v.frame)
			}
		}
	}
}

// followAnomalies sends the committed records of the topic as they come, until
// ctx ends.
func followAnomalies(ctx context.Context, client *kafka.Client, topic string, stream int, news chan<- streamAnomaly) {
	f := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true})
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
	ends, err := client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return err
	}
	f := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true})
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
	recurs := ""
	if a.Recurs != nil {
		recurs = "; recurs " + a.Recurs.Text
	}
	return fmt.Sprintf("%-13s  %-8s  %3d %-8s  %-4s  %s%s", a.sensor, a.Detector, a.Severity, output.SeverityBands[a.Band],
		state, s.truth.describe(a), recurs)
}

// title says what runs.
func (v *demoView) title() string {
	return fmt.Sprintf(
		"Odradek demo: %d sensors, machines, regions; %d workers of %d groups, exactly once",
		v.o.sensors,
		len(v.addrs),
		len(v.streams),
	)
}

// draw prints the state of things: a line, or a frame over the last one.
func (v *demoView) draw() {
	now, made := time.Now(), v.made()
	if since := now.Sub(v.rate.at); since > 400*time.Millisecond {
		v.rate.v = float64(made-v.rate.n) / since.Seconds()
		v.rate.at, v.rate.n = now, made
	}
	if v.screen == nil {
		v.say("-- %s, %s\n", now.Format("15:04:05"), v.status())
		return
	}
	v.screen.draw(v.frame)
}

func (v *demoView) made() (records int64) {
	for _, s := range v.streams {
		records += s.made.Load()
	}
	return records
}

// status says how far the demo is.
func (v *demoView) status() string {
	open := 0
	for _, a := range v.log.list {
		if !a.closed {
			open++
		}
	}
	first := v.streams[0]
	passed := time.Duration(first.made.Load()/int64(v.o.sensors)) * demoInterval
	return fmt.Sprintf("%v: %d anomalies, %d faults, %d open; %.0f records/s; event time %s, %.1f h", time.Since(v.began).Round(time.Second),
		len(v.log.list), faultsOf(v.log.list), open, v.rate.v,
		first.options.Start.Add(passed).UTC().Format("2006-01-02 15:04:05"), passed.Hours())
}

// wide is the number of columns from which on a line of the table has the date, too.
const wide = 100

// frame returns the lines of the screen: what runs, faults by kind, and in the rows that remain the newest anomalies.
func (v *demoView) frame(columns, rows int) []string {
	lines := append([]string{v.title(), v.status()}, wrap("pages: http://"+strings.Join(v.addrs, " http://"), columns, "       ")...)
	lines = append(lines, "")
	var b strings.Builder
	r := v.judge()
	r.table(&b)
	lines = append(lines, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
	b.Reset()
	r.rest(&b)
	for line := range strings.Lines(b.String()) {
		lines = append(lines, wrap(strings.TrimRight(line, "\n"), columns, "       ")...)
	}
	layout := "15:04:05"
	if columns >= wide {
		layout = "01-02 15:04:05"
	}
	lines = append(lines, "", fmt.Sprintf("%-*s  %-13s  %-8s  %-12s  %-4s", len(layout), "opened", "series", "detector", "severity", ""))
	for i := len(v.log.list) - 1; i >= 0 && len(lines) < rows; i-- {
		a := v.log.list[i]
		lines = append(lines, time.UnixMicro(a.OpenedAt).UTC().Format(layout)+"  "+v.describe(a))
	}
	return lines[:min(len(lines), rows)]
}
