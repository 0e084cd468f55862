package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/sensors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
)

// stream is an input of the demo: its records, what is planted in them, and the group of workers that reads it.
type stream struct {
	topic, group string
	partitions   int
	workers      int
	settings     []string // of its workers: fields and detectors
	options      sensors.Options
	source       sensors.Stream // nil: the readings of sensors, in Avro
	truth        truth
	made         atomic.Int64 // records generated

	config *config.Config // of its first worker
}

// truth holds the faults planted in a stream.
type truth interface {
	// upTo sets how many records of the stream there are, and so which faults were planted.
	upTo(records int64)
	// describe describes an anomaly for the screen.
	describe(a *demoAnomaly) string
	// judge compares all anomalies of the stream with what was planted, and adds the comparison to the result.
	judge(list []*demoAnomaly, r *demoResult)
}

// The fleet: samples of four values of 20 machines, an outlier in every 250.
const (
	fleetGroup    = "demo-fleet"
	fleetInterval = time.Second
	fleetShare    = 6 // of the rate of the sensors' records
)

func fleetModel(seed uint64) *sensors.Vectors {
	return &sensors.Vectors{Seed: seed, Fleets: 1, Machines: 20, OutlierEvery: 250}
}

// The regions: counts at 80 places each, in windows of a minute, and a hot spot for half of every 12 windows.
const (
	gridGroup  = "demo-regions"
	gridWindow = time.Minute
	gridShare  = 3
)

func gridModel(seed uint64) *sensors.Spots {
	return &sensors.Spots{Seed: seed, Regions: 2, Columns: 10, Rows: 8, SpotEvery: 12}
}

// fleetDetectors returns the settings of the workers of the fleet: one window for all machines.
func fleetDetectors() []string {
	return []string{
		"ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=" + sensors.VectorKey, "ODRADEK_TIME_FIELD=time",
		"ODRADEK_VALUE_FIELDS=temperature,pressure,flow,current", "ODRADEK_MAX_FUTURE=0s",
		"ODRADEK_DETECTORS=odd", "ODRADEK_DETECTOR_ODD_OP=knn", "ODRADEK_DETECTOR_ODD_WINDOW=2048", "ODRADEK_DETECTOR_ODD_K=10",
		"ODRADEK_DETECTOR_ODD_EMBED=1", "ODRADEK_DETECTOR_ODD_STRIDE=8",
		"ODRADEK_DETECTOR_ODD_THRESHOLD=quantile:0.95*3", "ODRADEK_DETECTOR_ODD_WARMUP=512",
		"ODRADEK_DETECTOR_ODD_HISTORY=2048", "ODRADEK_DETECTOR_ODD_CLOSE_AFTER=8",
	}
}

// gridDetectors returns the settings of the workers of the regions.
func gridDetectors(m *sensors.Spots) []string {
	return []string{
		"ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=" + sensors.SpotKey, "ODRADEK_TIME_FIELD=time",
		"ODRADEK_VALUE_FIELDS=x,y,events,usual", "ODRADEK_MAX_FUTURE=0s", "ODRADEK_LATENESS=1s",
		"ODRADEK_DETECTORS=hot", "ODRADEK_DETECTOR_HOT_OP=scan", "ODRADEK_DETECTOR_HOT_FIELDS=x,y,events,usual",
		fmt.Sprintf("ODRADEK_DETECTOR_HOT_WINDOW=%d", m.Round()), fmt.Sprintf("ODRADEK_DETECTOR_HOT_COLUMNS=%d", m.Columns),
		fmt.Sprintf("ODRADEK_DETECTOR_HOT_GRID=%v", gridWindow), "ODRADEK_DETECTOR_HOT_REPLICATES=99",
		"ODRADEK_DETECTOR_HOT_THRESHOLD=fixed:10.5",
	}
}

// demoStreams lists the inputs of a run that begins at a time.
func demoStreams(o *demoOptions, began time.Time) []*stream {
	start := began.UTC().Truncate(time.Second)
	all, err := sensors.ParseKinds("all")
	if err != nil {
		panic(err)
	}
	model := &sensors.Model{Seed: o.seed, FaultEvery: demoFaultEvery, Faults: all}
	list := []*stream{{
		topic: demoTopic, group: demoGroup, partitions: demoPartitions, workers: demoWorkers, settings: demoDetectors(),
		options: sensors.Options{Rate: o.rate, Start: start, Interval: demoInterval, HeadStart: demoHeadStart * int64(o.sensors),
			Dropout: sensors.DropoutAbsent},
		truth: newDemoTruth(model, o.sensors, start),
	}}
	fleet := fleetModel(o.seed)
	list = append(list, &stream{
		topic: "machines", group: fleetGroup, partitions: 1, workers: 1, settings: fleetDetectors(), source: fleet,
		options: sensors.Options{Rate: o.rate / fleetShare, Start: start, Interval: fleetInterval, HeadStart: 4 * fleet.OutlierEvery},
		truth:   &fleetTruth{model: fleet, start: start},
	})
	grid := gridModel(o.seed)
	start = start.Truncate(gridWindow)
	return append(list, &stream{
		topic: "events", group: gridGroup, partitions: 2, workers: 1, settings: gridDetectors(grid), source: grid,
		options: sensors.Options{Rate: o.rate / gridShare, Start: start, Interval: gridWindow / time.Duration(grid.Round())},
		truth:   &gridTruth{model: grid, start: start},
	})
}

// workerSettings returns the complete settings of one of the stream's workers.
func (s *stream) workerSettings(more ...string) []string {
	return append(append([]string(nil), s.settings...), append([]string{"ODRADEK_GROUP=" + s.group, "ODRADEK_TOPICS=" + s.topic,
		"ODRADEK_REPLICATION=1", "ODRADEK_LOG_LEVEL=warn"}, more...)...)
}

// generate writes the stream's records until ctx or their duration ends.
func (s *stream) generate(ctx context.Context, duration time.Duration) error {
	client, err := demoClient(ctx, s.config)
	if err != nil {
		return err
	}
	defer client.Close()
	source := s.source
	if source == nil {
		registry, err := s.config.NewRegistry()
		if err != nil {
			return err
		}
		defer registry.Close()
		id, err := registry.Register(ctx, schemas.Subject(s.topic), output.ReadingSchema)
		if err != nil {
			return err
		}
		t := s.truth.(*demoTruth)
		source = t.model.Readings(len(t.faults), output.NewReadingEncoder(id, "demo", "mm/s"))
	}
	codec, err := record.ParseCodec(s.config.Output.Compression)
	if err != nil {
		return err
	}
	producer := client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return err
	}
	o := s.options
	o.Topic, o.Duration, o.Made = s.topic, duration, &s.made
	return sensors.NewSource(o, source, s.partitions).Run(ctx,
		func() *record.Batches { return record.NewBatches(int(s.config.Output.MaxMessage), codec) }, producer.Produce)
}

// fleetTruth are the outliers of a fleet.
type fleetTruth struct {
	model   *sensors.Vectors
	start   time.Time
	records int64
}

func (f *fleetTruth) upTo(records int64) { f.records = records }

// near reports whether an anomaly opened at an outlier, and at which of its slots.
func (f *fleetTruth) near(a *demoAnomaly) (slot int64, ok bool) {
	step := (a.OpenedAt - f.start.UnixMicro()) / fleetInterval.Microseconds()
	slot = step / f.model.OutlierEvery
	at, ok := f.model.OutlierOf(0, slot)
	return slot, ok && at == step
}

func (f *fleetTruth) describe(a *demoAnomaly) string {
	if _, ok := f.near(a); ok {
		return "planted: " + sensors.Outlier
	}
	return "false"
}

// judge counts an outlier when the next slot has begun.
func (f *fleetTruth) judge(list []*demoAnomaly, r *demoResult) {
	found := map[int64]bool{}
	r.Fleet.Samples, r.Fleet.Machines = f.records, f.model.Machines
	for _, a := range list {
		if slot, ok := f.near(a); ok {
			found[slot] = true
		} else {
			r.Fleet.False++
		}
	}
	k := demoKind{Series: 1}
	for slot := range f.records / f.model.OutlierEvery {
		if _, ok := f.model.OutlierOf(0, slot); ok {
			k.count(found[slot])
		}
	}
	r.add(sensors.Outlier, k)
}

// gridTruth are the hot spots of regions.
type gridTruth struct {
	model   *sensors.Spots
	start   time.Time
	records int64
}

func (g *gridTruth) upTo(records int64) { g.records = records }

// window returns the number of the window that an event time is in; a round of the model is a window.
func (g *gridTruth) window(us int64) int64 {
	return (us - g.start.UnixMicro()) / gridWindow.Microseconds()
}

// on reports whether a region of cells has one of the spot's in a window.
func on(s *sensors.Spot, window int64, r *output.Region) bool {
	box := s.Box(window)
	return r != nil && r.X0 < box[2] && r.X1 > box[0] && r.Y0 < box[3] && r.Y1 > box[1]
}

// near returns the hot spot on which an anomaly opened.
func (g *gridTruth) near(a *demoAnomaly) (region int, slot int64, ok bool) {
	window := g.window(a.OpenedAt)
	slot = window / g.model.SpotEvery
	if _, err := fmt.Sscanf(a.sensor, "region-%d", &region); err != nil || len(a.regions) == 0 {
		return 0, 0, false
	}
	s, ok := g.model.SpotOf(region, slot)
	return region, slot, ok && window >= s.From && window <= s.To && on(&s, window, a.regions[0].region)
}

func (g *gridTruth) describe(a *demoAnomaly) string {
	if _, _, ok := g.near(a); ok {
		return "planted: " + sensors.HotSpot
	}
	return "false"
}

// judge counts a hot spot when the window after it has ended, as far as the records say.
func (g *gridTruth) judge(list []*demoAnomaly, r *demoResult) {
	type spot struct {
		region int
		slot   int64
	}
	found := map[spot]bool{}
	for _, a := range list {
		if region, slot, ok := g.near(a); ok {
			found[spot{region, slot}] = true
		} else {
			r.Grid.False++
		}
	}
	windows := g.records/(int64(g.model.Regions)*g.model.Round()) - 1
	r.Grid.Regions, r.Grid.Windows = g.model.Regions, max(0, windows)
	var k demoKind
	for region := range g.model.Regions {
		k.Series++
		for slot := range windows/g.model.SpotEvery + 1 {
			s, ok := g.model.SpotOf(region, slot)
			if !ok || s.To+1 >= windows {
				continue
			}
			k.count(found[spot{region, slot}])
			for window := s.From; window <= s.To; window++ {
				r.Grid.SpotWindows++
				if g.followed(list, region, &s, window) {
					r.Grid.Followed++
				}
			}
		}
	}
	r.add(sensors.HotSpot, k)
}

// followed reports whether an anomaly's region was on the spot when a window ended.
func (g *gridTruth) followed(list []*demoAnomaly, region int, s *sensors.Spot, window int64) bool {
	for _, a := range list {
		if a.sensor != string(g.model.Keys()[region]) || g.window(a.OpenedAt) > window || g.window(a.OpenedAt) < s.From {
			continue
		}
		var last *output.Region
		for i := range a.regions {
			if c := &a.regions[i]; g.window(c.time) <= window {
				last = c.region
			}
		}
		if on(s, window, last) {
			return true
		}
	}
	return false
}
