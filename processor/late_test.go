package processor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// logLines is the log of a worker, by line.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// with returns the lines that contain all of words.
func (l *logLines) with(words ...string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for _, line := range strings.Split(l.b.String(), "\n") {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// capture makes cfg log to the lines that it returns.
func (cfg *Config) capture() *logLines {
	l := new(logLines)
	cfg.Log = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// send produces samples of the reading schema to partition 0, in order.
func (b *bench) send(samples ...sent) {
	b.t.Helper()
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	recs := make([]kafkatest.Record, len(samples))
	for i, s := range samples {
		recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Key: []byte(s.key), Time: s.at.UnixMilli(),
			Headers: s.headers, Value: enc.Append(nil, []byte(s.key), s.at.UnixMicro(), 1, int64(i))}
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

type sent struct {
	key     string
	at      time.Time
	headers []kafkatest.Header
}

// TestLateIsLogged: a sensor whose clock is behind has all its records late. The
// log has one line of them with their number and where the last one is, and does
// not name the series; the status has their number.
func TestLateIsLogged(t *testing.T) {
	for _, c := range []struct {
		name     string
		lateness int64
		records  int
		behind   func(i int) time.Duration
	}{
		{"behind the watermark", 1e6, 20, func(int) time.Duration { return -30 * time.Second }},
		{"out of order without a lateness", 0, 19, func(i int) time.Duration { return -time.Duration(2*i) * time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 1)
			start := time.UnixMilli(1700000000000)
			var in []sent
			for i := range 20 {
				at := start.Add(time.Duration(i) * time.Second)
				in = append(in, sent{key: fmt.Sprint("other", i%3), at: at}, sent{key: "slow-clock", at: at.Add(c.behind(i))})
			}
			b.send(in...)
			cfg := b.config("one")
			cfg.Mappings.State.Reading.Lateness = c.lateness
			l := cfg.capture()
			status := b.run(cfg)
			if lines := l.with("WARN", "late records"); len(lines) != 1 || !strings.Contains(lines[0], "series=1 ") ||
				!strings.Contains(lines[0], fmt.Sprintf("records=%d ", c.records)) || !strings.Contains(lines[0], "last_offset=39 ") ||
				!strings.Contains(lines[0], "topic="+b.input) || !strings.Contains(lines[0], "partition=0") {
				t.Errorf("late records are logged as %q", lines)
			}
			if lines := l.with("slow-clock"); len(lines) > 0 {
				t.Errorf("the log names the series: %q", lines)
			}
			if len(status) != 1 || status[0].Late != int64(c.records) {
				t.Errorf("status %+v, want %d late records", status, c.records)
			}
		})
	}
}

// TestOneFastClock: the clock of one of ten sensors is five minutes ahead. The status names it, and the log says that there is one. By
// series no record is late, by partition all later ones of the others are.
func TestOneFastClock(t *testing.T) {
	for _, bySeries := range []bool{true, false} {
		b := newBench(t, 1)
		start := time.UnixMilli(1700000000000)
		var in []sent
		for i := range 60 {
			for sensor := range 10 {
				at := start.Add(time.Duration(i) * time.Second)
				if sensor == 9 {
					at = at.Add(5 * time.Minute)
				}
				in = append(in, sent{key: fmt.Sprint("s", sensor), at: at})
			}
		}
		b.send(in...)
		cfg := b.config("one")
		cfg.Mappings.State.Reading.Lateness, cfg.Mappings.State.Reading.BySeries = 10e6, bySeries
		l := cfg.capture()
		status := b.run(cfg)
		late, lines := int64(0), 0
		if !bySeries {
			late, lines = 9*59, 1
		}
		if len(status) != 1 || !strings.HasPrefix(status[0].FastClock, `the clock of series "s9" is about `) {
			t.Errorf("by series %t: status %+v names no clock", bySeries, status)
		}
		if lines := l.with("WARN", "the clock of a series"); len(lines) != 1 || strings.Contains(lines[0], "s9") {
			t.Errorf("by series %t: the log says %q", bySeries, lines)
		}
		if len(status) != 1 || status[0].Late != late || len(l.with("WARN", "late records")) != lines {
			t.Errorf("by series %t: status %+v, want %d late records", bySeries, status, late)
		}
	}
}

// TestReleasedEarly: samples that nothing but max_held releases are counted,
// and the accounting is whole.
func TestReleasedEarly(t *testing.T) {
	b := newBench(t, 1)
	var in []sent
	for i := range 40 {
		in = append(in, sent{key: fmt.Sprint("sensor-", i%2), at: time.UnixMilli(1700000000000 + int64(i))})
	}
	b.send(in...)
	cfg := b.config("one")
	cfg.Mappings.State.Reading.Lateness, cfg.Mappings.State.Reading.MaxHeld, cfg.Metrics = 60e6, 10, cycle.NewMetrics()
	status := b.run(cfg)
	if len(status) != 1 || status[0].Held != 10 {
		t.Errorf("status %+v, 10 are to be held", status)
	}
	pm, v := cfg.Metrics.Partition(kafka.TP{Topic: b.input, Partition: 0}), testutil.ToFloat64
	if v(pm.Early) != 30 || v(pm.Scored)+v(pm.WarmingUp) < v(pm.Early) || v(pm.Late) > 0 {
		t.Errorf("%v released early, %v scored, %v warming up and %v late", v(pm.Early), v(pm.Scored), v(pm.WarmingUp), v(pm.Late))
	}
}
