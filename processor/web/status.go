package web

import (
	"html/template"
	"strconv"
	"time"
)

// Status is a worker at one instant.
type Status struct {
	Version      string        `json:"version"`
	Group        string        `json:"group"`
	Instance     string        `json:"instance,omitempty"` // ODRADEK_INSTANCE_ID
	State        string        `json:"state"`              // joining, restoring, running, draining
	Guarantee    string        `json:"guarantee"`
	Executor     string        `json:"executor"`
	Started      time.Time     `json:"started"`
	Rate         float64       `json:"records_per_second"`
	EventToScore [2]Duration   `json:"event_to_score"`  // p50, p99
	IngestTime   [2]Duration   `json:"ingest_to_score"` // p50, p99
	Partitions   []Partition   `json:"partitions"`
	Outcomes     []Outcome     `json:"outcomes"` // of the records of each topic
	Detectors    []Detector    `json:"detectors"`
	Anomalies    []Anomaly     `json:"anomalies"` // newest first
	Faults       []FaultRecord `json:"faults"`    // newest first
}

// Partition is one assigned partition.
type Partition struct {
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Running     bool      `json:"running"` // false: restoring
	Committed   int64     `json:"committed"`
	End         int64     `json:"end"`
	Lag         int64     `json:"lag"`
	Keys        int64     `json:"keys"`
	Held        int64     `json:"held"`
	Late        int64     `json:"late"` // since its state was restored
	Rate        float64   `json:"records_per_second"`
	CommittedAt time.Time `json:"committed_at"`
	Hold        string    `json:"hold,omitempty"` // what outside of Kafka it waits for
	HoldSince   time.Time `json:"hold_since,omitzero"`

	HighWatermark int64    `json:"high_watermark"`    // -1: not known yet
	FetchAge      Duration `json:"fetch_age_seconds"` // how long no fetch has been answered
	Lost          bool     `json:"lost"`              // for longer than brokers take to come back

	Quarantine *Quarantine `json:"quarantine,omitempty"`
}

// Outcome is what has become of the records of a topic since the worker's start.
type Outcome struct {
	Topic    string        `json:"topic"`
	Consumed int64         `json:"consumed"`
	Parts    []OutcomePart `json:"parts"`
}

// OutcomePart is the records of one outcome: scored, late, a dead letter of some reason.
type OutcomePart struct {
	Name    string  `json:"name"`
	Records int64   `json:"records"`
	Share   float64 `json:"share"` // of those consumed
}

// NewOutcome returns the outcome of the records of a topic without parts.
func NewOutcome(topic string, consumed int64) Outcome {
	return Outcome{Topic: topic, Consumed: consumed}
}

// Add adds a part.
func (o *Outcome) Add(name string, records int64) {
	o.Parts = append(o.Parts, OutcomePart{name, records, float64(records) / float64(max(o.Consumed, 1))})
}

// Percent returns the share for people: two digits, and never 0.
func (p OutcomePart) Percent() string { return strconv.FormatFloat(100*p.Share, 'g', 2, 64) + " %" }

// Quarantine is why a partition is paused.
type Quarantine struct {
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
	Offset int64     `json:"offset"` // where it would resume
	Since  time.Time `json:"since"`
}

// Detector is one configured detector.
type Detector struct {
	Name   string `json:"name"`
	Op     string `json:"op"`
	Fields string `json:"fields"`
	Keys   string `json:"keys"`
	Window int    `json:"window"`
	Stride int    `json:"stride"`

	Threshold string `json:"threshold"`
}

// Anomaly is a change of an anomaly that this worker has published.
type Anomaly struct {
	Time     time.Time `json:"time"` // event time of the change
	Kind     string    `json:"kind"`
	Series   string    `json:"series"`
	Detector string    `json:"detector"`
	Severity int       `json:"severity"`
	Band     string    `json:"band"`
}

// FaultRecord is a warning or an error that was logged, with how often.
type FaultRecord struct {
	Time  time.Time `json:"time"` // the last time
	Level string    `json:"level"`
	Text  string    `json:"text"`
	Count int       `json:"count"`
}

// Duration is a time.Duration that JSON shows in seconds.
type Duration time.Duration

// MarshalJSON writes seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'g', -1, 64), nil
}

func (d Duration) String() string {
	switch t := time.Duration(d); {
	case t == 0:
		return "–"
	case t < time.Second:
		return t.Round(10 * time.Microsecond).String()
	default:
		return t.Round(10 * time.Millisecond).String()
	}
}

// pageView is Status as the page shows it.
type pageView struct {
	Status
	Now       time.Time
	TotalLag  int64
	TotalKeys int64
}

func view(s Status, now time.Time) pageView {
	v := pageView{Status: s, Now: now}
	for _, p := range s.Partitions {
		v.TotalLag += p.Lag
		v.TotalKeys += p.Keys
	}
	return v
}

var page = template.Must(template.New("status").Funcs(template.FuncMap{
	"ago": func(now, t time.Time) string {
		if t.IsZero() {
			return "–"
		}
		return now.Sub(t).Round(time.Second).String() + " ago"
	},
	"n":    grouped[int64],
	"rate": func(f float64) string { return grouped(int64(f + 0.5)) },
	"date": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"time": func(t time.Time) string { return t.UTC().Format("15:04:05") },
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5"><title>Odradek {{.Group}} {{.Instance}}</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid #ddd}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.big{display:flex;gap:2.5rem;flex-wrap:wrap;margin:1rem 0}.big div{font-size:1.5rem}.big small{display:block;font-size:.8rem;color:#555}
.warn{color:#9a3b00}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}th,td{border-color:#333}.big small{color:#aaa}.warn{color:#ffab6b}}
</style></head><body>
<h1>Odradek: group {{.Group}}{{with .Instance}}, instance {{.}}{{end}}</h1>
<p>{{.State}} · {{.Guarantee}} · executor {{.Executor}} · version {{.Version}} · started {{ago .Now .Started}} · <a href="/metrics">metrics</a></p>
<div class="big">
<div>{{rate .Rate}}<small>records/s</small></div>
<div>{{n .TotalLag}}<small>lag, records</small></div>
<div>{{n .TotalKeys}}<small>series</small></div>
<div>{{index .EventToScore 0}} / {{index .EventToScore 1}}<small>event to score, p50 / p99</small></div>
<div>{{index .IngestTime 0}} / {{index .IngestTime 1}}<small>receipt to score, p50 / p99</small></div>
</div>
<h2>Partitions</h2>
{{if .Partitions}}<table><tr><th>topic</th><th class="n">partition</th><th>state</th><th class="n">committed</th><th class="n">end</th><th class="n">lag</th><th class="n">records/s</th><th class="n">series</th><th class="n">held</th><th class="n">late</th><th>committed</th></tr>
{{range .Partitions}}<tr><td>{{.Topic}}</td><td class="n">{{.Partition}}</td>
<td>{{if .Quarantine}}<span class="warn">quarantined: {{.Quarantine.Reason}} at {{n .Quarantine.Offset}}</span>{{else if .Running}}running{{else}}<span class="warn">restoring</span>{{end}}{{if .Lost}}, <span class="warn">no answer from its broker for {{.FetchAge}}</span>{{end}}{{if .Hold}}, <span class="warn">held since {{ago $.Now .HoldSince}}: {{.Hold}}</span>{{end}}</td>
<td class="n">{{n .Committed}}</td><td class="n">{{n .End}}</td><td class="n">{{n .Lag}}</td><td class="n">{{rate .Rate}}</td><td class="n">{{n .Keys}}</td><td class="n">{{n .Held}}</td><td class="n">{{if .Late}}<span class="warn">{{n .Late}}</span>{{else}}0{{end}}</td><td>{{ago $.Now .CommittedAt}}</td></tr>
{{end}}</table>
{{range .Partitions}}{{if .Quarantine}}<p class="warn">{{.Topic}}/{{.Partition}} is paused since {{date .Quarantine.Since}}: {{.Quarantine.Detail}}</p>
{{end}}{{end}}{{else}}<p>None assigned.</p>{{end}}
{{if .Outcomes}}<h2>Records since the start</h2>
<table><tr><th>topic</th><th class="n">consumed</th><th>of them</th></tr>
{{range .Outcomes}}<tr><td>{{.Topic}}</td><td class="n">{{n .Consumed}}</td><td>{{range $i, $p := .Parts}}{{if $i}}, {{end}}{{$p.Percent}} {{$p.Name}} ({{n $p.Records}}){{end}}</td></tr>
{{end}}</table>
{{end}}<h2>Detectors</h2>
<table><tr><th>name</th><th>method</th><th>fields</th><th>series</th><th class="n">window</th><th class="n">stride</th><th>threshold</th></tr>
{{range .Detectors}}<tr><td>{{.Name}}</td><td>{{.Op}}</td><td>{{.Fields}}</td><td>{{.Keys}}</td><td class="n">{{.Window}}</td><td class="n">{{.Stride}}</td><td>{{.Threshold}}</td></tr>
{{end}}</table>
{{if .Anomalies}}<h2>Last anomalies</h2>
<table><tr><th>event time (UTC)</th><th>change</th><th>series</th><th>detector</th><th class="n">severity</th><th></th></tr>
{{range .Anomalies}}<tr><td>{{date .Time}}</td><td>{{.Kind}}</td><td>{{.Series}}</td><td>{{.Detector}}</td><td class="n">{{.Severity}}</td><td>{{.Band}}</td></tr>
{{end}}</table>{{end}}
<h2>Last faults</h2>
{{if .Faults}}<table><tr><th>last (UTC)</th><th>level</th><th class="n">times</th><th>what</th></tr>
{{range .Faults}}<tr><td>{{time .Time}}</td><td>{{.Level}}</td><td class="n">{{.Count}}</td><td>{{.Text}}</td></tr>
{{end}}</table>{{else}}<p>None.</p>{{end}}
</body></html>
`))

// grouped writes 1234567 as 1 234 567, with narrow spaces.
func grouped[T ~int64](v T) string {
	s := strconv.FormatInt(int64(v), 10)
	sign := ""
	if v < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}
