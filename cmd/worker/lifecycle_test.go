package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// published is a record of the anomalies topic as goavro reads it.
type published struct {
	id       string
	revision int64
	kind     string
	reason   string
	key      string
	detector string
	group    string // "" for none
	member   string // that it speaks for, "" for none
	content  string // all of it
}

// anomalies reads the anomalies topic with franz-go, read_committed, and decodes
// it with goavro and the schema that the registry has for it: nothing of the
// worker. In the order of each partition.
func (f *fleet) anomalies() []published {
	f.t.Helper()
	return f.anomaliesOf(f.group + "-anomalies")
}

// anomaliesOf reads a topic of anomalies.
func (f *fleet) anomaliesOf(topic string) []published {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.c.Admin().WaitStable(ctx, topic); err != nil {
		f.t.Fatalf("%s does not become stable: %v", topic, err)
	}
	recs, err := f.c.Admin().ReadAll(ctx, topic, true)
	if err != nil {
		f.t.Fatal(err)
	}
	codecs := map[uint32]*goavro.Codec{}
	var list []published
	for i := range recs {
		r := &recs[i]
		if len(r.Value) < 6 || r.Value[0] != 0 {
			f.t.Fatalf("anomaly at %v offset %d is not in Confluent framing", r.TP(), r.Offset)
		}
		id := binary.BigEndian.Uint32(r.Value[1:])
		if codecs[id] == nil {
			codecs[id] = registryCodec(f.t, f.registry, id)
		}
		native, rest, err := codecs[id].NativeFromBinary(r.Value[5:])
		if err != nil || len(rest) != 0 {
			f.t.Fatalf("anomaly at %v offset %d: %v, %d bytes left", r.TP(), r.Offset, err, len(rest))
		}
		m := native.(map[string]any)
		a := published{id: m["id"].(string), revision: m["revision"].(int64), kind: m["kind"].(string), key: m["series_key"].(string),
			detector: m["detector"].(string), content: fmt.Sprint(m)} // maps are printed in order of their keys
		for _, v := range mapOf(m["reason"]) {
			a.reason = v.(string)
		}
		for _, v := range mapOf(m["member"]) {
			a.member = v.(map[string]any)["name"].(string)
		}
		for _, v := range mapOf(m["group"]) {
			a.group = v.(string)
		}
		if string(r.Key) != a.key {
			f.t.Fatalf("anomaly of %q has record key %q", a.key, r.Key)
		}
		list = append(list, a)
	}
	return list
}

func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// lifeFaults says what is wrong with the lives of anomalies: each id has one open,
// of revision 1, revisions one more each time, and nothing after its one close.
func lifeFaults(list []published) (faults []string) {
	last := map[string]published{}
	for _, a := range list {
		before, known := last[a.id]
		switch {
		case !known && (a.kind != "open" || a.revision != 1):
			faults = append(faults, fmt.Sprintf("%s begins with %s of revision %d", a.id, a.kind, a.revision))
		case known && a.kind == "open":
			faults = append(faults, fmt.Sprintf("%s is opened twice", a.id))
		case known && before.kind == "close":
			faults = append(faults, fmt.Sprintf("%s goes on with %s of revision %d after its close", a.id, a.kind, a.revision))
		case known && a.revision != before.revision+1:
			faults = append(faults, fmt.Sprintf("%s has revision %d after %d", a.id, a.revision, before.revision))
		case known && (a.key != before.key || a.detector != before.detector):
			faults = append(faults, fmt.Sprintf("%s moves from %s of %s to %s of %s", a.id, before.detector, before.key, a.detector, a.key))
		case (a.kind == "close") != (a.reason != ""):
			faults = append(faults, fmt.Sprintf("%s: %s with the reason %q", a.id, a.kind, a.reason))
		}
		last[a.id] = a
	}
	return faults
}

// sameLives says where two lists differ, regardless of the order of their ids.
func sameLives(want, got []published) (faults []string) {
	by := func(list []published) map[string]published {
		m := map[string]published{}
		for _, a := range list {
			m[fmt.Sprint(a.id, " ", a.revision)] = a
		}
		return m
	}
	w, g := by(want), by(got)
	for id, a := range w {
		if b, ok := g[id]; !ok {
			faults = append(faults, fmt.Sprintf("no record %s (%s of %s by %s)", id, a.kind, a.key, a.detector))
		} else if a.content != b.content {
			faults = append(faults, fmt.Sprintf("%s is\n%s, undisturbed\n%s", id, b.content, a.content))
		}
	}
	for id, a := range g {
		if _, ok := w[id]; !ok {
			faults = append(faults, fmt.Sprintf("a record %s (%s of %s by %s) that the undisturbed run has not", id, a.kind, a.key, a.detector))
		}
	}
	return faults
}

// once drops repeats of a record with the same content, which at least once may
// have; others stay.
func once(list []published) (out []published, repeats int) {
	seen := map[string]bool{}
	for _, a := range list {
		if seen[a.content] {
			repeats++
			continue
		}
		seen[a.content] = true
		out = append(out, a)
	}
	return out, repeats
}

func noFaults(t *testing.T, what string, faults []string) {
	t.Helper()
	if len(faults) > 0 {
		t.Errorf("%s: %d faults:\n%s", what, len(faults), strings.Join(faults[:min(len(faults), 8)], "\n"))
	}
}

// alarms are settings that make many anomalies of walk, of all detectors.
var alarms = []string{
	"SILENCE=3m", "DETECTOR_LEVEL_THRESHOLD=fixed:2.5", "DETECTOR_LEVEL_CLOSE_AFTER=3", "DETECTOR_LEVEL_UPDATE_EVERY=2",
	"DETECTOR_CHANGE_THRESHOLD=quantile:0.9", "DETECTOR_CHANGE_HISTORY=64", "DETECTOR_CHANGE_WARMUP=16", "DETECTOR_CHANGE_OPEN_AFTER=2",
	"DETECTOR_CHANGE_CLOSE_AFTER=2", "DETECTOR_CHANGE_MERGE_GAP=1m", `GROUP_BY=^[a-z]+-\d`, "GROUP_WINDOW=30s",
}

// calm returns what the undisturbed worker tells of a copy of the input. Ids and content
// of anomalies have offsets in them, so the copy must have the original's.
func calm(t *testing.T, c *kafkatest.Cluster, input string, env ...string) []published {
	t.Helper()
	fake, offsets := copied(t, c, input)
	for tp, originals := range offsets {
		for copied, original := range originals {
			if copied != original {
				t.Fatalf("%v: offset %d of the copy is %d in the original", tp, copied, original)
			}
		}
	}
	f := newFleet(t, fake, input, input+"-calm", env...)
	w := f.start("calm")
	w.waitReady(t)
	f.waitDone()
	if code := w.drain(t); code != exitOK {
		t.Fatalf("the undisturbed worker ended with %d", code)
	}
	list := f.anomalies()
	noFaults(t, "undisturbed", lifeFaults(list))
	return list
}

// tally counts records by detector and kind, closes by reason.
func tally(list []published) map[string]int {
	n := map[string]int{}
	for _, a := range list {
		n[a.detector+" "+a.kind+" "+a.reason]++
	}
	return n
}

// guest makes the records of a sensor that goes off at its end and is not heard of
// again, so that it is evicted with its anomaly open.
func guest(t *testing.T, m *measurements, topic string, rng *rand.Rand, i int) []kafkatest.Record {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	recs := make([]kafkatest.Record, 24)
	for j := range recs {
		v := 0.1 * rng.NormFloat64()
		if j >= 21 {
			v += 10
		}
		recs[j] = m.record(t, topic, fmt.Sprintf("guest-%03d", i), start.Add(time.Duration(m.n)*time.Second), v)
		m.n++
	}
	return recs
}

// TestLivesUnderKills: two workers, one or the other killed again and again while
// the input comes in. The lives of the anomalies are whole, and as in the
// undisturbed run, record for record; also where series are evicted with
// anomalies open.
func TestLivesUnderKills(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 4)
		m := newMeasurements(t, c.RegistryURL(t), input)
		env := append(slices.Clone(alarms), "MAX_KEYS=16") // about 8 in a partition that stay
		f := newFleet(t, c, input, input+"-g", env...)
		guests := 0
		produce := func(n int) {
			recs := walk(t, m, input, rng, 32, n)
			for range 4 {
				guests++
				recs = append(recs, guest(t, m, input, rng, guests)...)
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
		}
		produce(3000)
		workers := [2]*child{f.start("w0", "INSTANCE_ID=w0"), f.start("w1", "INSTANCE_ID=w1")}
		workers[0].waitReady(t)
		for i := range max(4, *kills/2) {
			produce(300 + rng.IntN(700))
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			v := rng.IntN(2)
			workers[v].kill()
			workers[v] = f.start(fmt.Sprintf("w%d-%d", v, i), fmt.Sprintf("INSTANCE_ID=w%d", v))
			if rng.IntN(2) == 0 {
				workers[v].waitReady(t)
			}
		}
		f.waitDone()
		for _, w := range workers {
			w.waitReady(t)
			if code := w.drain(t); code != exitOK {
				t.Errorf("%s drained with %d", w.name, code)
			}
		}
		got, want := f.anomalies(), calm(t, c, input, env...)
		noFaults(t, "lives", lifeFaults(got))
		noFaults(t, "against the undisturbed run", sameLives(want, got))
		n := tally(got)
		t.Log(len(got), n)
		for _, kind := range []string{"level open ", "level update ", "level close recovered", "level close evicted", "silence close evicted",
			"change open ", "change close recovered", "silence open "} {
			if n[kind] == 0 {
				t.Errorf("no %s: the test shows too little", kind)
			}
		}
		sizes := map[string]map[string]bool{}
		for _, a := range got {
			if a.group == "" {
				t.Fatalf("no group: %v", a)
			}
			if sizes[a.group] == nil {
				sizes[a.group] = map[string]bool{}
			}
			sizes[a.group][a.key] = true
		}
		shared := 0
		for _, keys := range sizes {
			if len(keys) > 1 {
				shared++
			}
		}
		if t.Logf("%d groups, %d of several series", len(sizes), shared); shared < 10 || len(sizes)-shared < 10 {
			t.Error("the test shows too little of groups")
		}
		controls(t, rng, want, got)
	})
}

// controls breaks what was read back, one record at a time, and wants it noticed.
func controls(t *testing.T, rng *rand.Rand, want, got []published) {
	t.Helper()
	if len(got) < 10 {
		t.Fatalf("%d records are too few for a control", len(got))
	}
	noticed := func(what string, list []published) {
		if len(lifeFaults(list)) == 0 && len(sameLives(want, list)) == 0 {
			t.Errorf("a record was %s and nothing noticed it", what)
		}
	}
	for range 50 {
		i := rng.IntN(len(got))
		noticed("dropped", slices.Delete(slices.Clone(got), i, i+1))
		noticed("doubled", slices.Insert(slices.Clone(got), i, got[i]))
		changed := slices.Clone(got)
		changed[i].content += "!"
		noticed("changed", changed)
		foreign := slices.Clone(got)
		foreign[i].id = "0" + foreign[i].id[1:]
		if foreign[i].id != got[i].id {
			noticed("given another id", foreign)
		}
	}
	// A drop or a double must show by the lives alone unless it is the last of one.
	alone := 0
	for range 50 {
		i := rng.IntN(len(got))
		if len(lifeFaults(slices.Insert(slices.Clone(got), i, got[i]))) > 0 {
			alone++
		}
	}
	if alone != 50 {
		t.Errorf("of 50 doubled records the lives alone show %d", alone)
	}
}

// TestLivesAtLeastOnce: after a crash between outputs, state and offsets a record
// may come again with the same content; without the repeats the lives are whole
// and as in the undisturbed run.
func TestLivesAtLeastOnce(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", append(slices.Clone(alarms), "GUARANTEE=at_least_once", "INSTANCE_ID=only")...)
		for _, point := range []string{"before-changelog", "before-offsets", "before-changelog"} {
			_, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, 2500))
			must(t, err)
			w := f.start(point, "TEST_FAILPOINT="+point)
			if code := w.exit(t); code != -1 {
				t.Fatalf("%s: the worker ended with %d, not by SIGKILL", point, code)
			}
		}
		w := f.start("last")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		got, repeats := once(f.anomalies())
		noFaults(t, "lives", lifeFaults(got))
		noFaults(t, "against the undisturbed run", sameLives(calm(t, c, input, alarms...), got))
		t.Logf("%d records, %d repeated", len(got), repeats)
	})
}

// TestLivesAcrossRestarts: an anomaly that is open when its worker stops continues
// with the next revision; one whose detector is not configured any more is closed
// for that reason; nothing is published of it after that.
func TestLivesAcrossRestarts(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		env := append(slices.Clone(alarms), "DETECTOR_LEVEL_CLOSE_AFTER=100", "DETECTOR_CHANGE_CLOSE_AFTER=100") // many stay open
		f := newFleet(t, c, input, input+"-g", env...)
		some := func() []kafkatest.Record { return walk(t, m, input, rng, 20, 2000) }
		f.add(some(), "first")
		f.add(some(), "second")
		before := f.anomalies()
		open := map[string]published{}
		for _, a := range before {
			open[a.id] = a
			if a.kind == "close" {
				delete(open, a.id)
			}
		}
		noFaults(t, "restarted", sameLives(calm(t, c, input, env...), before))
		f.add(some(), "without", "DETECTORS=level")
		after := f.anomalies()
		noFaults(t, "lives", lifeFaults(after))
		closed, goOn := 0, 0
		for _, a := range after {
			was, wasOpen := open[a.id]
			switch {
			case a.revision <= was.revision || !wasOpen:
			case a.detector == "change" && a.reason != "detector_removed":
				t.Errorf("%s of the removed detector: %s (%s)", a.id, a.kind, a.reason)
			case a.detector == "change":
				closed++
			default:
				goOn++
			}
		}
		want := 0
		for _, a := range open {
			if a.detector == "change" {
				want++
			}
		}
		if closed != want || want == 0 || goOn == 0 {
			t.Errorf("%d of %d open anomalies of the removed detector were closed; %d records of others went on", closed, want, goOn)
		}
		t.Logf("%d records, %d open at the restart", len(after), len(open))
	})
}

// TestLivesRekeyed: with records that do not lie by series, copied through the
// internal topic, lives are whole although workers are killed. Which offset a
// record has in the internal topic depends on who sent it on when, so there is no
// undisturbed run to compare with; the counts of what began and ended are held
// against each other.
func TestLivesRekeyed(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", append(slices.Clone(alarms), "REKEY=true", "LATENESS=2m")...)
		produce := func(n int) {
			recs := walk(t, m, input, rng, 20, n)
			for i := range recs {
				recs[i].Key = nil
				recs[i].Partition = int32(rng.IntN(3))
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
		}
		produce(2000)
		workers := [2]*child{f.start("w0", "INSTANCE_ID=w0"), f.start("w1", "INSTANCE_ID=w1")}
		workers[0].waitReady(t)
		for i := range 4 {
			produce(800)
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			v := rng.IntN(2)
			workers[v].kill()
			workers[v] = f.start(fmt.Sprintf("w%d-%d", v, i), fmt.Sprintf("INSTANCE_ID=w%d", v))
		}
		f.waitDone()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, c.Admin().WaitCommitted(ctx, f.group, f.group+"-rekey"))
		for _, w := range workers {
			w.waitReady(t)
			if code := w.drain(t); code != exitOK {
				t.Errorf("%s drained with %d", w.name, code)
			}
		}
		got := f.anomalies()
		noFaults(t, "lives", lifeFaults(got))
		n := tally(got)
		t.Log(len(got), n)
		if n["level open "] < 10 || n["level close recovered"] > n["level open "] || n["change open "] == 0 {
			t.Errorf("too few anomalies to show anything: %v", n)
		}
	})
}
