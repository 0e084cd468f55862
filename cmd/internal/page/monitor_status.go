package page

import (
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// This file makes what the page shows of one worker: its partitions, what has become of their records, its detectors.

// Worker is what a status is made of.
type Worker struct {
	Config   *config.Config
	Instance string // id of a static member
	Version  string
	Started  time.Time
	Metrics  *metrics.Metrics
	Executor string       // cpu or cuda
	GPUs     func() []GPU // nil without any
	Faults   *Faults
}

// Processing is what a worker does with records.
type Processing interface {
	NotReady() error
	Status() []metrics.PartitionStatus
}

// Status returns the worker as it is now; p is nil until it processes records.
func (w *Worker) Status(p Processing) Status {
	s := Status{
		Version: w.Version, Group: w.Config.Group.Group, Instance: w.Instance, State: "joining",
		Guarantee: w.Config.Cycle.Guarantee, Executor: w.Executor, GPUs: []GPU{}, Started: w.Started, Now: time.Now(), Rate: w.Metrics.Rate(),
		EventToScore: [2]Duration{Duration(w.Metrics.EventToScore(0.5)), Duration(w.Metrics.EventToScore(0.99))},
		IngestTime:   [2]Duration{Duration(w.Metrics.IngestToScore(0.5)), Duration(w.Metrics.IngestToScore(0.99))},
		Partitions:   []Partition{}, Outcomes: []Outcome{}, Detectors: []DetectorInfo{}, Anomalies: []AnomalyChange{},
		Faults: w.Faults.List(),
	}
	if w.Config.Detect.Preset != "" {
		s.Sensitivity = w.Config.Detect.Sensitivity
	}
	if w.GPUs != nil {
		s.GPUs = w.GPUs()
	}
	for _, c := range w.Config.Mappings() {
		for i := range c.Detectors {
			d := &c.Detectors[i]
			s.Detectors = append(s.Detectors, DetectorInfo{Name: d.Name, Op: d.Op, Fields: strings.Join(d.Fields, ", "),
				Keys: strings.Join(d.Keys, ", "), Window: d.Window, Stride: d.Stride, Threshold: d.Alarm.Threshold, Mapping: c.MappingName()})
		}
	}
	for _, a := range w.Metrics.RecentAnomalies() {
		s.Anomalies = append(s.Anomalies, AnomalyChange{Time: a.Time, Kind: a.Kind, Series: a.Key, Detector: a.Detector,
			Severity: a.Severity, Band: a.Band})
	}
	for _, o := range w.Metrics.Outcomes() {
		out := NewOutcome(o.Topic, o.Consumed, o.Samples)
		for _, part := range o.Shares {
			out.Add(part.Name, part.Records)
		}
		s.Outcomes = append(s.Outcomes, out)
	}
	if p == nil {
		return s
	}
	if s.State = "running"; p.NotReady() != nil {
		s.State = "restoring"
	}
	for _, ps := range p.Status() {
		s.Partitions = append(s.Partitions, w.partition(&ps))
	}
	return s
}

// partition returns a partition as the page has it.
func (w *Worker) partition(ps *metrics.PartitionStatus) Partition {
	part := Partition{Quarantine: (*Quarantine)(ps.Quarantine), Topic: ps.Topic, Partition: ps.Partition, Running: ps.Running,
		Committed: ps.Committed, End: ps.End, Lag: ps.Lag, Keys: ps.Keys, Bytes: ps.Bytes, Held: ps.Held, Late: ps.Late,
		Rate: w.Metrics.Partition(ps.TP()).Rate(), Remaining: ps.Remaining, CommittedAt: ps.CommittedAt, Hold: ps.Hold, HoldSince: ps.HoldSince,
		FastClock: ps.FastClock, HighWatermark: ps.HighWatermark, FetchAge: Duration(ps.FetchAge), Lost: ps.Lost}
	for _, n := range ps.Open {
		part.Open += n
	}
	if ps.Watermark != state.NoTime {
		part.Watermark = time.UnixMicro(ps.Watermark).UTC()
	}
	return part
}
