package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"odradek/cmd/internal/sensors"
	"odradek/schemas/output"
)

// This file compares the demo's anomalies with the faults that the generator's
// model has planted.

// demoInterval is the event time between two readings of a sensor.
const demoInterval = 5 * time.Second

// promptSteps is how many steps after a fault's end an anomaly may open and still
// have found it.
const promptSteps = 32

// demoTruth holds the planted faults.
type demoTruth struct {
	model   *sensors.Model
	start   time.Time
	sensors map[string]int    // by name
	faults  [][]sensors.Fault // by sensor
	made    int64             // steps that faults has been listed for
}

// upTo implements truth.
func (d *demoTruth) upTo(records int64) { d.upToStep(records / int64(len(d.faults))) }

func newDemoTruth(model *sensors.Model, n int, start time.Time) *demoTruth {
	d := &demoTruth{model: model, start: start, sensors: map[string]int{}, faults: make([][]sensors.Fault, n)}
	for i := range n {
		d.sensors[sensors.Name(i)] = i
	}
	return d
}

// upToStep lists the faults that begin before a step.
func (d *demoTruth) upToStep(steps int64) {
	if steps == d.made {
		return
	}
	for i := range d.faults {
		s := d.model.Sensor(i)
		d.faults[i] = s.FaultsUntil(steps)
	}
	d.made = steps
}

// step returns the step that an event time belongs to.
func (d *demoTruth) step(us int64) int64 {
	return (us - d.start.UnixMicro()) / demoInterval.Microseconds()
}

// near returns the fault that an anomaly has found: it opened while the fault lasted or
// promptly after it. nil: it is false.
func (d *demoTruth) near(a *demoAnomaly) *sensors.Fault {
	i, ok := d.sensors[a.sensor]
	if !ok {
		return nil
	}
	opened := d.step(a.OpenedAt)
	for j := range d.faults[i] {
		if f := &d.faults[i][j]; opened >= f.From && opened <= f.To+promptSteps {
			return f
		}
	}
	return nil
}

// describe describes an anomaly for the screen.
func (d *demoTruth) describe(a *demoAnomaly) string {
	if f := d.near(a); f != nil {
		return "planted: " + f.Kind.String()
	}
	if i, ok := d.sensors[a.sensor]; ok {
		opened := d.step(a.OpenedAt)
		for j := len(d.faults[i]) - 1; j >= 0; j-- {
			if f := &d.faults[i][j]; f.To < opened {
				return fmt.Sprintf("false, %d readings after a %v", opened-f.To, f.Kind)
			}
		}
	}
	return "false"
}

// demoAnomaly is an anomaly, read from the records of its id.
type demoAnomaly struct {
	output.Anomaly        // the newest
	sensor         string // the series
	stream         int    // of the demo's
	closed         bool
	regions        []regionChange
}

// regionChange is a region that an anomaly has from an event time on; nil: it is closed.
type regionChange struct {
	time   int64
	region *output.Region
}

// demoLog folds the records of the anomalies topic.
type demoLog struct {
	byID   map[[16]byte]*demoAnomaly
	list   []*demoAnomaly // in order of arrival
	faults []string       // in the life cycles themselves
}

// add takes the next record and returns its anomaly. Each record must be the next
// revision of its id, and none comes after a close.
func (l *demoLog) add(stream int, a output.Anomaly) *demoAnomaly {
	if l.byID == nil {
		l.byID = map[[16]byte]*demoAnomaly{}
	}
	kind := output.AnomalyKinds[a.Kind]
	have := l.byID[a.ID]
	switch {
	case have == nil && (kind != "open" || a.Revision != 1):
		l.fault("%x begins with %s of revision %d", a.ID, kind, a.Revision)
	case have != nil && (kind == "open" || a.Revision != have.Revision+1):
		l.fault("%x has %s of revision %d after revision %d", a.ID, kind, a.Revision, have.Revision)
	case have != nil && have.closed:
		l.fault("%x has %s of revision %d after its close", a.ID, kind, a.Revision)
	}
	if have == nil {
		have = &demoAnomaly{sensor: string(a.Key), stream: stream}
		l.byID[a.ID] = have
		l.list = append(l.list, have)
	}
	a.Key = nil // lies in a buffer
	if kind == "close" {
		have.regions = append(have.regions, regionChange{a.EventTime, nil})
	} else if a.Region != nil {
		have.regions = append(have.regions, regionChange{a.EventTime, a.Region})
	}
	have.Anomaly, have.closed = a, have.closed || kind == "close"
	return have
}

func (l *demoLog) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// demoKind counts the found and missed faults of one kind.
type demoKind struct {
	Planted     int `json:"planted"` // and over
	Found       int `json:"found"`
	Missed      int `json:"missed"`
	Series      int `json:"series"`       // that had such a fault
	SeriesFound int `json:"series_found"` // of which all of these were found
}

// count adds a fault.
func (k *demoKind) count(found bool) {
	k.Planted++
	if found {
		k.Found++
	} else {
		k.Missed++
	}
}

// demoResult is the demo's last line.
type demoResult struct {
	Seconds     float64             `json:"seconds"`
	Sensors     int                 `json:"sensors"`
	Records     int64               `json:"records"`     // of all streams, those left out in a dropout included
	EventHours  float64             `json:"event_hours"` // of each sensor
	FirstSecond float64             `json:"first_anomaly_seconds"`
	Anomalies   int                 `json:"anomalies"`
	Faults      int                 `json:"faults"` // that the anomalies are of, as the workers say
	Kinds       map[string]demoKind `json:"kinds"`
	False       int                 `json:"false"`
	FalseBy     map[string]int      `json:"false_by_detector"`
	FalseRate   float64             `json:"false_per_sensor_hour"`
	Fleet       demoFleet           `json:"fleet"`
	Grid        demoGrid            `json:"regions"`
	Lifecycle   []string            `json:"lifecycle_faults"` // empty unless something is wrong
}

// demoFleet has the results of the fleet of machines besides its faults.
type demoFleet struct {
	Samples  int64 `json:"samples"`
	Machines int   `json:"machines"`
	False    int   `json:"false"`
}

// demoGrid has the results of the regions besides their faults.
type demoGrid struct {
	Regions     int   `json:"regions"`
	Windows     int64 `json:"windows"`          // of each
	SpotWindows int   `json:"hot_spot_windows"` // with a hot spot, of all regions
	Followed    int   `json:"followed"`         // of which the region of an anomaly was on the hot spot
	False       int   `json:"false"`
}

// add adds the faults of a kind if there were any.
func (r *demoResult) add(name string, k demoKind) {
	if k.Planted == 0 {
		k.Series = 0
	} else if k.Missed == 0 {
		k.SeriesFound = k.Series
	}
	r.Kinds[name] = k
}

// newDemoResult returns the result of anomalies that nothing was compared with.
func newDemoResult(list []*demoAnomaly) *demoResult {
	return &demoResult{Kinds: map[string]demoKind{}, FalseBy: map[string]int{}, Lifecycle: []string{}, Anomalies: len(list),
		Faults: faultsOf(list)}
}

// faultsOf returns the number of faults that anomalies are of, by their records.
func faultsOf(list []*demoAnomaly) int {
	faults := map[[16]byte]bool{}
	for _, a := range list {
		if a.Fault != nil {
			faults[*a.Fault] = true
		}
	}
	return len(faults)
}

// judge implements truth. A fault counts when it is over and what finds it has had time to.
func (d *demoTruth) judge(list []*demoAnomaly, r *demoResult) {
	steps := d.made
	r.Sensors = len(d.faults)
	found := map[*sensors.Fault]bool{}
	for _, a := range list {
		if f := d.near(a); f != nil {
			found[f] = true
		} else {
			r.False++
			r.FalseBy[a.Detector]++
		}
	}
	for i := range d.faults {
		var missed, had [sensors.Kinds]bool
		for j := range d.faults[i] {
			f := &d.faults[i][j]
			if f.To+promptSteps >= steps {
				continue
			}
			k := r.Kinds[f.Kind.String()]
			had[f.Kind] = true
			k.count(found[f])
			missed[f.Kind] = missed[f.Kind] || !found[f]
			r.Kinds[f.Kind.String()] = k
		}
		for kind := range sensors.Kinds {
			if had[kind] {
				k := r.Kinds[kind.String()]
				k.Series++
				if !missed[kind] {
					k.SeriesFound++
				}
				r.Kinds[kind.String()] = k
			}
		}
	}
	r.EventHours = (time.Duration(steps) * demoInterval).Hours()
	if hours := r.EventHours * float64(r.Sensors); hours > 0 {
		r.FalseRate = float64(r.False) / hours
	}
}

// table prints found and missed by kind.
func (r *demoResult) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "fault\tplanted\tfound\tmissed\tseries\tall found\t")
	for _, name := range append(sensors.KindNames[:], sensors.Outlier, sensors.HotSpot) {
		k := r.Kinds[name]
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, k.Planted, k.Found, k.Missed, k.Series, k.SeriesFound)
	}
	tw.Flush()
}

// rest prints what was false, and how hot spots were followed.
func (r *demoResult) rest(w io.Writer) {
	fmt.Fprintf(w, "false: %d anomalies that opened where no fault was, %.3f per sensor-hour of event time", r.False, r.FalseRate)
	for _, d := range slices.SortedFunc(maps.Keys(r.FalseBy), func(a, b string) int { return cmp.Compare(r.FalseBy[b], r.FalseBy[a]) }) {
		fmt.Fprintf(w, "; %s %d", d, r.FalseBy[d])
	}
	fmt.Fprintf(w, "\n       %d in %d samples of %d machines; %d in %d windows of %d regions\n", r.Fleet.False, r.Fleet.Samples,
		r.Fleet.Machines, r.Grid.False, r.Grid.Windows, r.Grid.Regions)
	fmt.Fprintf(w, "hot spots move: in %d of their %d windows an anomaly's region was on them\n", r.Grid.Followed, r.Grid.SpotWindows)
}

func (r *demoResult) json(w io.Writer) error {
	return json.NewEncoder(w).Encode(r)
}
