package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
)

// runWith runs a worker in this process, whose settings do not change.
func runWith(ctx context.Context, environ []string, c *config.Config, log *slog.Logger) error {
	m := cycle.NewMetrics()
	return runWorker(ctx, config.NewReloader(environ, c, log, new(slog.LevelVar), m), log, m, page.NewFaults(10))
}

// runUntil runs a worker in this process until the group has committed the
// topic to its end, and while inside is running, then drains it.
func runUntil(t *testing.T, c *kafkatest.Cluster, environ []string, topic string, inside func()) {
	t.Helper()
	cfg, faults, _ := config.Parse(environ)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var log bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- runWith(ctx, environ, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Admin().WaitCommitted(wait, cfg.GroupOf(topic), topic); err != nil {
		stop()
		t.Fatalf("%v\nworker: %v\n%s", err, <-done, log.String())
	}
	if inside != nil {
		inside()
	}
	stop()
	if err := <-done; err != nil {
		t.Fatalf("worker: %v\n%s", err, log.String())
	}
}

func stateFixture(t *testing.T, c *kafkatest.Cluster) (topic string, environ []string) {
	t.Helper()
	return checkFixture(t, c,
		"ODRADEK_HTTP_ADDR=off", "ODRADEK_DETECTORS=change", "ODRADEK_DETECTOR_CHANGE_OP=zscore",
		"ODRADEK_DETECTOR_CHANGE_WINDOW=8", "ODRADEK_REPLICATION=1",
		"ODRADEK_SESSION_TIMEOUT=6s", "ODRADEK_TRANSACTION_TIMEOUT=5s", "ODRADEK_REPLAY_LIMIT=100ms")
}

func stateLines(t *testing.T, environ []string, args ...string) (lines []admin.PartitionState, text string) {
	t.Helper()
	term, out, errs := console(environ...)
	if code := term.state(context.Background(), append([]string{"list", "-json"}, args...)); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	text = out.String()
	for dec := json.NewDecoder(out); ; {
		var p admin.PartitionState
		if err := dec.Decode(&p); err == io.EOF {
			return lines, text
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, p)
	}
}

func TestStateCommands(t *testing.T) { realCluster(t, testStateCommands) }

func testStateCommands(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	reset := func(args ...string) (int, string) {
		term, _, errs := console(environ...)
		code := term.state(context.Background(), append([]string{"reset"}, args...))
		return code, errs.String()
	}
	runUntil(t, c, environ, topic, func() {
		if code, out := reset("-yes"); code != exitFailed || !strings.Contains(out, "group has members") {
			t.Errorf("reset of a running group: exit %d, %s", code, out)
		}
		// Input for longer than the replay limit, so that state is written.
		term, _, errs := console(environ...)
		if code := term.generate(context.Background(),
			[]string{"-topic", topic, "-sensors", "20", "-rate", "2000", "-duration", "2s"}); code != exitOK {
			t.Errorf("generate: %s", errs)
		}
		if err := c.Admin().WaitCommitted(context.Background(), topic+"-g", topic); err != nil {
			t.Error(err)
		}
	})
	lines, _ := stateLines(t, environ, "-keys")
	series, records := 0, int64(0)
	for _, p := range lines {
		series += p.Series
		records += p.Committed
		if p.Floor == "none" || p.Replay > p.Committed || len(p.Keys) != p.Series {
			t.Errorf("%+v", p)
		}
	}
	if len(lines) != 4 || records < 5000 || series < 10 || series > 20 {
		t.Errorf("%d partitions, %d records, %d series", len(lines), records, series)
	}
	term, out, errs := console(environ...)
	if code := term.state(context.Background(), []string{"list", "-topic", topic, "-partition", "1"}); code != exitOK ||
		strings.Count(out.String(), "\n") != 2 {
		t.Errorf("exit %d %s %s", code, out, errs)
	}

	term, out, errs = console(environ...)
	if code := term.state(context.Background(), []string{"export", "-key", "sensor-00003"}); code != exitOK {
		t.Errorf("export: exit %d, %s", code, errs)
	}
	var e admin.Exported
	if err := json.Unmarshal(bytes.SplitN(out.Bytes(), []byte("\n"), 2)[0], &e); err != nil || e.Series != "sensor-00003" ||
		e.Kind != "head" || len(e.Value) == 0 {
		t.Errorf("export: %v %+v", err, e)
	}

	// Without -yes nothing happens.
	before, text := stateLines(t, environ)
	if code, out := reset(); code != exitOK || !strings.Contains(out, "nothing was changed") {
		t.Errorf("exit %d, %s", code, out)
	}
	if _, again := stateLines(t, environ); again != text {
		t.Errorf("changed:\n%s\n%s", text, again)
	}
	// One partition goes to the beginning, with empty state; the others stay.
	if code, out := reset("-partition", "2", "-to", "earliest", "-yes"); code != exitOK {
		t.Fatalf("exit %d, %s", code, out)
	}
	after, _ := stateLines(t, environ)
	for i, p := range after {
		if i == 2 {
			if p.Committed != 0 || p.Floor != "0" || p.Series != 0 || p.Bytes != 0 {
				t.Errorf("after the reset: %+v", p)
			}
		} else if fmt.Sprint(p) != fmt.Sprint(before[i]) {
			t.Errorf("partition %d was %+v, is %+v", i, before[i], p)
		}
	}
	// To an offset goes one partition, and only to one that there is.
	if code, out := reset("-partition", "1", "-to", fmt.Sprint(before[1].Committed+1_000_000), "-yes"); code != exitFailed ||
		!strings.Contains(out, "is not in the log") {
		t.Errorf("to an offset past the log: exit %d, %s", code, out)
	}
	if code, out := reset("-partition", "1", "-to", fmt.Sprint(before[1].Committed-3), "-yes"); code != exitOK {
		t.Fatalf("exit %d, %s", code, out)
	}
	if p, _ := stateLines(t, environ); p[1].Committed != before[1].Committed-3 ||
		p[1].Floor != fmt.Sprint(p[1].Committed) || p[1].Series != 0 {
		t.Errorf("after the reset to %d: %+v", before[1].Committed-3, p[1])
	}
	// A worker goes on from there, and scores that partition again.
	scores := topic + "-g-scores"
	count := func() (n int, of2 int) {
		recs, err := c.Admin().ReadAll(context.Background(), scores, true)
		if err != nil {
			t.Fatal(err)
		}
		return len(recs), int(before[2].Committed)
	}
	was, extra := count()
	runUntil(t, c, environ, topic, nil)
	if now, _ := count(); now < was+extra*9/10 || now > was+extra+3 {
		t.Errorf("%d scores, then %d; the partition has %d records", was, now, extra)
	}
}

// A changelog with another number of partitions is made anew.
func TestStateResetOfGrownTopic(t *testing.T) { realCluster(t, testStateResetOfGrownTopic) }

func testStateResetOfGrownTopic(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	runUntil(t, c, environ, topic, nil)
	if err := c.Admin().AddPartitions(context.Background(), topic, 6); err != nil {
		t.Fatal(err)
	}
	cfg, _, _ := config.Parse(environ)
	err := runWith(context.Background(), environ, cfg, slog.New(slog.DiscardHandler))
	if exitCode(err) != exitRefused || !strings.Contains(err.Error(), "worker state reset") {
		t.Fatalf("a worker on a grown topic: %v", err)
	}
	term, _, errs := console(environ...)
	if code := term.state(context.Background(), []string{"reset", "-partition", "1", "-yes"}); code != exitFailed ||
		!strings.Contains(errs.String(), "all partitions") {
		t.Errorf("exit %d: %s", code, errs)
	}
	term, _, errs = console(environ...)
	if code := term.state(context.Background(), []string{"reset", "-yes"}); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines, _ := stateLines(t, environ)
	for _, p := range lines {
		if p.Series != 0 || p.Floor != fmt.Sprint(p.Committed) {
			t.Errorf("%+v", p)
		}
	}
	if len(lines) != 6 {
		t.Errorf("%d partitions", len(lines))
	}
	runUntil(t, c, environ, topic, nil)
}

// A changelog of another group is left alone by a reset, and one that has lost its
// records is a fault of check.
func TestStateOfOthers(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic, environ := stateFixture(t, c)
	runUntil(t, c, environ, topic, nil)
	log := config.ChangelogName(topic+"-g-", topic)
	records := func() int {
		recs, err := c.Admin().ReadAll(context.Background(), log, true)
		if err != nil {
			t.Fatal(err)
		}
		return len(recs)
	}
	before := records()
	other := append(slices.Clone(environ), "ODRADEK_GROUP=other", "ODRADEK_CHANGELOG_PREFIX="+topic+"-g-")
	term, _, errs := console(other...)
	code := term.state(context.Background(), []string{"reset", "-yes"})
	if code != exitRefused || !strings.Contains(errs.String(), `group "`+topic+`-g"`) || !strings.Contains(errs.String(), `group "other"`) {
		t.Errorf("a reset of another group's state: exit %d, %s", code, errs)
	}
	if offs, err := c.Admin().Offsets(context.Background(), "other", true); err != nil || len(offs) > 0 {
		t.Errorf("offsets were committed: %v (%v)", offs, err)
	}
	if n := records(); n != before {
		t.Errorf("%d records in the changelog, %d before", n, before)
	}
	term, _, errs = console(other...)
	if code := term.state(context.Background(), []string{"list"}); code != exitOK || !strings.Contains(errs.String(), `group "other"`) {
		t.Errorf("list says nothing of the owner: exit %d, %s", code, errs)
	}

	ends, err := c.Admin().Ends(context.Background(), log, kafkatest.HighWatermark)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Admin().DeleteRecords(context.Background(), log, 2, ends[2]); err != nil {
		t.Fatal(err)
	}
	if code, out := runCheck(t, environ); code != exitFailed || !strings.Contains(out, topic+"/2") {
		t.Errorf("check: exit %d, %s", code, out)
	}
}

func TestStateUsage(t *testing.T) {
	for _, args := range []string{"", "explode", "reset -to nowhere", "reset -to 5", "reset -to -5 -partition 1",
		"reset -key x", "reset -to earliest -warmup 1h", "list -warmup 1h", "list surplus", "resume -to earliest", "resume -to 5"} {
		term, _, errs := console(minimal()...)
		if code := term.state(context.Background(), strings.Fields(args)); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}

// TestStateRekeyed: with ODRADEK_REKEY the input is read in a group of its own, and the state is of the internal topic. The
// commands of the state know both.
func TestStateRekeyed(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_REKEY=true", "ODRADEK_LATENESS=1s")
	runUntil(t, c, environ, topic, func() {
		must(t, c.Admin().WaitCommitted(t.Context(), topic+"-g", topic+"-g-rekey"))
	})
	sums := func() map[string]int64 {
		lines, _ := stateLines(t, environ)
		sums := map[string]int64{}
		for _, p := range lines {
			sums[p.Topic] += p.Committed
		}
		return sums
	}
	before := sums()
	if n := before[topic]; len(before) != 2 || n == 0 || before[topic+"-g-rekey"] < n {
		t.Errorf("offsets by topic: %v", before)
	}
	term, _, errs := console(environ...)
	if code := term.state(t.Context(), []string{"reset", "-yes", "-topic", topic, "-to", "earliest"}); code != exitOK ||
		!strings.Contains(errs.String(), "of group "+topic+"-g-rekey") {
		t.Errorf("reset: exit %d, %s", code, errs)
	}
	if after := sums(); after[topic] != 0 || after[topic+"-g-rekey"] != before[topic+"-g-rekey"] {
		t.Errorf("offsets by topic after a reset of the input: %v, before %v", after, before)
	}
}
