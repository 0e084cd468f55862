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

	"odradek/cmd/worker/sensors"
	"odradek/schemas/output"
)

// What the demo's anomalies are held against: the faults that the generator's
// model has planted.

// demoInterval is the event time between two readings of a sensor.
const demoInterval = 5 * time.Second

// promptSteps is how many steps after a fault's end an anomaly may open and still
// have found it.
const promptSteps = 32

// demoTruth is what was planted.
type demoTruth struct {
	model   *sensors.Model
	start   time.Time
	sensors map[string]int    // by name
	faults  [][]sensors.Fault // by sensor
	made    int64             // steps that faults has been listed for
}

func newDemoTruth(model *sensors.Model, n int, start time.Time) *demoTruth {
	d := &demoTruth{model: model, start: start, sensors: map[string]int{}, faults: make([][]sensors.Fault, n)}
	for i := range n {
		d.sensors[sensors.Name(i)] = i
	}
	return d
}

// upTo lists the faults that begin before a step.
func (d *demoTruth) upTo(steps int64) {
	if steps == d.made {
		return
	}
	for i := range d.faults {
		s := d.model.Sensor(i)
		d.faults[i] = s.FaultsUntil(steps)
	}
	d.made = steps
}

// step is the step that an event time belongs to.
func (d *demoTruth) step(us int64) int64 {
	return (us - d.start.UnixMicro()) / demoInterval.Microseconds()
}

// near is the fault that an anomaly has found: it opened while the fault lasted or
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

// told describes an anomaly for the screen.
func (d *demoTruth) told(a *demoAnomaly) string {
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

// demoAnomaly is an anomaly as the records of its id tell it.
type demoAnomaly struct {
	output.Anomaly // the newest
	sensor         string
	closed         bool
}

// demoLog folds the records of the anomalies topic.
type demoLog struct {
	byID   map[[16]byte]*demoAnomaly
	list   []*demoAnomaly // in order of arrival
	faults []string       // in the life cycles themselves
}

// add takes the next record and returns its anomaly. Each record must be the next
// revision of its id, and none comes after a close.
func (l *demoLog) add(a output.Anomaly) *demoAnomaly {
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
		have = &demoAnomaly{sensor: string(a.Key)}
		l.byID[a.ID] = have
		l.list = append(l.list, have)
	}
	a.Key = nil // lies in a buffer
	have.Anomaly, have.closed = a, have.closed || kind == "close"
	return have
}

func (l *demoLog) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// demoKind is what became of the faults of one kind.
type demoKind struct {
	Planted      int `json:"planted"` // and over
	Found        int `json:"found"`
	Missed       int `json:"missed"`
	Sensors      int `json:"sensors"`       // that had such a fault
	SensorsFound int `json:"sensors_found"` // of which all of these were found
}

// demoResult is the demo's last line.
type demoResult struct {
	Seconds     float64             `json:"seconds"`
	Sensors     int                 `json:"sensors"`
	Records     int64               `json:"readings"`    // those left out in a dropout included
	EventHours  float64             `json:"event_hours"` // of each sensor
	FirstSecond float64             `json:"first_anomaly_seconds"`
	Anomalies   int                 `json:"anomalies"`
	Kinds       map[string]demoKind `json:"kinds"`
	False       int                 `json:"false"`
	FalseBy     map[string]int      `json:"false_by_detector"`
	FalseRate   float64             `json:"false_per_sensor_hour"`
	Lifecycle   []string            `json:"lifecycle_faults"` // empty unless something is wrong
}

// judge holds anomalies against what was planted in the steps that were made. A
// fault counts when it is over and what finds it has had time to.
func (d *demoTruth) judge(list []*demoAnomaly, steps int64) demoResult {
	d.upTo(steps)
	r := demoResult{Sensors: len(d.faults), Kinds: map[string]demoKind{}, FalseBy: map[string]int{},
		Lifecycle: []string{}, Anomalies: len(list)}
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
			k.Planted++
			if found[f] {
				k.Found++
			} else {
				k.Missed++
				missed[f.Kind] = true
			}
			r.Kinds[f.Kind.String()] = k
		}
		for kind := range sensors.Kinds {
			if had[kind] {
				k := r.Kinds[kind.String()]
				k.Sensors++
				if !missed[kind] {
					k.SensorsFound++
				}
				r.Kinds[kind.String()] = k
			}
		}
	}
	r.EventHours = (time.Duration(steps) * demoInterval).Hours()
	if hours := r.EventHours * float64(r.Sensors); hours > 0 {
		r.FalseRate = float64(r.False) / hours
	}
	return r
}

// table prints found and missed by kind, and what was false.
func (r *demoResult) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "fault\tplanted\tfound\tmissed\tsensors\tall found\t")
	for _, name := range sensors.KindNames {
		k := r.Kinds[name]
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, k.Planted, k.Found, k.Missed, k.Sensors, k.SensorsFound)
	}
	tw.Flush()
	fmt.Fprintf(w, "false: %d anomalies that opened where no fault was, %.3f per sensor-hour of event time", r.False, r.FalseRate)
	for _, d := range slices.SortedFunc(maps.Keys(r.FalseBy), func(a, b string) int { return cmp.Compare(r.FalseBy[b], r.FalseBy[a]) }) {
		fmt.Fprintf(w, "; %s %d", d, r.FalseBy[d])
	}
	fmt.Fprintln(w)
}

func (r *demoResult) json(w io.Writer) error {
	return json.NewEncoder(w).Encode(r)
}
