package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"odradek/cmd/internal/sensors"
	"odradek/cmd/internal/why"
	"odradek/detectors"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// runWhy runs `worker why` with -json and returns its report.
func runWhy(t *testing.T, environ []string, args ...string) (r why.Report, code int, errs string) {
	t.Helper()
	term, out, bad := console(environ...)
	code = term.why(t.Context(), append(args, "-json"))
	if out.Len() > 0 {
		var raw struct {
			Verdict    string
			Reproduced bool
			Notes      []string
			Origin     string `json:"threshold_origin"`
			Anomaly    struct{ ID, Detector, Op string }
		}
		if err := json.Unmarshal(out.Bytes(), &raw); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r.Verdict, r.Reproduced, r.Notes, r.Origin = raw.Verdict, raw.Reproduced, raw.Notes, raw.Origin
		r.Anomaly.ID, r.Anomaly.Detector, r.Anomaly.Op = raw.Anomaly.ID, raw.Anomaly.Detector, raw.Anomaly.Op
	}
	return r, code, bad.String()
}

// publishedAnomalies returns the last record of each anomaly of a topic, by detector, in the order of their opening.
func publishedAnomalies(t *testing.T, c *kafkatest.Cluster, topic string) (byDetector map[string][]output.Anomaly) {
	t.Helper()
	must(t, c.Admin().WaitStable(t.Context(), topic))
	recs, err := c.Admin().ReadAll(t.Context(), topic, true)
	must(t, err)
	byDetector = map[string][]output.Anomaly{}
	for i := range recs {
		a, err := output.DecodeAnomaly(recs[i].Value)
		must(t, err)
		list := byDetector[a.Detector]
		if k := slices.IndexFunc(list, func(o output.Anomaly) bool { return o.ID == a.ID }); k >= 0 {
			list[k] = a
		} else {
			list = append(list, a)
		}
		byDetector[a.Detector] = list
	}
	return byDetector
}

func idOf(a *output.Anomaly) string { return hex.EncodeToString(a.ID[:]) }

// whyFleet has a worker with these settings read steps of a source, and returns its environment and what it published.
func whyFleet(t *testing.T, c *kafkatest.Cluster, env []string, steps int,
	newSource func(t *testing.T, registry, topic string) goldenSource) (environ []string, all map[string][]output.Anomaly) {
	t.Helper()
	const input, group = "in", "golden"
	must(t, c.Admin().CreateTopic(t.Context(), input, 1, 0, nil))
	f := newFleet(t, c, input, group, env...)
	source := newSource(t, c.RegistryURL(t), input)
	w := f.start("only")
	w.waitReady(t)
	for range steps {
		must(t, c.Admin().ProduceBatch(t.Context(), input, 0, source.step(t, input)))
	}
	f.waitDone()
	if code := w.drain(t); code != exitOK {
		t.Fatalf("the worker ended with %d", code)
	}
	return f.settings(), publishedAnomalies(t, c, group+"-anomalies")
}

// whyEqual explains an anomaly whose source is all there: its score is to be equal, and the fold is to open the same anomaly.
func whyEqual(t *testing.T, environ []string, what string, a *output.Anomaly) why.Report {
	t.Helper()
	r, code, errs := runWhy(t, environ, idOf(a))
	if code != exitOK || r.Verdict != why.Equal || !r.Reproduced {
		t.Errorf("%s: exit %d, verdict %q, reproduced %v: %v %s", what, code, r.Verdict, r.Reproduced, r.Notes, errs)
	}
	return r
}

// whyAll explains the last anomaly of each detector (whyEqual), and returns how many by op.
func whyAll(t *testing.T, environ []string, all map[string][]output.Anomaly) (explained map[string]int) {
	t.Helper()
	explained = map[string]int{}
	for name, list := range all {
		explained[whyEqual(t, environ, name, &list[len(list)-1]).Anomaly.Op]++
	}
	return explained
}

// TestWhyEveryOp: of every op, with tasks of one sample and of three, why recomputes the published score to the bit from the records
// of the source, which has late, damaged and missing ones, silences and series that expire; also where retention
// has taken the first of them, unless the op remembers more than its window.
func TestWhyEveryOp(t *testing.T) {
	ownBrokers(t)
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	const input = "in"
	environ, all := whyFleet(t, c, append(goldenDetectors(detectors.Ops()), "DETECTOR_DISCORDS1_THRESHOLD=fixed:0.1",
		"DETECTOR_DISCORDS3_THRESHOLD=fixed:0.1", "DETECTOR_JOINT1_THRESHOLD=fixed:1", "DETECTOR_JOINT3_THRESHOLD=fixed:1"), goldenSteps,
		func(t *testing.T, registry, topic string) goldenSource {
			return newGoldenInput(newMeasurements(t, registry, topic))
		})
	explained := whyAll(t, environ, all)
	for _, op := range detectors.Ops() {
		if explained[op.String()] == 0 {
			t.Errorf("no anomaly of op %s was explained", op)
		}
	}
	if explained["silence"] == 0 {
		t.Error("no silence was explained")
	}

	drawn := map[string][]output.Anomaly{}
	for _, name := range []string{"ikasst1", "svdsst3", "lof1", "scan1", "discords1", "zscore3", "season1", "band1", "flatline1"} {
		if len(all[name]) > 0 {
			drawn[name] = all[name]
		}
	}
	whyFiles(t, environ, drawn)

	// Retention takes the first records.
	const gone = 300
	whole, cut := 0, 0
	must(t, c.Admin().DeleteRecords(t.Context(), input, 0, gone))
	for name, list := range all {
		a := list[len(list)-1]
		r, code, errs := runWhy(t, environ, idOf(&a))
		notes := strings.Join(r.Notes, "; ")
		if a.Offset < gone {
			if code != exitFailed || r.Verdict != why.Absent || !strings.Contains(notes, "the records of the anomaly are gone") {
				t.Errorf("%s, all records gone: exit %d, verdict %q: %s %s", name, code, r.Verdict, notes, errs)
			}
			continue
		}
		if !strings.Contains(notes, "retention has deleted offsets 0 to 299 of in/0") {
			t.Errorf("%s: %s %s", name, notes, errs)
		}
		switch r.Anomaly.Op {
		case "ar", "band", "discords", "flatline", "ikasst", "joint", "season", "solvingset": // they have a carry
		default:
			var need, there int
			if _, after, ok := strings.Cut(notes, "its window needs "); ok {
				fmt.Sscanf(after, "%d samples, and %d are there", &need, &there)
			}
			if whole++; r.Verdict == why.Absent && there < need { // the anomaly is of a series that has been silent since
				cut++
			} else if r.Verdict != why.Equal {
				t.Errorf("%s, without the first records: verdict %q: %s %s", name, r.Verdict, notes, errs)
			}
		}
		if !slices.Contains([]int{exitOK, exitFailed}, code) || (code == exitOK) != slices.Contains([]string{why.Equal, why.Within},
			r.Verdict) {
			t.Errorf("%s: exit %d, verdict %q", name, code, r.Verdict)
		}
	}
	if whole < 10 || cut > 2 {
		t.Errorf("the windows of %d of %d scores are cut", cut, whole)
	}
}

// TestWhyLate: the same of detectors with late admission, whose thresholds depend on which scores wait.
func TestWhyLate(t *testing.T) {
	ownBrokers(t)
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	environ, all := whyFleet(t, c, lateSettings(), goldenSteps, func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	explained := 0
	for _, name := range []string{"zscore1", "zscore3", "ar1", "sum"} {
		for i := range all[name] {
			a := &all[name][i]
			if a.Kind != 2 {
				continue
			}
			r := whyEqual(t, environ, name, a)
			notes := strings.Join(r.Notes, "; ")
			if explained++; strings.Contains(notes, "the published threshold is") || !strings.Contains(r.Origin, "while an anomaly is open") {
				t.Errorf("%s: %q, %s", name, r.Origin, notes)
			}
		}
	}
	if explained < 8 {
		t.Errorf("%d anomalies are explained", explained)
	}
}

// TestWhyDevice: scores of workers with a GPU are recomputed on it to the bit, and within the ops' tolerances on the CPU. Carries of
// the latter begin with other scores, and may go elsewhere.
func TestWhyDevice(t *testing.T) {
	child := os.Getenv("ODRADEK_CUDA_CHILD")
	if _, err := os.Stat(child); child == "" || err != nil {
		kafkatest.Missing(t, "cuda", &kafkatest.MissingError{What: "a GPU", Err: errors.New("no child program (ODRADEK_CUDA_CHILD)")})
	}
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	environ, all := whyFleet(t, c, append(goldenDetectors(detectors.Ops()), "DETECTOR_DISCORDS1_THRESHOLD=fixed:0.1",
		"DETECTOR_DISCORDS3_THRESHOLD=fixed:0.1", "EXECUTOR=cuda"), goldenSteps, func(t *testing.T, registry, topic string) goldenSource {
		return newGoldenInput(newMeasurements(t, registry, topic))
	})
	explained := whyAll(t, environ, all)
	verdicts := map[string]int{}
	for name, list := range all {
		r, _, errs := runWhy(t, append(slices.Clone(environ), "ODRADEK_EXECUTOR=cpu"), idOf(&list[len(list)-1]))
		if r.Verdict != why.Equal && r.Verdict != why.Within && !strings.HasPrefix(name, "ikasst") {
			t.Errorf("%s on the CPU: verdict %q: %v %s", name, r.Verdict, r.Notes, errs)
		}
		verdicts[r.Anomaly.Op+" "+r.Verdict]++
	}
	t.Logf("equal on the GPU %v; on the CPU %v", explained, verdicts)
}

func TestWhyFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "name the anomaly by its id"},
		{"6e1f0c", "no id of an anomaly"},
		{"6E1F0C2A", "no id of an anomaly"},
		{"6e1f0c2a -max-records 0", "-max-records 0"},
		{"6e1f0c2a -max-bytes some", "-max-bytes \"some\" is no size"},
		{"6e1f0c2a -from noon", "-from \"noon\" is not a time"},
		{"6e1f0c2a -partition -2", "-partition -2"},
		{"-json 6e1f0c2a 6e1f0c2b", "unexpected argument \"6e1f0c2b\""},
		{"6e1f0c2a -boom", "flag provided but not defined"},
	} {
		term, _, errs := console("ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_SCHEMA_REGISTRY_URL=http://localhost:1")
		if code := term.why(t.Context(), strings.Fields(c.args)); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}

// TestWhyFields explains anomalies of samples of several values, as of the demo's machines.
func TestWhyFields(t *testing.T) {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")}
	term, _, bad := console(environ...)
	if code := term.generate(t.Context(), []string{"-topic", "machines", "-partitions", "1", "-replication", "1", "-stream", "machines",
		"-records", "6000", "-format", "json", "-start-time", "2026-01-01T00:00:00Z"}); code != exitOK {
		t.Fatalf("generate: %s", bad)
	}
	environ = append(environ, "ODRADEK_GROUP=fleet", "ODRADEK_TOPICS=machines", "ODRADEK_HTTP_ADDR=off", "ODRADEK_REPLICATION=1",
		"ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD="+sensors.VectorKey, "ODRADEK_TIME_FIELD=time",
		"ODRADEK_VALUE_FIELDS="+strings.Join(sensors.VectorFields[:], ","), "ODRADEK_MAX_FUTURE=0s", "ODRADEK_OUTPUT_FORMAT=json")
	for _, s := range strings.Fields("OP=knn WINDOW=2048 K=10 EMBED=1 STRIDE=8 THRESHOLD=quantile:0.95*3 WARMUP=512 HISTORY=2048 " +
		"CLOSE_AFTER=8") {
		environ = append(environ, "ODRADEK_DETECTOR_ODD_"+s)
	}
	environ = append(environ, "ODRADEK_DETECTORS=odd")
	runUntil(t, c, environ, "machines", nil)
	all := publishedAnomalies(t, c, "fleet-anomalies")
	if n := whyAll(t, environ, all); n["knn"] == 0 {
		t.Errorf("explained %v", n)
	}
	whyFiles(t, environ, all)
}

// testWhyOtherwise asks for ids that are unknown or not whole, under other settings, of other partitions, and with limits.
func testWhyOtherwise(t *testing.T, c *kafkatest.Cluster, environ []string, all map[string][]output.Anomaly) {
	near := &all["near"][len(all["near"])-1]
	id := idOf(near)
	is := func(r why.Report, code int, errs, verdict, note string, wantCode int) {
		t.Helper()
		if code != wantCode || r.Verdict != verdict || !strings.Contains(strings.Join(r.Notes, "; ")+errs, note) {
			t.Errorf("exit %d, verdict %q, notes %q %s: want %d, %q, %q", code, r.Verdict, r.Notes, errs, wantCode, verdict, note)
		}
	}
	runWhy := func(env []string, args ...string) (why.Report, int, string) {
		return runWhy(t, append(slices.Clone(environ), env...), args...)
	}
	r, code, errs := runWhy(nil, id[:12])
	is(r, code, errs, why.Equal, "", exitOK)
	unknown := strings.Repeat("0123456789abcdef", 2)
	r, code, errs = runWhy(nil, unknown)
	is(r, code, errs, "", "is of anomaly "+unknown, exitFailed)
	r, code, errs = runWhy(nil, id, "-from", "2100-01-01T00:00:00Z")
	is(r, code, errs, "", "none of the 0 records", exitFailed)
	r, code, errs = runWhy(nil, id, "-topic", "nothing-here")
	is(r, code, errs, "", "topic \"nothing-here\" does not exist", exitFailed)
	r, code, errs = runWhy(nil, id, "-partition", "99")
	is(r, code, errs, "", "has no partition 99", exitFailed)
	r, code, errs = runWhy([]string{"ODRADEK_DETECTOR_NEAR_K=20"}, id)
	is(r, code, errs, why.Equal, "the change: ODRADEK_DETECTOR_NEAR_K was 27 and is 20", exitOK)
	r, code, errs = runWhy([]string{"ODRADEK_PRESET=", "ODRADEK_DETECTORS=other", "ODRADEK_DETECTOR_OTHER_OP=zscore"}, id)
	is(r, code, errs, why.Absent, "detector near is not in the settings", exitFailed)
	// Scores of another executor differ a little; they are in another topic here.
	for factor, want := range map[float64]string{1: why.Equal, 1 + 4e-7: why.Within, 1.001: why.Differ} {
		a := *near
		a.PeakScore = float64(float32(a.PeakScore * factor))
		topic := a.Topic + "-altered"
		enc := output.NewAnomalyEncoder(output.SingleObject, a.Topic, a.Partition)
		must(t, c.Admin().CreateTopic(t.Context(), topic, 1, 0, nil))
		must(t, c.Admin().ProduceBatch(t.Context(), topic, 0, []kafkatest.Record{{Topic: topic, Key: a.Key, Value: enc.Append(nil, &a)}}))
		r, code, errs = runWhy(nil, id, "-topic", topic)
		wantCode := exitOK
		if want == why.Differ {
			wantCode = exitFailed
		}
		is(r, code, errs, want, "retention has deleted those before", wantCode)
		must(t, c.Admin().DeleteTopic(t.Context(), topic))
	}
	// The window is there, the first samples are not: how many the series had before is found again.
	r, code, errs = runWhy(nil, id, "-max-records", "18000")
	is(r, code, errs, why.Equal, "were not read: -max-records 18000", exitOK)
	r, code, errs = runWhy(nil, id, "-max-bytes", "900KiB")
	is(r, code, errs, why.Equal, "-max-bytes 921600", exitOK)
	r, code, errs = runWhy(nil, id, "-max-records", "3000")
	is(r, code, errs, why.Differ, "the window has 2079 samples", exitFailed)
	if both := all["both"]; len(both) > 0 {
		r, code, errs = runWhy(nil, idOf(&both[len(both)-1]), "-max-records", "3000")
		is(r, code, errs, r.Verdict, "were not read", exitFailed)
	}
}

// TestWhyGrid explains anomalies of regions, of windows that overlap too.
func TestWhyGrid(t *testing.T) {
	ownBrokers(t)
	for name, settings := range map[string][]string{"grid": gridSettings, "sliding": slidingSettings} {
		t.Run(name, func(t *testing.T) {
			c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
			must(t, err)
			defer c.Close()
			environ, all := whyFleet(t, c, append(slices.Clone(goldenSettings), settings...), goldenSteps/2, newGoldenGrid)
			if n := whyAll(t, environ, all); n["scan"] < 2 {
				t.Errorf("explained %v", n)
			}
			whyFiles(t, environ, all)
		})
	}
}

// TestWhyWide explains anomalies of series that are fields of one record, published in JSON.
func TestWhyWide(t *testing.T) {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	settings := append(append(slices.Clone(goldenSettings), wideSettings...), "VALUE_FIELDS=value", "MAX_JUMP=10m", "OUTPUT_FORMAT=json")
	environ, all := whyFleet(t, c, settings, goldenSteps, func(*testing.T, string, string) goldenSource {
		return &goldenWide{*newWideInput(rand.New(rand.NewPCG(2024, 9)))}
	})
	if n := whyAll(t, environ, all); n["zscore"] == 0 {
		t.Errorf("explained %v", n)
	}
}

// whyFiles has why draw the last anomaly of each detector, into the folder WHY_OUT if that is set.
func whyFiles(t *testing.T, environ []string, all map[string][]output.Anomaly) {
	t.Helper()
	dir := os.Getenv("WHY_OUT")
	for name, list := range all {
		to := dir
		if to == "" {
			to = t.TempDir()
		}
		page := filepath.Join(to, name+".html")
		term, out, bad := console(environ...)
		id := idOf(&list[len(list)-1])
		if code := term.why(t.Context(), []string{"-html", page, id}); code != exitOK {
			t.Errorf("%s: exit %d: %s", name, code, bad)
			continue
		}
		text, err := os.ReadFile(page)
		must(t, err)
		for _, want := range []string{id, "<svg", "</svg>", "bit for bit"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		for _, want := range []string{id, "bit for bit", "threshold", list[0].Topic + "/"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: the text lacks %q:\n%s", name, want, out)
			}
		}
		if name == "near" &&
			!strings.Contains(out.String(), "of the series' own last 2048 scores; above the highest of them it is a fit of their tail") {
			t.Errorf("%s: the text does not say where the threshold comes from:\n%s", name, out)
		}
		if dir != "" {
			t.Logf("%s:\n%s", name, out)
		}
	}
}

// TestWhy explains what the default preset publishes, as in the demo: each member, the ensemble and the silences.
func TestWhy(t *testing.T) { eachCluster(t, testWhy) }

func testWhy(t *testing.T, c *kafkatest.Cluster) {
	topic := kafkatest.Unique("why")
	brokers := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t)}
	term, _, bad := console(brokers...)
	if code := term.generate(t.Context(), []string{"-topic", topic, "-partitions", "2", "-replication", "1", "-sensors", "6",
		"-records", "24000", "-fault-every", "400", "-dropout", "absent", "-start-time", "2026-01-01T00:00:00Z"}); code != exitOK {
		t.Fatalf("generate: %s", bad)
	}
	environ := append(brokers, "ODRADEK_GROUP="+topic+"-g", "ODRADEK_TOPICS="+topic, "ODRADEK_HTTP_ADDR=off", "ODRADEK_REPLICATION=1",
		"ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value", "ODRADEK_MAX_FUTURE=0s", "ODRADEK_PRESET=default",
		"ODRADEK_UNITS=value=mm/s", "ODRADEK_SILENCE=16s",
		"ODRADEK_DETECTOR_ANY_SHADOW=true",               // members open anomalies, too
		"ODRADEK_DETECTOR_BOTH_THRESHOLD=conformal:0.01", // the preset's needs days to open one
		"ODRADEK_DETECTOR_PAST_THRESHOLD=quantile:0.9")
	runUntil(t, c, environ, topic, nil)
	all := publishedAnomalies(t, c, topic+"-g-anomalies")
	for _, name := range []string{"near", "start", "shape", "flat", "band", "past", "both", "silence"} {
		list := all[name]
		if len(list) == 0 {
			t.Errorf("no anomaly of %s", name)
			continue
		}
		for _, a := range []output.Anomaly{list[0], list[len(list)-1]} {
			whyEqual(t, environ, name, &a)
		}
	}
	if c.Fake == nil {
		return // what follows depends on no broker
	}
	whyFiles(t, environ, all)
	if n := unitsInWhy(t, environ, all["near"], "mm/s"); n != 3 {
		t.Errorf("%d numbers have their unit, want 3: the summary's two and the explanation's", n)
	}
	testWhyOtherwise(t, c, environ, all)
	testWhyAny(t, c, environ, topic)
	testWhyAligned(t, c, environ, topic)
}

// TestWhyUnreadSilence: why folds the silences of a series that no detector reads as the worker did.
func TestWhyUnreadSilence(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic, environ := stateFixture(t, c)
	term, _, bad := console(environ...)
	if code := term.generate(t.Context(), []string{"-topic", topic, "-partitions", "4", "-replication", "1", "-sensors", "12",
		"-records", "24000", "-fault-every", "400", "-dropout", "absent", "-start-time", "2026-01-01T00:00:00Z"}); code != exitOK {
		t.Fatalf("generate: %s", bad)
	}
	environ = append(environ, "ODRADEK_DETECTOR_CHANGE_KEYS=sensor-0000?", "ODRADEK_SILENCE=16s", "ODRADEK_MAX_FUTURE=0s")
	runUntil(t, c, environ, topic, nil)
	explained := map[bool]int{} // by whether a detector reads the series
	for _, a := range publishedAnomalies(t, c, topic+"-g-anomalies")["silence"] {
		if read := strings.HasPrefix(string(a.Key), "sensor-0000"); explained[read] < 2 {
			explained[read]++
			whyEqual(t, environ, "silence of "+string(a.Key), &a)
		}
	}
	if explained[true] == 0 || explained[false] == 0 {
		t.Errorf("silences of read and of other series: %v", explained)
	}
}

// unitsInWhy returns how often a unit is in the explanation of the last anomaly that has expected values.
func unitsInWhy(t *testing.T, environ []string, list []output.Anomaly, unit string) int {
	t.Helper()
	for _, a := range slices.Backward(list) {
		if len(a.Expected) == 0 || a.Expected[0] != a.Expected[0] {
			continue
		}
		term, out, bad := console(environ...)
		if code := term.why(t.Context(), []string{idOf(&a)}); code != exitOK {
			t.Fatalf("exit %d: %s", code, bad)
		}
		t.Log(out.String())
		return strings.Count(out.String(), unit)
	}
	return 0
}

// testWhyAligned explains the anomalies of an ensemble whose members' scores are delayed.
func testWhyAligned(t *testing.T, c *kafkatest.Cluster, environ []string, topic string) {
	t.Helper()
	environ = slices.DeleteFunc(slices.Clone(environ), func(s string) bool { return strings.HasPrefix(s, "ODRADEK_GROUP=") })
	environ = append(environ, "ODRADEK_GROUP="+topic+"-aligned", "ODRADEK_DETECTOR_BOTH_ALIGN=true")
	runUntil(t, c, environ, topic, nil)
	list := publishedAnomalies(t, c, topic+"-aligned-anomalies")["both"]
	if len(list) == 0 {
		t.Fatal("no anomaly of both")
	}
	for _, a := range []output.Anomaly{list[0], list[len(list)-1]} {
		whyEqual(t, environ, "both, aligned", &a)
	}
}

// testWhyAny explains the anomalies of an ensemble of any: the members that spoke, and what they were computed from. The
// members have none of their own.
func testWhyAny(t *testing.T, c *kafkatest.Cluster, environ []string, topic string) {
	t.Helper()
	environ = slices.DeleteFunc(slices.Clone(environ), func(s string) bool {
		return strings.HasPrefix(s, "ODRADEK_GROUP=") || strings.HasPrefix(s, "ODRADEK_DETECTOR_ANY_")
	})
	environ = append(environ, "ODRADEK_GROUP="+topic+"-any", "ODRADEK_DETECTOR_NEAR_THRESHOLD=conformal:0.02",
		"ODRADEK_DETECTOR_SHAPE_THRESHOLD=quantile:0.9", "ODRADEK_DETECTOR_SHAPE_OPEN_AFTER=4")
	runUntil(t, c, environ, topic, nil)
	all := publishedAnomalies(t, c, topic+"-any-anomalies")
	if n := len(all["near"]) + len(all["start"]) + len(all["shape"]) + len(all["flat"]); n > 0 {
		t.Errorf("members have %d anomalies of their own", n)
	}
	spoke := map[string]bool{}
	for i := range all["any"] {
		a := &all["any"][i]
		if a.Member != nil && a.Member.Name == "flat" { // which expects no value
			continue
		}
		if a.Member == nil || a.Field != "value" || len(a.Expected) != 1 || len(a.Actual) != 1 || a.Range == 0 {
			t.Errorf("member %+v, field %q, expected %v, actual %v, range %v", a.Member, a.Field, a.Expected, a.Actual, a.Range)
			continue
		}
		if spoke[a.Member.Name] {
			continue
		}
		spoke[a.Member.Name] = true
		whyEqual(t, environ, "any", a)
		term, out, bad := console(environ...)
		if code := term.why(t.Context(), []string{idOf(a)}); code != exitOK {
			t.Fatalf("exit %d: %s", code, bad)
		}
		for _, part := range []string{"the score is the highest of score / threshold", "near (knn): score", "shape (discord): score", "100 %"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("an anomaly in which %s spoke is explained without %q:\n%s", a.Member.Name, part, out)
			}
		}
	}
	if !spoke["near"] || !spoke["shape"] {
		t.Errorf("of %d anomalies, these members spoke: %v", len(all["any"]), spoke)
	}
}
