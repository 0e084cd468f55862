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

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/sensors"
	"odradek/detectors"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// bounds are what the demo promises: at least 90 % of the faults of each kind are found, with at most one
// false anomaly in 16 sensor-hours of event time.
func bounds(t *testing.T, r *demoResult, least int) {
	t.Helper()
	for _, name := range sensors.KindNames {
		k := r.Kinds[name]
		if k.Series < least || k.Planted < k.Series || k.Found+k.Missed != k.Planted {
			t.Errorf("%s: %+v: too few to show anything", name, k)
		}
		if 10*k.Found < 9*k.Planted {
			t.Errorf("%s: %d of %d found", name, k.Found, k.Planted)
		}
	}
	boundsOf(t, r, sensors.Outlier, 15)
	boundsOf(t, r, sensors.HotSpot, 8)
	if r.Fleet.False > 2+int(r.Fleet.Samples)/3000 || r.Grid.False > 2+int(r.Grid.Windows)*r.Grid.Regions/100 {
		t.Errorf("false anomalies: %+v, %+v", r.Fleet, r.Grid)
	}
	if 10*r.Grid.Followed < 9*r.Grid.SpotWindows {
		t.Errorf("in %d of %d windows with a hot spot the region is on it", r.Grid.Followed, r.Grid.SpotWindows)
	}
	if r.FalseRate > 0.09 { // 0.0625 is promised of several seeds together (TestDemoFindsAnySeed); some 9 a seed vary by 3
		t.Errorf("%d false anomalies, %.2f per sensor-hour: %v", r.False, r.FalseRate, r.FalseBy)
	}
	if len(r.Lifecycle) > 0 {
		t.Errorf("life cycles: %v", r.Lifecycle)
	}
}

// boundsOf checks a kind that is planted in few series.
func boundsOf(t *testing.T, r *demoResult, kind string, least int) {
	t.Helper()
	if k := r.Kinds[kind]; k.Planted < least || k.Found+k.Missed != k.Planted || 10*k.Found < 9*k.Planted {
		t.Errorf("%s: %+v", kind, k)
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
	if opened < r.Anomalies/2 { // on a busy machine the screen is behind the topic when the time is up
		t.Errorf("%d of %d anomalies have a line", opened, r.Anomalies)
	}
}

// foldDemo is the demo's detection without Kafka: what one worker tells of one
// partition with all readings of sensors.
func foldDemo(t *testing.T, c *config.Config, model *sensors.Model, count int, steps int64, start time.Time,
	exec detectors.Executor) *demoLog {
	t.Helper()
	log := new(demoLog)
	list := make([]sensors.Sensor, count)
	for i := range list {
		list[i] = model.Sensor(i)
	}
	foldStream(t, c, exec, 0, log, func(fold func(key []byte, us int64, values ...float64)) {
		for n := range steps {
			us := start.Add(time.Duration(n) * demoInterval).UnixMicro()
			for i := range list {
				if v, ok := list[i].At(n); ok {
					fold([]byte(sensors.Name(i)), us, v)
				}
			}
		}
	})
	return log
}

// foldStream folds the samples of a stream's topic, all in one partition.
func foldStream(t *testing.T, c *config.Config, exec detectors.Executor, stream int, log *demoLog,
	each func(fold func(key []byte, us int64, values ...float64))) {
	t.Helper()
	cfg, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	s, b := state.New(cfg), exec.Batch()
	s.SetSource(c.Group.Topics[0], 0)
	apply := func() {
		if len(b.Tasks) > 0 {
			if err := exec.Execute(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		s.Apply(b)
		b.Reset()
		for i := range s.Events {
			log.add(stream, demoRecord(&s.Events[i]))
		}
		s.Rows, s.Events = s.Rows[:0], s.Events[:0]
	}
	offset := int64(0)
	each(func(key []byte, us int64, values ...float64) {
		for !s.Fits(b) {
			apply()
		}
		s.Fold(&state.Sample{Key: key, Time: us, Offset: offset, Values: values}, b)
		if offset++; offset%4096 == 0 {
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
	})
	for !s.Fits(b) {
		apply()
	}
	apply()
}

// foldAll is the whole demo's detection without Kafka.
func foldAll(t *testing.T, o *demoOptions, seconds int64) (*demoLog, *demoResult) {
	t.Helper()
	log := new(demoLog)
	streams := demoStreams(o, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i, s := range streams {
		c, err := demoConfig(s.workerSettings("ODRADEK_SCHEMA_REGISTRY_URL=http://none"))
		if err != nil {
			t.Fatal(err)
		}
		s.made.Store(s.options.HeadStart + seconds*int64(s.options.Rate))
		us := func(step int64) int64 { return s.options.Start.UnixMicro() + step*s.options.Interval.Microseconds() }
		switch tr := s.truth.(type) {
		case *demoTruth:
			steps := s.made.Load() / int64(o.sensors)
			*log = *foldDemo(t, c, tr.model, o.sensors, steps, s.options.Start, detectors.NewCPU(0))
		case *fleetTruth:
			foldStream(t, c, detectors.NewCPU(0), i, log, func(fold func([]byte, int64, ...float64)) {
				for step := range s.made.Load() {
					sample := tr.model.At(0, step)
					fold(tr.model.Keys()[0], us(step), sample.Values[:]...)
				}
			})
		case *gridTruth:
			foldStream(t, c, detectors.NewCPU(0), i, log, func(fold func([]byte, int64, ...float64)) {
				for n := range s.made.Load() {
					region, step := int(n)%tr.model.Regions, n/int64(tr.model.Regions)
					values := tr.model.At(region, step)
					fold(tr.model.Keys()[region], us(step), values[:]...)
				}
			})
		}
	}
	r := (&demoView{streams: streams, log: *log}).judge()
	r.Lifecycle = append(r.Lifecycle, log.faults...)
	return log, r
}

// judgeSensors compares anomalies of sensors with what was planted in their first steps.
func judgeSensors(truth *demoTruth, list []*demoAnomaly, steps int64) *demoResult {
	r := newDemoResult(list)
	truth.upToStep(steps)
	truth.judge(list, r)
	return r
}

// demoRecord returns the record that a change becomes.
func demoRecord(e *state.EventRow) output.Anomaly {
	a := &e.Change.Anomaly
	var region *output.Region
	if r := a.Region; r != nil {
		region = &output.Region{X0: r.X0, Y0: r.Y0, X1: r.X1, Y1: r.Y1}
	}
	return output.Anomaly{EventTime: e.Change.Time, Region: region,
		ID: a.ID, Revision: a.Revision, Kind: uint8(e.Change.Kind), Key: bytes.Clone(e.Key.Name()), Detector: e.Name,
		Start: a.Start, End: a.End, OpenedAt: a.OpenedAt}
}

// The bounds hold for any seed, not just the demo's.
func TestDemoFindsAnySeed(t *testing.T) {
	seeds := []uint64{1, rand.Uint64(), rand.Uint64()}
	planted, found := map[string]int{}, map[string]int{}
	falseOnes, hours := 0, 0.0
	for _, seed := range seeds {
		_, r := foldAll(t, &demoOptions{sensors: 60, rate: 3000, seed: seed}, 60)
		var table strings.Builder
		r.table(&table)
		t.Logf("seed %d\n%s", seed, table.String())
		bounds(t, r, 20)
		falseOnes, hours = falseOnes+r.False, hours+r.EventHours*float64(r.Sensors)
		for name, k := range r.Kinds {
			planted[name], found[name] = planted[name]+k.Planted, found[name]+k.Found
		}
	}
	for name, n := range planted {
		if 20*found[name] < 19*n {
			t.Errorf("%s: of all seeds %d of %d found, fewer than 95 %%", name, found[name], n)
		}
	}
	// Of 13 seeds most had 5 to 12 in 279 sensor-hours, two had 15 and 19, with one sensor after whose faults band reports again.
	if float64(16*falseOnes) > hours {
		t.Errorf("of all seeds %d false anomalies in %.0f sensor-hours, more than one in 16", falseOnes, hours)
	}
}

// sensorSettings returns the settings of a worker of the sensors.
func sensorSettings() []string {
	return demoStreams(&demoOptions{sensors: 1}, time.Time{})[0].workerSettings("ODRADEK_SCHEMA_REGISTRY_URL=http://none")
}

// What is held against outliers and hot spots can fail: anomalies elsewhere, and at another time, find none.
func TestDemoJudgeOfStreamsCanFail(t *testing.T) {
	o := &demoOptions{sensors: 1, rate: 600, seed: rand.Uint64()}
	log, whole := foldAll(t, o, 60)
	streams := demoStreams(o, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i, kind := range []string{1: sensors.Outlier, 2: sensors.HotSpot} {
		if i == 0 {
			continue
		}
		var moved []*demoAnomaly
		for _, a := range log.list {
			if a.stream != i {
				continue
			}
			b := *a
			b.OpenedAt += (6 * gridWindow).Microseconds() // in windows without a spot; no multiple of a slot of the fleet
			moved = append(moved, &b)
		}
		r := newDemoResult(moved)
		streams[i].truth.upTo(streams[i].options.HeadStart + 60*int64(streams[i].options.Rate))
		streams[i].truth.judge(moved, r)
		if got, all := r.Kinds[kind], whole.Kinds[kind]; len(moved) == 0 || got.Found > all.Found/3 || got.Planted != all.Planted {
			t.Errorf("of %d anomalies at another time %+v of kind %s are found, %+v in time", len(moved), got, kind, all)
		}
	}
}

// What is held against the faults can fail: without its detector a kind is missed,
// and anomalies at another time are false.
func TestDemoJudgeCanFail(t *testing.T) {
	c, err := demoConfig(sensorSettings())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const count, steps = 20, 2000
	model := &sensors.Model{Seed: rand.Uint64(), FaultEvery: demoFaultEvery, Faults: all}
	log := foldDemo(t, c, model, count, steps, start, detectors.NewCPU(0))
	truth := newDemoTruth(model, count, start)
	whole := judgeSensors(truth, log.list, steps)
	without := func(detectors ...string) []*demoAnomaly {
		return slices.DeleteFunc(slices.Clone(log.list), func(a *demoAnomaly) bool { return slices.Contains(detectors, a.Detector) })
	}
	for kind, detectors := range map[string][]string{
		"spike": {"any", "band"}, "frequency": {"any", "band"}, "dropout": {"silence", "any", "band"}, "stuck": {"any", "band"},
	} {
		if r := judgeSensors(truth, without(detectors...), steps); r.Kinds[kind].Found > whole.Kinds[kind].Found/2 {
			t.Errorf("without %v still %d of %d of kind %s are found", detectors, r.Kinds[kind].Found, r.Kinds[kind].Planted, kind)
		}
	}
	moved := make([]*demoAnomaly, len(log.list))
	for i, a := range log.list {
		b := *a
		b.OpenedAt += 200 * demoInterval.Microseconds() // half a slot
		moved[i] = &b
	}
	if r := judgeSensors(truth, moved, steps); r.False < len(moved)/2 || r.FalseRate < 1 {
		t.Errorf("of %d anomalies at another time %d are false, %.2f per sensor-hour", len(moved), r.False, r.FalseRate)
	}
}
