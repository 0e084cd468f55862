package page

import (
	"strconv"
	"strings"
	"time"
)

// Status is a worker at one instant.
type Status struct {
	Version      string          `json:"version" doc:"Version of the program."`
	Group        string          `json:"group" doc:"Consumer group."`
	Instance     string          `json:"instance,omitempty" doc:"ODRADEK_INSTANCE_ID."`
	State        string          `json:"state" doc:"joining, restoring or running."`
	Guarantee    string          `json:"guarantee" doc:"exactly_once or at_least_once."`
	Executor     string          `json:"executor" doc:"Where batches are scored: cpu or cuda."`
	GPUs         []GPU           `json:"gpus" doc:"GPUs of the executor."`
	Sensitivity  string          `json:"sensitivity,omitempty" doc:"ODRADEK_SENSITIVITY in force; absent without a preset."`
	Started      time.Time       `json:"started" doc:"When the worker started."`
	Now          time.Time       `json:"now" doc:"The worker's clock."`
	Rate         float64         `json:"records_per_second" doc:"Records per second of the last seconds."`
	EventToScore [2]Duration     `json:"event_to_score" doc:"From event time to publication, in seconds: median and 99th percentile."`
	IngestTime   [2]Duration     `json:"ingest_to_score" doc:"From the record's receipt to publication, in seconds: median and 99th percentile."`
	Partitions   []Partition     `json:"partitions" doc:"Partitions that are assigned to this worker."`
	Outcomes     []Outcome       `json:"outcomes" doc:"What has become of the records of each topic since the start."`
	Detectors    []DetectorInfo  `json:"detectors" doc:"The configured detectors."`
	Anomalies    []AnomalyChange `json:"anomalies" doc:"The last changes of anomalies that this worker has published, newest first."`
	Faults       []FaultRecord   `json:"faults" doc:"The last warnings and errors of the log, newest first."`
}

// GPU is one device of the executor.
type GPU struct {
	Index int    `json:"index" doc:"Index of the device."`
	Name  string `json:"name" doc:"Name of the device."`
	Up    bool   `json:"up" doc:"It is in service; otherwise its batches are scored elsewhere."`
}

// Partition is one assigned partition.
type Partition struct {
	Topic       string    `json:"topic" doc:"Input topic."`
	Partition   int32     `json:"partition" doc:"Partition of the topic."`
	Running     bool      `json:"running" doc:"false: its state is being restored."`
	Committed   int64     `json:"committed" doc:"Committed offset; -1: not known yet."`
	End         int64     `json:"end" doc:"Last stable offset; -1: not known yet."`
	Lag         int64     `json:"lag" doc:"Offsets from committed to end."`
	Keys        int64     `json:"keys" doc:"Series in memory."`
	Bytes       int64     `json:"bytes" doc:"Approximate memory of the state."`
	Held        int64     `json:"held" doc:"Samples held for their order, or until their event time is believed."`
	Late        int64     `json:"late" doc:"Late records since its state was restored."`
	Open        int64     `json:"open" doc:"Open anomalies."`
	Rate        float64   `json:"records_per_second" doc:"Records per second of the last seconds."`
	Watermark   time.Time `json:"watermark,omitzero" doc:"Event time before which no sample is expected."`
	Remaining   int64     `json:"remaining" doc:"While it is restored: offsets yet to be read, of the log that is being read."`
	CommittedAt time.Time `json:"committed_at" doc:"When results were committed last."`
	Hold        string    `json:"hold,omitempty" doc:"What outside of Kafka it waits for."`
	HoldSince   time.Time `json:"hold_since,omitzero" doc:"Since when it has been waiting."`

	FastClock string `json:"fast_clock,omitempty" doc:"A series whose clock is ahead of the others, in words."`

	HighWatermark int64    `json:"high_watermark" doc:"Where the log ends, open transactions included; -1: not known yet."`
	FetchAge      Duration `json:"fetch_age_seconds" doc:"How long no fetch has been answered, in seconds."`
	Lost          bool     `json:"lost" doc:"No fetch has been answered for longer than brokers take to come back."`

	Quarantine *Quarantine `json:"quarantine,omitempty" doc:"Why it is paused."`
}

// Outcome counts the records of a topic since the worker's start by what became of them.
type Outcome struct {
	Topic    string        `json:"topic" doc:"Input topic."`
	Consumed int64         `json:"consumed" doc:"Records consumed."`
	Samples  int64         `json:"samples" doc:"Samples of them: a record may have several, and one that cannot be read counts as one."`
	Parts    []OutcomePart `json:"parts" doc:"Samples by outcome, and dead letters, which are records."`
}

// OutcomePart counts the records of one outcome.
type OutcomePart struct {
	Name    string  `json:"name" doc:"An outcome; skipped and dead, with the reason; rejected values, resets, closed and empty intervals, with the field."`
	Records int64   `json:"records" doc:"Number of samples; of dead, forwarded and skipped ones of records; or of values or intervals."`
	Share   float64 `json:"share" doc:"Share of the samples; of dead letters and of forwarded and skipped ones, of the records consumed."`
}

// NewOutcome returns the outcome of the records of a topic without records.
func NewOutcome(topic string, consumed, samples int64) Outcome {
	return Outcome{Topic: topic, Consumed: consumed, Samples: samples, Parts: []OutcomePart{}}
}

// Add adds the records of one outcome.
func (o *Outcome) Add(name string, records int64) {
	total := o.Samples
	if name == "forwarded" || strings.HasPrefix(name, "dead: ") || strings.HasPrefix(name, "skipped: ") {
		total = o.Consumed
	}
	o.Parts = append(o.Parts, OutcomePart{name, records, float64(records) / float64(max(total, 1))})
}

// Quarantine says why a partition is paused.
type Quarantine struct {
	Reason string    `json:"reason" doc:"unreadable, unfetchable, unauthorized, unwritable or refused."`
	Detail string    `json:"detail" doc:"The error."`
	Offset int64     `json:"offset" doc:"Offset at which it would resume."`
	Since  time.Time `json:"since" doc:"Since when it is paused."`
}

// DetectorInfo is one configured detector.
type DetectorInfo struct {
	Name   string `json:"name" doc:"Its name."`
	Op     string `json:"op" doc:"Its method."`
	Fields string `json:"fields" doc:"Value fields that it looks at."`
	Keys   string `json:"keys" doc:"Patterns of the series that it looks at."`
	Window int    `json:"window" doc:"Its window in samples."`
	Stride int    `json:"stride" doc:"Samples that are scored together."`

	Threshold string `json:"threshold" doc:"Its threshold."`
	Mapping   string `json:"mapping,omitempty" doc:"Mapping of the topics whose series it looks at; absent for those that have none."`
}

// AnomalyChange is a change of an anomaly that this worker has published.
type AnomalyChange struct {
	Time     time.Time `json:"time" doc:"Event time of the change."`
	Kind     string    `json:"kind" doc:"open, update or close."`
	Series   string    `json:"series" doc:"Series key."`
	Detector string    `json:"detector" doc:"Name of the detector."`
	Severity int       `json:"severity" doc:"0 to 100."`
	Band     string    `json:"band" doc:"info, minor, major or critical."`
}

// FaultRecord is a warning or an error that was logged, with how often.
type FaultRecord struct {
	Time  time.Time `json:"time" doc:"When it was logged last."`
	Level string    `json:"level" doc:"WARN or ERROR."`
	Text  string    `json:"text" doc:"Message and attributes."`
	Count int       `json:"count" doc:"How often it was logged."`
}

// Duration is a time.Duration that JSON has in seconds.
type Duration time.Duration

// MarshalJSON writes seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'g', -1, 64), nil
}
