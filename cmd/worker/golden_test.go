package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/cpu"

	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// The golden ledger is what a run with fixed input leaves on every topic, by key, to
// the byte: a rebuilt part of the worker writes what the former one wrote, or the test
// names the first record that differs. Every op takes part, as do records out of order,
// late ones, bad ones, series that fall silent and are evicted, a worker that is
// drained, one that is killed and a transaction that is aborted.
//
// The first six ops share a ledger. Each op that joined the table later has one of its
// own, testdata/golden-NAME.txt, so that a new op leaves the others as they are.
//
// What depends on time is given or waited for: records have timestamps of their own,
// and a worker has committed all of a step before the next step is written. A step is
// one batch of no more records than a partition adds to a cycle at once, so that each
// step is a transaction of its own.
//
//	go test ./cmd/worker -run TestGoldenLedger/lof -update   # writes that ledger anew; without /lof: all
const (
	goldenSteps = 40
	goldenStep  = 30 // records of a step
)

// goldenOps are the ops of the first ledger; the order decides which threshold an
// op's detectors have.
var goldenOps = []detectors.Op{simple.OpZScore, sst.OpIKA, lof.Op, simple.OpFlatline, knn.Op, sst.OpSVD}

var update = flag.Bool("update", false, "write the golden ledgers anew")

func TestGoldenLedger(t *testing.T) {
	ownBrokers(t)
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		kafkatest.Missing(t, "golden", &kafkatest.MissingError{What: "the ledger", Err: errors.New(
			"it was made on a processor with AVX2 and FMA, and scores round otherwise on this one")})
	}
	t.Run("first", func(t *testing.T) { testGolden(t, "testdata/golden.txt", goldenOps) })
	for _, op := range detectors.Ops() {
		if name := op.Spec().Name; !slices.Contains(goldenOps, op) {
			t.Run(name, func(t *testing.T) { testGolden(t, "testdata/golden-"+name+".txt", []detectors.Op{op}) })
		}
	}
	t.Run("grid", func(t *testing.T) { testGoldenGrid(t, "testdata/golden-grid.txt", gridSettings) })
	t.Run("preset", func(t *testing.T) { testGoldenPreset(t, "testdata/golden-preset.txt") })
	t.Run("late", func(t *testing.T) { testGoldenLate(t, "testdata/golden-late.txt") })
	t.Run("batch", func(t *testing.T) { testGoldenBatch(t, "testdata/golden-batch.txt") })
	t.Run("wide", func(t *testing.T) { testGoldenWide(t, "testdata/golden-wide.txt") })
	t.Run("json", testGoldenJSON)
	t.Run("headers", testGoldenHeaders)
	t.Run("runs", testGoldenRuns)
	t.Run("sliding", func(t *testing.T) { testGoldenGrid(t, "testdata/golden-sliding.txt", slidingSettings) })
}

// testGoldenGrid compares what a run of detectors of grids leaves with the ledger in a file.
func testGoldenGrid(t *testing.T, file string, settings []string) {
	got := goldenRun(t, append(goldenSettings, settings...), newGoldenGrid)
	for _, name := range []string{`golden-in-changelog "Eregion-3"`, `golden-dlq "region-1"`, `golden-late "region-0"`,
		`golden-anomalies "region-0"`} {
		if got[name] == nil {
			t.Errorf("nothing at %s", name)
		}
	}
	compareGolden(t, file, got)
}

// testGoldenPreset compares what a run of the default preset leaves, whose windows are smaller and whose detectors warm up sooner,
// with the ledger in a file: UNTIL, ONLY_WITH, EXACT_ABOVE, and ensembles of the maximum and of any.
func testGoldenPreset(t *testing.T, file string) {
	env := append(slices.Clone(goldenSettings), presetSettings(90)...)
	for _, name := range presetDetectors {
		env = append(env, "DETECTOR_"+strings.ToUpper(name)+"_WARMUP=8")
		if name != "band" && name != "flat" {
			env = append(env, "DETECTOR_"+strings.ToUpper(name)+"_THRESHOLD=conformal:0.03", "DETECTOR_"+strings.ToUpper(name)+"_HISTORY=64")
		}
	}
	got := goldenRun(t, env, func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	scored, opened := map[string]int{}, map[string]int{}
	for name, s := range got {
		for _, r := range s.records {
			if strings.HasPrefix(name, "golden-scores ") {
				sc, err := output.DecodeScore(r)
				must(t, err)
				scored[sc.Detector]++
			}
			if strings.HasPrefix(name, "golden-anomalies ") {
				a, err := output.DecodeAnomaly(r)
				must(t, err)
				opened[a.Detector]++
			}
		}
	}
	for _, name := range presetDetectors {
		if scored[name] == 0 {
			t.Errorf("no score of detector %s", name)
		}
	}
	t.Logf("%v scores, %v records of anomalies", scored, opened)
	compareGolden(t, file, got)
}

// lateSettings are the settings of detectors with late admission, of an op and of an ensemble, which has its members' scores.
func lateSettings() []string {
	env := goldenDetectors([]detectors.Op{simple.OpZScore, ar.Op})
	for i := range env {
		if names, ok := strings.CutPrefix(env[i], "DETECTORS="); ok {
			env[i] = "DETECTORS=" + names + ",sum"
		}
	}
	return append(env, "DETECTOR_ZSCORE1_ADMISSION=late", "DETECTOR_ZSCORE3_ADMISSION=late", "DETECTOR_AR1_ADMISSION=late",
		"DETECTOR_ZSCORE3_OPEN_AFTER=2", "DETECTOR_SUM_OP=ensemble", "DETECTOR_SUM_MEMBERS=zscore1,ar3", "DETECTOR_SUM_MIN_POINTS=8",
		"DETECTOR_SUM_THRESHOLD=conformal:0.03", "DETECTOR_SUM_HISTORY=64", "DETECTOR_SUM_WARMUP=8", "DETECTOR_SUM_CLOSE_AFTER=4",
		"DETECTOR_SUM_ADMISSION=late")
}

// testGoldenLate compares what a run of detectors with late admission leaves with the ledger in a file.
func testGoldenLate(t *testing.T, file string) {
	got := goldenRun(t, lateSettings(), func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	opened := map[string]int{}
	for name, s := range got {
		for _, r := range s.records {
			if !strings.HasPrefix(name, "golden-anomalies ") {
				break
			}
			a, err := output.DecodeAnomaly(r)
			if err != nil {
				t.Fatal(err)
			}
			opened[a.Detector]++
		}
	}
	for _, name := range []string{"zscore1", "zscore3", "ar1", "sum"} {
		if opened[name] == 0 {
			t.Errorf("no anomaly of detector %s", name)
		}
	}
	compareGolden(t, file, got)
}

// testGoldenJSON compares what a run with outputs in JSON leaves, converted to Avro, with the ledger of one in Avro.
func testGoldenJSON(t *testing.T) {
	ops := []detectors.Op{ar.Op}
	got := goldenRun(t, append(goldenDetectors(ops), "OUTPUT_FORMAT=json"), func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	want, converted := goldenLedger{}, 0
	for name, s := range got {
		topic, _, _ := strings.Cut(name, " ")
		for _, r := range s.records {
			if text, ok := bytes.CutPrefix(r, []byte(`content-type="application/json" `)); ok {
				r = avroOf(t, topic, text)
				converted++
			}
			want.addNamed(name, r)
		}
	}
	if converted == 0 {
		t.Error("no record is JSON")
	}
	compareGolden(t, "testdata/golden-ar.txt", want)
}

// testGoldenRuns compares what workers leave that write runs of scores, and between them one that writes single ones, with what workers
// leave that write single ones: by detector each series has the same scores, and all else is equal.
func testGoldenRuns(t *testing.T) {
	newSource := func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	}
	ownBrokers(t)
	env := goldenDetectors([]detectors.Op{simple.OpZScore, ar.Op})
	singles, runs, longest := 0, 0, 0
	scores := func(l goldenLedger) goldenLedger { // with a line for each series and detector
		all := goldenLedger{}
		for name, s := range l {
			if !strings.HasPrefix(name, "golden-scores ") {
				all[name] = s
				continue
			}
			for _, r := range s.records {
				list, err := output.DecodeScores(nil, r)
				if err != nil {
					t.Fatal(err)
				}
				if r[5]&1 == 0 {
					singles++
				} else {
					runs, longest = runs+1, max(longest, len(list))
				}
				for _, s := range list {
					all.addNamed(name+" "+s.Detector, fmt.Appendf(nil, "%+v", s))
				}
			}
		}
		return all
	}
	want := scores(goldenWorkers(t, env, newSource))
	if singles == 0 || runs > 0 {
		t.Errorf("%d single scores and %d runs by default", singles, runs)
	}
	singles = 0
	got := scores(goldenWorkers(t, append(env, "SCORES_FORMAT=runs"), newSource, "SCORES_FORMAT=records"))
	if singles == 0 || runs == 0 || longest < 3 || longest > output.MaxRun {
		t.Errorf("%d single scores and %d runs, the longest of %d", singles, runs, longest)
	}
	for _, difference := range got.differences("with single scores", want.text()) {
		t.Error(difference)
	}
}

// testGoldenHeaders compares what a run with headers leaves, less the input's, with the ledger of one without. Each
// score and anomaly has the headers of the record that it names as its source, held for order, replayed or taken over.
func testGoldenHeaders(t *testing.T) {
	at := func(offset int64) string { return fmt.Sprintf("00-%032x-%016x-01", offset+1, offset+1) }
	got := goldenRun(t, append(goldenDetectors([]detectors.Op{ar.Op}), "CARRY_HEADERS=traceparent,x-site"),
		func(t *testing.T, registry, topic string) goldenSource {
			return &goldenHeaders{goldenInput: *newGoldenInput(newMeasurements(t, registry, topic)), traceparent: at}
		})
	want, carried := goldenLedger{}, 0
	for name, s := range got {
		topic, _, _ := strings.Cut(name, " ")
		for _, r := range s.records {
			if topic == "golden-scores" || topic == "golden-anomalies" {
				i := bytes.Index(r, []byte{0, 0, 0, 0}) // of the schema's id
				text := avroOf(t, topic, r[i:])
				var offset int64
				if topic == "golden-scores" {
					s, _ := output.DecodeScore(text)
					offset = s.Offset
				} else {
					a, _ := output.DecodeAnomaly(text)
					offset = a.Offset
				}
				headers := ""
				if offset%3 != 0 {
					headers = fmt.Sprintf("traceparent=%q x-site=%q ", at(offset), "oslo")
					carried++
				}
				if string(r[:i]) != headers {
					t.Errorf("%s, of offset %d: headers %q, want %q", name, offset, r[:i], headers)
				}
				r = r[i:]
			}
			for _, name := range []string{"traceparent", "x-site", "x-other"} { // dead letters and late records have all
				r = regexp.MustCompile(name+`="[^"]*" `).ReplaceAll(r, nil)
			}
			want.addNamed(name, r)
		}
	}
	if carried == 0 {
		t.Error("no record has headers")
	}
	compareGolden(t, "testdata/golden-ar.txt", want)
}

// goldenHeaders makes the steps of goldenInput with headers on two records of three.
type goldenHeaders struct {
	goldenInput
	traceparent func(offset int64) string
	offset      int64
}

func (g *goldenHeaders) step(t *testing.T, topic string) []kafkatest.Record {
	all := g.goldenInput.step(t, topic)
	for i := range all {
		if g.offset%3 != 0 {
			all[i].Headers = append(all[i].Headers, kafkatest.Header{Key: "traceparent", Value: []byte(g.traceparent(g.offset))},
				kafkatest.Header{Key: "x-other", Value: []byte("no")}, kafkatest.Header{Key: "x-site", Value: []byte("oslo")})
		}
		g.offset++
	}
	return all
}

// avroOf returns a score or an anomaly in JSON as a worker with a registry writes it: the schema of scores is
// the second that is registered, the schema of anomalies the third.
func avroOf(t *testing.T, topic string, text []byte) []byte {
	t.Helper()
	if topic == "golden-scores" {
		s, err := output.DecodeScore(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return output.NewScoreEncoder(2, s.Topic, s.Partition, []string{s.Detector}).Append(nil, s.Key, s.EventTime, s.ScoreTime, 0, s.Score,
			s.State, s.Offset, s.Remaining, s.Prediction)
	}
	a, err := output.DecodeAnomaly(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return output.NewAnomalyEncoder(3, a.Topic, a.Partition).Append(nil, &a)
}

// testGolden compares what a run of detectors of the ops leaves with the ledger in a file.
func testGolden(t *testing.T, file string, ops []detectors.Op) {
	got := goldenRun(t, goldenDetectors(ops), func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	for _, name := range []string{`golden-in-changelog "Es5"`, `golden-dlq "s5"`, `golden-late "s0"`, `golden-anomalies "s4"`} {
		if got[name] == nil {
			t.Errorf("nothing at %s", name)
		}
	}
	if s := got[`golden-anomalies "s4"`]; s != nil &&
		!slices.ContainsFunc(s.records, func(r []byte) bool { return bytes.Contains(r, []byte("silence")) }) {
		t.Error("no anomaly of silence")
	}
	checkFaults(t, got)
	compareGolden(t, file, got)
}

// checkFaults checks the faults of the anomalies that a run leaves, over the worker that was drained, the one that was killed and the
// commits that were refused: an anomaly that opens has the fault of its series' open anomalies, or of the one that its score closes.
func checkFaults(t *testing.T, l goldenLedger) {
	t.Helper()
	joined := 0
	for name, s := range l {
		if !strings.HasPrefix(name, "golden-anomalies ") {
			continue
		}
		open := map[[16]byte][16]byte{} // faults by id
		var last output.Anomaly
		for _, r := range s.records {
			a, err := output.DecodeAnomaly(r)
			if err != nil || a.Fault == nil {
				t.Fatalf("%s: fault %x: %v", name, a.Fault, err)
			}
			want := a.ID
			if last.Kind == 2 && last.Detector == a.Detector && last.Offset == a.Offset {
				want = *last.Fault
			}
			for _, fault := range open {
				want = fault
			}
			if before, ok := open[a.ID]; ok {
				want = before
			}
			silence := a.Detector == "silence" // which gives its fault to none, and may have closed another one's
			if *a.Fault != want && !(silence && a.Kind != 0) {
				t.Fatalf("%s: %s of %s at %d has fault %x, want %x", name, output.AnomalyKinds[a.Kind], a.Detector, a.Offset, *a.Fault, want)
			}
			if a.Kind == 2 {
				delete(open, a.ID)
			} else if !silence {
				open[a.ID] = *a.Fault
			}
			if a.Kind == 0 && *a.Fault != a.ID {
				joined++
			}
			last = a
		}
	}
	if joined == 0 {
		t.Error("no anomaly is of another one's fault")
	}
}

// compareGolden compares what a run leaves with the ledger in a file.
func compareGolden(t *testing.T, file string, got goldenLedger) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got.text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: -update writes the ledger of an op that is new", err)
	}
	for _, difference := range got.differences(file, string(want)) {
		t.Error(difference)
	}
}

// goldenSeries is what a run has left of a topic and key.
type goldenSeries struct {
	records [][]byte
	chain   []byte // of each record two bytes of the hash of all up to it
	sum     [sha256.Size]byte
}

// goldenLedger is by topic and key.
type goldenLedger map[string]*goldenSeries

func (l goldenLedger) add(topic string, key, record []byte) {
	l.addNamed(fmt.Sprintf("%s %q", topic, key), record)
}

func (l goldenLedger) addNamed(name string, record []byte) {
	s := l[name]
	if s == nil {
		s = &goldenSeries{}
		l[name] = s
	}
	s.records = append(s.records, record)
	s.sum = sha256.Sum256(append(s.sum[:], record...))
	s.chain = append(s.chain, s.sum[0], s.sum[1])
}

// text returns a line for each topic and key, in order: the number of records, the hash of
// all, and the chain.
func (l goldenLedger) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		s := l[name]
		fmt.Fprintf(&b, "%s\t%d\t%x\t%x\n", name, len(s.records), s.sum, s.chain)
	}
	return b.String()
}

// differences are from the text of another ledger, of a file, with the first record of
// each topic and key that differs.
func (l goldenLedger) differences(file, text string) (all []string) {
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			return []string{fmt.Sprintf("%s: a line of %d fields", file, len(fields))}
		}
		name := fields[0]
		seen[name] = true
		s := l[name]
		if s == nil {
			all = append(all, fmt.Sprintf("%s: no record, the ledger has %s", name, fields[1]))
			continue
		}
		if fmt.Sprintf("%d\t%x", len(s.records), s.sum) == fields[1]+"\t"+fields[2] {
			continue
		}
		chain, _ := hex.DecodeString(fields[3])
		at := 0
		for at < len(s.records) && 2*at < len(chain) && bytes.Equal(s.chain[2*at:2*at+2], chain[2*at:2*at+2]) {
			at++
		}
		what := fmt.Sprintf("%s: %d records, the ledger has %s; record %d is the first that differs", name, len(s.records), fields[1], at)
		if at < len(s.records) {
			what += fmt.Sprintf(":\n%q", s.records[at])
		}
		all = append(all, what)
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if !seen[name] {
			all = append(all, fmt.Sprintf("%s: %d records, the ledger has none; the first:\n%q", name, len(l[name].records), l[name].records[0]))
		}
	}
	return all
}

// goldenSettings are the settings of every run.
var goldenSettings = []string{
	"EXECUTOR=cpu", "WORKERS=2", "LATENESS=5s", "SILENCE=40s", "TTL=90s", "MAX_JUMP=0s", "MAX_FUTURE=0s",
	"REPLAY_LIMIT=1m", "COMMIT_INTERVAL=0s",
	"MISSING=skip", "INSTANCE_ID=golden", // who is killed comes back at once
}

// goldenDetectors returns the settings of a run with detectors of the ops.
func goldenDetectors(ops []detectors.Op) []string {
	names, env := []string{}, slices.Clone(goldenSettings)
	for i, op := range ops {
		name := op.Spec().Name
		for _, stride := range []string{"1", "3"} {
			d := name + stride
			names = append(names, d)
			settings := append(strings.Fields(opDetectors[name]), "OP="+name, "STRIDE="+stride, "HISTORY=64", "WARMUP=8",
				"CLOSE_AFTER=4", "UPDATE_EVERY=5",
				"THRESHOLD="+[]string{"conformal:0.03", "quantile:0.98", "mad:9", "mean:6"}[(i+len(stride))%4])
			if name == "knn" {
				settings = append(settings, "MIN_POINTS=12")
			}
			for _, s := range settings {
				env = append(env, "DETECTOR_"+strings.ToUpper(d)+"_"+s)
			}
		}
	}
	return append(env, "DETECTORS="+strings.Join(names, ","))
}

// goldenSource makes the steps of a run.
type goldenSource interface {
	step(t *testing.T, topic string) []kafkatest.Record
}

// goldenRun runs workers with these settings over the steps of the source and collects what they
// leave.
func goldenRun(t *testing.T, env []string, newSource func(t *testing.T, registry, topic string) goldenSource) goldenLedger {
	t.Helper()
	if !*update { // which three write to one file
		ownBrokers(t)
	}
	return goldenWorkers(t, env, newSource)
}

// goldenWorkers is goldenRun in a test that owns its brokers. The second worker has further settings.
func goldenWorkers(t *testing.T, env []string, newSource func(t *testing.T, registry, topic string) goldenSource,
	second ...string) goldenLedger {
	t.Helper()
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const input, group = "in", "golden"
	if err := c.Admin().CreateTopic(ctx, input, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, c, input, group, env...)
	source := newSource(t, c.RegistryURL(t), input)

	// The commit of one step in ten is refused: the cycle goes back and comes again.
	var refuse atomic.Bool
	var refused atomic.Int32
	c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		r := req.(*kmsg.EndTxnRequest)
		if !r.Commit || !refuse.CompareAndSwap(true, false) {
			return nil, nil, false
		}
		refused.Add(1)
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.InvalidTxnState.Code
		return resp, nil, true
	})
	w := f.start("first")
	w.waitReady(t)
	for step := range goldenSteps {
		switch step {
		case goldenSteps / 3:
			if code := w.drain(t); code != exitOK {
				t.Fatalf("the drained worker ended with %d", code)
			}
			w = f.start("second", second...)
			w.waitReady(t)
		case 2 * goldenSteps / 3:
			w.kill()
			w = f.start("third")
			w.waitReady(t)
		}
		refuse.Store(step%10 == 7)
		if err := c.Admin().ProduceBatch(ctx, input, 0, source.step(t, input)); err != nil {
			t.Fatal(err)
		}
		f.waitDone()
	}
	if code := w.drain(t); code != exitOK {
		t.Fatalf("the last worker ended with %d", code)
	}
	if n := refused.Load(); n != goldenSteps/10 {
		t.Errorf("%d commits were refused, want %d", n, goldenSteps/10)
	}

	l := goldenLedger{}
	topics := []string{group + "-scores", group + "-anomalies", group + "-dlq", group + "-late", group + "-" + input + "-changelog"}
	if cfg, faults, _ := config.Parse(f.settings()); len(faults) > 0 {
		t.Fatal(faults)
	} else if cfg.Blocks() {
		topics = append(topics, cfg.Output.Topics[cycle.Blocks])
	}
	for _, topic := range topics {
		if err := c.Admin().WaitStable(ctx, topic); err != nil {
			t.Fatal(err)
		}
		recs, err := c.Admin().ReadAll(ctx, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			r := &recs[i]
			if strings.HasSuffix(topic, "-changelog") && string(r.Key) == "O" {
				continue // the changelog's owner: drawn anew by each run
			}
			var b []byte
			for _, h := range r.Headers {
				b = fmt.Appendf(b, "%s=%q ", h.Key, h.Value)
			}
			l.add(topic, r.Key, append(b, r.Value...))
		}
		if len(recs) == 0 {
			t.Errorf("nothing in %s", topic)
		}
	}
	return l
}

// goldenInput makes the steps: sensors that walk, jump and stop.
type goldenInput struct {
	m     *measurements
	rng   *rand.Rand
	at    time.Time
	n     int
	value map[string]float64
}

func newGoldenInput(m *measurements) *goldenInput {
	return &goldenInput{m: m, rng: rand.New(rand.NewPCG(2024, 7)), at: time.UnixMilli(1_700_000_000_000).UTC(), value: map[string]float64{}}
}

func (g *goldenInput) step(t *testing.T, topic string) []kafkatest.Record {
	t.Helper()
	var all []kafkatest.Record
	for len(all) < goldenStep {
		g.n++
		g.at = g.at.Add(200 * time.Millisecond)
		sensor := fmt.Sprintf("s%d", g.n%10)
		if sensor == "s4" && g.n/300%2 == 1 { // silent for a minute
			continue
		}
		if sensor == "s5" && g.n > 400 && g.n < 1000 { // for two: evicted
			continue
		}
		v := g.value[sensor] + 0.2*g.rng.NormFloat64()
		g.value[sensor] = 0.9 * v
		if g.rng.IntN(60) == 0 {
			g.value[sensor] += 8
		}
		if g.n/10%50 > 40 && sensor == "s3" { // at rest
			v = 1
		}
		if g.rng.IntN(50) == 0 {
			v = math.NaN() // null
		}
		at := g.at
		switch g.rng.IntN(40) {
		case 0:
			at = at.Add(-3 * time.Second) // out of order
		case 1:
			at = at.Add(-time.Minute) // late
		}
		r := g.m.record(t, topic, sensor, at, v)
		if g.rng.IntN(70) == 0 {
			r.Value = r.Value[:len(r.Value)/2] // damaged
		}
		r.Partition, r.Time = 0, g.at.UnixMilli()
		all = append(all, r)
	}
	return all
}

// goldenGrid makes the steps of the run with grids: events of regions, one of which stops for two minutes
// and is evicted.
type goldenGrid struct{ gridInput }

func newGoldenGrid(*testing.T, string, string) goldenSource {
	return &goldenGrid{*newGridInput(rand.New(rand.NewPCG(2024, 8)))}
}

func (g *goldenGrid) step(_ *testing.T, topic string) []kafkatest.Record {
	var all []kafkatest.Record
	for n := 0; len(all) < goldenStep; n++ {
		g.at = g.at.Add(250 * time.Millisecond)
		r := g.event(topic)
		if since := g.at.Unix() - 1_700_000_000; string(r.Key) == "region-3" && since > 60 && since < 200 {
			continue
		}
		switch g.rng.IntN(70) {
		case 0:
			r = gridRecord(topic, g.rng.IntN(3), g.at, 4, 1, 1, 1) // outside
		case 1:
			r = gridRecord(topic, g.rng.IntN(3), g.at, 1, 1, "null", 1)
		}
		r.Partition, r.Time = 0, g.at.UnixMilli()
		all = append(all, r)
	}
	return all
}
