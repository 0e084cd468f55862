package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/sensors"
	"odradek/detectors"
	"odradek/processor/keystate"
	"odradek/schemas/output"
)

// bounds are what the demo promises: at least 90 % of the faults of each kind are found, with at most one
// false anomaly in 20 sensor-hours of event time.
func bounds(t *testing.T, r *demoResult, least int) {
	t.Helper()
	for _, name := range sensors.KindNames {
		k := r.Kinds[name]
		if k.Sensors < least || k.Planted < k.Sensors || k.Found+k.Missed != k.Planted {
			t.Errorf("%s: %+v: too few to show anything", name, k)
		}
		if 10*k.Found < 9*k.Planted {
			t.Errorf("%s: %d of %d found", name, k.Found, k.Planted)
		}
	}
	if r.FalseRate > 0.05 {
		t.Errorf("%d false anomalies, %.2f per sensor-hour: %v", r.False, r.FalseRate, r.FalseBy)
	}
	if len(r.Lifecycle) > 0 {
		t.Errorf("life cycles: %v", r.Lifecycle)
	}
}

// The demo runs to its end by itself; what it says last is what it promises, from
// the topic itself, and the first anomaly is on the screen in time.
func TestDemo(t *testing.T) {
	term, out, errs := console(os.Environ()...)
	if code := term.demo(context.Background(),
		[]string{"-worker", workerBinary(t), "-for", "12s", "-http", "127.0.0.1:0", "-rate", "6000", "-sensors", "50"}); code != exitOK {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	t.Log("\n" + strings.Join(lines[max(0, len(lines)-14):], "\n"))
	var r demoResult
	dec := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	bounds(t, &r, 8)
	if r.FirstSecond <= 0 || r.FirstSecond > 15 {
		t.Errorf("the first anomaly was on the screen after %v s", r.FirstSecond)
	}
	if r.Sensors < 50 || r.EventHours < 1 {
		t.Errorf("%d sensors for %v hours", r.Sensors, r.EventHours)
	}
	opened := 0
	for _, l := range lines {
		if strings.Contains(l, "planted: ") || strings.Contains(l, "  false") {
			opened++
		}
	}
	if opened < r.Anomalies*9/10 {
		t.Errorf("%d of %d anomalies have a line", opened, r.Anomalies)
	}
}

// foldDemo is the demo's detection without Kafka: what one worker tells of one
// partition with all records.
func foldDemo(t *testing.T, c *config.Config, model *sensors.Model, count int, steps int64, start time.Time,
	exec detectors.Executor) *demoLog {
	t.Helper()
	cfg, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	s, b, log := keystate.New(cfg), exec.Batch(), new(demoLog)
	s.SetSource(demoTopic, 0)
	apply := func() {
		if len(b.Tasks) > 0 {
			if err := exec.Execute(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		s.Apply(b)
		b.Reset()
		for i := range s.Events {
			log.add(demoRecord(&s.Events[i]))
		}
		s.Rows, s.Events = s.Rows[:0], s.Events[:0]
	}
	list := make([]sensors.Sensor, count)
	names := make([][]byte, count)
	for i := range list {
		list[i], names[i] = model.Sensor(i), []byte(sensors.Name(i))
	}
	offset, values := int64(0), make([]float64, 1)
	for n := range steps {
		us := start.Add(time.Duration(n) * demoInterval).UnixMicro()
		for i := range list {
			v, ok := list[i].At(n)
			if !ok {
				continue
			}
			for !s.Fits(b) {
				apply()
			}
			values[0] = v
			s.Fold(&keystate.Sample{Key: names[i], Time: us, Offset: offset, Values: values}, b)
			offset++
		}
		if n%64 == 63 {
			for !s.Fits(b) {
				apply()
			}
			apply()
			s.Mark(offset)
			if err := s.Snapshot(offset, 1<<30, func(_, _ []byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
			s.Committed(offset)
		}
	}
	for !s.Fits(b) {
		apply()
	}
	apply()
	return log
}

// demoRecord is the record that a change becomes.
func demoRecord(e *keystate.EventRow) output.Anomaly {
	a := &e.Change.Anomaly
	return output.Anomaly{ID: a.ID, Revision: a.Revision, Kind: uint8(e.Change.Kind), Key: bytes.Clone(e.Key.Name()), Detector: e.Name,
		Start: a.Start, End: a.End, OpenedAt: a.OpenedAt}
}

// The bounds hold for any seed, not just the demo's.
func TestDemoFindsAnySeed(t *testing.T) {
	c, err := demoConfig(demoSettings("ODRADEK_SCHEMA_REGISTRY_URL=http://none"))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seeds := []uint64{1, rand.Uint64(), rand.Uint64()}
	planted, found := map[string]int{}, map[string]int{}
	for _, seed := range seeds {
		const count, steps = 60, 3350 // as a minute of the demo
		model := &sensors.Model{Seed: seed, FaultEvery: demoFaultEvery, Faults: all}
		log := foldDemo(t, c, model, count, steps, start, detectors.NewCPU(0))
		r := newDemoTruth(model, count, start).judge(log.list, steps)
		r.Lifecycle = append(r.Lifecycle, log.faults...)
		var table strings.Builder
		r.table(&table)
		t.Logf("seed %d\n%s", seed, table.String())
		bounds(t, &r, 20)
		for name, k := range r.Kinds {
			planted[name], found[name] = planted[name]+k.Planted, found[name]+k.Found
		}
	}
	for name, n := range planted {
		if 20*found[name] < 19*n {
			t.Errorf("%s: of all seeds %d of %d found, fewer than 95 %%", name, found[name], n)
		}
	}
}

// What is held against the faults can fail: without its detector a kind is missed,
// and anomalies at another time are false.
func TestDemoJudgeCanFail(t *testing.T) {
	c, err := demoConfig(demoSettings("ODRADEK_SCHEMA_REGISTRY_URL=http://none"))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const count, steps = 20, 2000
	model := &sensors.Model{Seed: rand.Uint64(), FaultEvery: demoFaultEvery, Faults: all}
	log := foldDemo(t, c, model, count, steps, start, detectors.NewCPU(0))
	truth := newDemoTruth(model, count, start)
	whole := truth.judge(log.list, steps)
	without := func(detectors ...string) []*demoAnomaly {
		return slices.DeleteFunc(slices.Clone(log.list), func(a *demoAnomaly) bool { return slices.Contains(detectors, a.Detector) })
	}
	for kind, detectors := range map[string][]string{
		"spike": {"near", "shape"}, "frequency": {"near", "shape"},
		"dropout": {"silence", "near", "shape"}, "stuck": {"flat", "near", "shape"},
	} {
		if r := truth.judge(without(detectors...), steps); r.Kinds[kind].Found > whole.Kinds[kind].Found/2 {
			t.Errorf("without %v still %d of %d of kind %s are found", detectors, r.Kinds[kind].Found, r.Kinds[kind].Planted, kind)
		}
	}
	moved := make([]*demoAnomaly, len(log.list))
	for i, a := range log.list {
		b := *a
		b.OpenedAt += 200 * demoInterval.Microseconds() // half a slot
		moved[i] = &b
	}
	if r := truth.judge(moved, steps); r.False < len(moved)/2 || r.FalseRate < 1 {
		t.Errorf("of %d anomalies at another time %d are false, %.2f per sensor-hour", len(moved), r.False, r.FalseRate)
	}
}
