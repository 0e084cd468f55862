package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// backtestOps returns the detectors of TestBacktestIsTheStream: strides, carries, thresholds
// with histories.
func backtestOps() (env []string) {
	var names []string
	for i, d := range []struct{ op, settings string }{
		{"zscore", "WINDOW=16"}, {"ikasst", "WINDOW=8 STRIDE=3"}, {"knn", "WINDOW=24 K=4 MIN_POINTS=12"}, {"lof", "WINDOW=24 K=4 STRIDE=3"},
		{"flatline", "TOLERANCE=0.5"}, {"ar", "ORDER=4 MEMORY=100 MIN_POINTS=32"},
	} {
		names = append(names, d.op)
		for _, s := range append(strings.Fields(d.settings), "OP="+d.op, "HISTORY=64", "WARMUP=8", "CLOSE_AFTER=4",
			"THRESHOLD="+[]string{"conformal:0.03", "quantile:0.98", "mad:9"}[i%3]) {
			env = append(env, "DETECTOR_"+strings.ToUpper(d.op)+"_"+s)
		}
	}
	return append(env, "DETECTORS="+strings.Join(names, ","))
}

// backtestRow is a row of a file, or a record; its time is whole milliseconds.
type backtestRow struct {
	sensor string
	at     time.Time
	value  float64
}

// backtestRows makes rows of sensors that walk and jump, out of order, late, with gaps and
// silences.
func backtestRows(t *testing.T, n int) []backtestRow {
	rng := seedtest.New(t)
	var rows []backtestRow
	values := map[string]float64{}
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for i := range n {
		at = at.Add(200 * time.Millisecond)
		r := backtestRow{sensor: fmt.Sprintf("s%d", i%10), at: at}
		if r.sensor == "s4" && i/300%2 == 1 {
			continue // silent for a minute
		}
		r.value = values[r.sensor] + 0.2*rng.NormFloat64()
		values[r.sensor] = 0.9 * r.value
		if rng.IntN(60) == 0 {
			values[r.sensor] += 8
		}
		if rng.IntN(50) == 0 {
			r.value = math.NaN()
		}
		switch rng.IntN(40) {
		case 0:
			r.at = r.at.Add(-3 * time.Second)
		case 1:
			r.at = r.at.Add(-time.Minute)
		}
		rows = append(rows, r)
	}
	return rows
}

func writeRows(t *testing.T, path string, rows []backtestRow) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("sensor,time,value\n")
	for _, r := range rows {
		value := ""
		if r.value == r.value {
			value = strconv.FormatFloat(r.value, 'g', -1, 64)
		}
		fmt.Fprintf(&b, "%s,%d,%s\n", r.sensor, r.at.UnixMilli(), value)
	}
	must(t, os.WriteFile(path, b.Bytes(), 0o644))
}

// runBacktest runs the subcommand and returns what it printed.
func runBacktest(t *testing.T, env []string, args ...string) string {
	t.Helper()
	var own []string
	for _, kv := range env {
		own = append(own, config.Prefix+kv)
	}
	var o, e bytes.Buffer
	if code := (terminal{&o, &e, own}).backtest(context.Background(), args); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, o.String(), e.String())
	}
	return o.String()
}

// tableRows reads a CSV table with a header.
func tableRows(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	must(t, err)
	var rows []map[string]string
	for _, rec := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = rec[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func timeOf(t *testing.T, s string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	must(t, err)
	return at.UnixMicro()
}

// TestBacktestIsTheStream holds that a backtest of a file finds, to the bit, what a worker
// publishes that reads the same rows from a topic of as many partitions: with several
// detectors, samples out of order, late ones, gaps and silences.
func TestBacktestIsTheStream(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a worker")
	}
	const input, group, partitions = "in", "g", 3
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, c.Admin().CreateTopic(ctx, input, partitions, 0, nil))
	rows := backtestRows(t, 6000)
	common := append(backtestOps(), "EXECUTOR=cpu", "LATENESS=5s", "SILENCE=40s", "TTL=90s", "KEY_FIELD=sensor", "TIME_FIELD=time",
		"VALUE_FIELDS=value")
	m := newMeasurements(t, c.RegistryURL(t), input)
	f := newFleet(t, c, input, group, append(common, "MAX_FUTURE=0s", "INSTANCE_ID=one")...)
	var recs []kafkatest.Record
	for _, r := range rows {
		recs = append(recs, m.record(t, input, r.sensor, r.at, r.value))
	}
	f.add(recs, "live")

	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	writeRows(t, path, rows)
	scores, anomalies := filepath.Join(dir, "scores.csv"), filepath.Join(dir, "anomalies.csv")
	out := runBacktest(t, common, "-in", path, "-topic", input, "-partitions", strconv.Itoa(partitions), "-scores", scores,
		"-anomalies", anomalies,
		"-report", filepath.Join(dir, "report.html"), "-quiet")
	t.Log(out)

	type id struct {
		partition, offset, detector, key string
	}
	type said struct {
		score                string // its bits
		state                string
		eventTime, scoreTime int64
		remaining            string
		prediction           output.Prediction
	}
	mine := map[id]said{}
	warm, predicted := map[string]int{}, 0
	for _, r := range tableRows(t, scores) {
		s := said{"null", r["state"], timeOf(t, r["event_time"]), timeOf(t, r["score_time"]), r["remaining"], output.Prediction{}}
		if r["expected"] != "" {
			var errs [2]error
			s.prediction.Expected, errs[0] = strconv.ParseFloat(r["expected"], 64)
			if s.prediction.Predicted = true; r["spread"] != "" {
				s.prediction.Spread, errs[1] = strconv.ParseFloat(r["spread"], 64)
			}
			must(t, errors.Join(errs[:]...))
			predicted++
		}
		if r["score"] != "" {
			v, err := strconv.ParseFloat(r["score"], 64)
			must(t, err)
			s.score = fmt.Sprintf("%x", math.Float64bits(v))
		}
		mine[id{r["partition"], r["offset"], r["detector"], r["series_key"]}] = s
		warm[r["warmth"]]++
	}
	live, err := c.Admin().ReadAll(ctx, group+"-scores", true)
	must(t, err)
	differ := 0
	for i := range live {
		s, err := output.DecodeScore(live[i].Value)
		must(t, err)
		k := id{fmt.Sprint(s.Partition), fmt.Sprint(s.Offset), s.Detector, string(s.Key)}
		want := said{"null", s.State.String(), s.EventTime, s.ScoreTime, fmt.Sprint(s.Remaining), s.Prediction}
		if s.Score == s.Score {
			want.score = fmt.Sprintf("%x", math.Float64bits(s.Score))
		}
		if got := mine[k]; got != want {
			if differ++; differ < 5 {
				t.Errorf("%v: backtest %+v, stream %+v", k, got, want)
			}
		}
	}
	if predicted == 0 {
		t.Error("no detector predicts anything")
	}
	if differ > 0 || len(live) != len(mine) || len(live) < 10_000 {
		t.Errorf("%d of %d scores differ; the backtest has %d", differ, len(live), len(mine))
	}
	for _, w := range []string{"window", "history", "warm"} {
		if warm[w] < 100 {
			t.Errorf("%d scores of warmth %s", warm[w], w)
		}
	}

	last := map[string]output.Anomaly{}
	changes, err := c.Admin().ReadAll(ctx, group+"-anomalies", true)
	must(t, err)
	for i := range changes {
		a, err := output.DecodeAnomaly(changes[i].Value)
		must(t, err)
		if name := fmt.Sprintf("%x", a.ID); a.Revision > last[name].Revision {
			last[name] = a
		}
	}
	found := tableRows(t, anomalies)
	testBacktestOfTopic(t, c, f, common, input, dir)
	silent := 0
	for _, r := range found {
		a, ok := last[r["id"]]
		peak, err := strconv.ParseFloat(r["peak_score"], 64)
		if err != nil {
			peak = math.NaN()
		}
		if !ok || r["series_key"] != string(a.Key) || r["detector"] != a.Detector || r["severity"] != fmt.Sprint(a.Severity) ||
			timeOf(t, r["start"]) != a.Start || timeOf(t, r["end"]) != a.End ||
			r["over"] != strconv.FormatBool(output.AnomalyKinds[a.Kind] == "close") ||
			math.Float64bits(peak) != math.Float64bits(a.PeakScore) && (peak == peak || a.PeakScore == a.PeakScore) ||
			r["samples"] != fmt.Sprint(a.Samples) {
			t.Errorf("backtest %v, stream %+v", r, a)
		}
		if r["detector"] == "silence" {
			silent++
		}
	}
	if len(found) != len(last) || len(found) < 20 || silent == 0 {
		t.Errorf("%d anomalies, %d of silence; the stream has %d", len(found), silent, len(last))
	}
}

// testBacktestOfTopic reads the same from the topic: nothing but fetches and look-ups
// reaches the brokers, and what -to-topic publishes is what the worker has published.
func testBacktestOfTopic(t *testing.T, c *kafkatest.Cluster, f *fleet, common []string, input, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	env := append([]string{"KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "SCHEMA_REGISTRY_URL=" + f.registry, "MAX_FUTURE=0s"}, common...)
	var writes atomic.Int64
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetCommit, kmsg.TxnOffsetCommit,
		kmsg.CreateTopics,
		kmsg.CreatePartitions, kmsg.DeleteTopics, kmsg.DeleteRecords, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn,
		kmsg.EndTxn} {
		c.Fake.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Fake.KeepControl()
			writes.Add(1)
			return nil, nil, false
		})
	}
	groups := func() string {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
		must(t, err)
		defer cl.Close()
		res, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, cl)
		must(t, err)
		var names []string
		for _, g := range res.Groups {
			names = append(names, g.Group)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	before := groups()
	scores := filepath.Join(dir, "topic.csv")
	report := filepath.Join(dir, "topic.html")
	text := runBacktest(t, env, "-in-topic", input, "-scores", scores, "-report", report, "-quiet", "-published", f.group+"-anomalies")
	compared := 0
	for line := range strings.Lines(text) {
		if !strings.Contains(line, " published by ") {
			continue
		}
		compared++
		var name, by string
		var published, found, missed, both, only int
		_, err := fmt.Sscanf(line, "%s %d published by %s %d of them found, %d not; %d anomalies of the backtest among them, %d new",
			&name, &published, &by, &found, &missed, &both, &only)
		if err != nil || by != name || found != published || missed != 0 || only != 0 {
			t.Errorf("the same settings, beside what was published (%v): %s", err, line)
		}
	}
	if html, err := os.ReadFile(report); err != nil || compared == 0 || strings.Count(string(html), " published by ") != compared {
		t.Errorf("%d detectors are compared, and %d in the report: %v", compared, strings.Count(string(html), " published by "), err)
	}
	if n := writes.Load(); n != 0 {
		t.Errorf("%d requests that write or join", n)
	}
	if after := groups(); after != before {
		t.Errorf("groups %s, before %s", after, before)
	}
	lines := func(path string) []string {
		b, err := os.ReadFile(path)
		must(t, err)
		list := strings.Split(string(b), "\n")
		slices.Sort(list)
		return list
	}
	if !slices.Equal(lines(scores), lines(filepath.Join(dir, "scores.csv"))) {
		t.Error("the scores of the topic are not the file's")
	}

	runBacktest(t, env, "-in-topic", input, "-report", "", "-quiet", "-to-topic", "again")
	if writes.Load() == 0 {
		t.Error("publishing shows in no request: the test sees none")
	}
	for _, suffix := range []string{"-scores", "-anomalies"} {
		read := func(topic string) []string {
			recs, err := c.Admin().ReadAll(ctx, topic, true)
			must(t, err)
			var list []string
			for i := range recs {
				list = append(list, fmt.Sprintf("%s %x", recs[i].Key, recs[i].Value[5:])) // the schema's id is the subject's
			}
			slices.Sort(list)
			return list
		}
		if want, got := read(f.group+suffix), read("again"+suffix); !slices.Equal(want, got) {
			t.Errorf("%d records in again%s, the worker has published %d, or others", len(got), suffix, len(want))
		}
	}

	// A part: the last scores of a run from an offset on are of warm windows, and expired
	// offsets are named.
	part := filepath.Join(dir, "part.csv")
	runBacktest(t, env, "-in-topic", input, "-from", "100", "-to", "300", "-scores", part, "-report", "", "-quiet")
	for _, r := range tableRows(t, part) {
		if n, err := strconv.Atoi(r["offset"]); err != nil || n < 100 || n >= 300 {
			t.Fatalf("a score of offset %s, read from 100 to 300", r["offset"])
		}
	}
	for p := range int32(3) {
		must(t, c.Admin().DeleteRecords(ctx, input, p, 150))
	}
	var own []string
	for _, kv := range env {
		own = append(own, config.Prefix+kv)
	}
	var out, errs bytes.Buffer
	code := terminal{&out, &errs, own}.backtest(ctx, []string{"-in-topic", input, "-from", "100", "-report", filepath.Join(dir, "x.html"),
		"-quiet"})
	for p := range 3 {
		if want := fmt.Sprintf("offsets 100 to 149 of %s/%d have expired", input, p); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("exit %d, %q; want %q", code, errs.String(), want)
		}
	}
}

// TestBacktestReportFolder: a report that could not be written in the end stops the start.
func TestBacktestReportFolder(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "in.csv")
	if err := os.WriteFile(input, []byte("time,value\n1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, report := range []string{filepath.Join(dir, "none", "r.html"), filepath.Join(input, "r.html")} {
		var out, errs bytes.Buffer
		code := terminal{&out, &errs, nil}.backtest(t.Context(), []string{"-in", input, "-quiet", "-report", report})
		if code != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), "no such folder") {
			t.Errorf("%s: exit code %d after %q, %q", report, code, out.String(), errs.String())
		}
	}
}

// TestBacktestRefusesLengths: lengths that no window of the configuration has a discord of are
// named before anything is read.
func TestBacktestRefusesLengths(t *testing.T) {
	env := []string{"ODRADEK_DETECTORS=left,whole", "ODRADEK_DETECTOR_LEFT_OP=discord", "ODRADEK_DETECTOR_LEFT_WINDOW=100",
		"ODRADEK_DETECTOR_WHOLE_OP=discords", "ODRADEK_DETECTOR_WHOLE_WINDOW=100"}
	for _, c := range []struct {
		env  []string
		want []string
	}{
		{[]string{"LEFT_LENGTH=2", "WHOLE_MIN_LENGTH=2"}, []string{"LEFT_LENGTH: 2 is too small", "WHOLE_MIN_LENGTH: 2 is too small"}},
		{[]string{"LEFT_LENGTH=3", "LEFT_MAX_LENGTH=51", "WHOLE_MIN_LENGTH=3", "WHOLE_MAX_LENGTH=51"},
			[]string{"DETECTOR_LEFT", "DETECTOR_WHOLE", "51 rows"}},
	} {
		own := slices.Clone(env)
		for _, s := range c.env {
			own = append(own, "ODRADEK_DETECTOR_"+s)
		}
		var out, errs bytes.Buffer
		code := terminal{&out, &errs, own}.backtest(t.Context(), []string{"-in", "none.csv", "-report", filepath.Join(t.TempDir(), "r.html")})
		for _, want := range c.want {
			if code != exitUsage || !strings.Contains(errs.String(), want) {
				t.Errorf("%v: exit %d, %q lacks %q", c.env, code, errs.String(), want)
			}
		}
	}
}
