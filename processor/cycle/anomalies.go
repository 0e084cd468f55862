package cycle

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// bandIndex is the schema's index of the band of each severity.
var bandIndex = func() (index [256]uint8) {
	for s := range index {
		i := slices.Index(output.SeverityBands, threshold.Band(uint8(s)))
		if i < 0 {
			panic("cycle: the anomaly schema lacks the band " + threshold.Band(uint8(s)))
		}
		index[s] = uint8(i)
	}
	return index
}()

// changeTopics are the topics of changes of anomalies.
var changeTopics = [...]Output{Anomalies, ShadowAnomalies}

// writeChanges returns the write of a topic of changes of anomalies, which are rare beside the scores.
func writeChanges(to Output) func(*Writer, *Payload, *state.State, *metrics.Work, time.Time) (int, error) {
	return func(w *Writer, p *Payload, s *state.State, work *metrics.Work, now time.Time) (bytes int, err error) {
		if p.topics.Outputs[to].Name == "" {
			return 0, nil
		}
		return w.writeChanges(to, p, s.Events, work, now)
	}
}

// writeChanges encodes the changes of one of the topics: changes of anomalies in shadow mode, or the others. The status page
// shows the others alone.
func (w *Writer) writeChanges(to Output, p *Payload, list []state.EventRow, work *metrics.Work, now time.Time) (bytes int, err error) {
	ms, shadow := now.UnixMilli(), to == ShadowAnomalies
	for i := range list {
		row := &list[i]
		if row.Change.Anomaly.Shadow != shadow {
			continue
		}
		a := AnomalyRecord(row, w.state)
		var n [metrics.ChangeKinds]int64
		n[row.Change.Kind]++
		if shadow {
			work.Counts.Shadow.Add(row.Name, n)
		} else {
			work.Counts.Changes.Add(row.Name, n)
			if row.Change.Anomaly.Like != nil {
				work.Counts.Marked.Add(row.Name, n)
			}
		}
		if !shadow && len(list)-i <= metrics.MaxRecent {
			work.Recent = append(work.Recent, metrics.RecentAnomaly{Time: time.UnixMicro(a.EventTime).UTC(),
				Kind: output.AnomalyKinds[a.Kind], Key: string(a.Key), Detector: row.Name,
				Severity: int(a.Severity), Band: output.SeverityBands[a.Band]})
		}
		size, err := w.writeAnomaly(to, p, ms, &a, row.Behind)
		if err != nil {
			return bytes, err
		}
		bytes += size
	}
	return bytes, nil
}

func (w *Writer) writeAnomaly(to Output, p *Payload, ms int64, a *output.Anomaly, behind uint32) (bytes int, err error) {
	t, sinks := &p.topics.Outputs[to], p.sinks[to]
	s := &sinks[kafka.Partition(a.Key, len(sinks))]
	b := p.lock(s, t, w.tp)
	defer s.mu.Unlock()
	headers := w.carried.Headers(w.headers[to], a.Offset, behind)
	for {
		w.value = w.anomalies[to].Append(w.value[:0], a)
		err = b.Append(ms, a.Key, w.value, headers)
		if !errors.Is(err, record.ErrTooLarge) || a.Expected == nil && a.Actual == nil && a.Contribution == nil {
			break
		}
		// A row of thousands of values: they are in the input.
		a.Expected, a.Actual, a.Contribution = nil, nil, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cycle: an anomaly of %d bytes does not fit topic %s: %w; raise its max.message.bytes",
			len(w.value), t.Name, err)
	}
	return len(w.value) + len(a.Key) + 12, nil
}

// AnomalyRecord returns a change of an anomaly as it is published, without topic and
// partition, which its encoder adds.
func AnomalyRecord(row *state.EventRow, cfg *state.Config) output.Anomaly {
	ch := &row.Change
	a := &ch.Anomaly
	rank := float64(a.Rank)
	if rank == 0 {
		rank = math.NaN()
	}
	var region *output.Region
	if r := a.Region; r != nil {
		region = &output.Region{X0: r.X0, Y0: r.Y0, X1: r.X1, Y1: r.Y1, ColumnFrom: r.ColumnFrom, ColumnTo: r.ColumnTo, RowFrom: r.RowFrom,
			RowTo: r.RowTo, Observed: r.Observed, Expected: r.Expected, Ratio: r.Ratio, P: r.P}
	}
	var group *[16]byte
	if a.Group != nil {
		group = &a.Group.ID
	}
	var like *output.Like
	if l := a.Like; l != nil {
		like = &output.Like{Count: int64(l.Count), Labels: l.Labels, Most: l.Most}
	}
	fault := a.Fault
	held := uint32(0)
	if a.Range != nil {
		held = a.Range.Held
	}
	var member *output.Member
	if v := a.Leader; v != nil {
		member = &output.Member{Name: v.Member, Score: float64(v.Score), Threshold: threshold.Published(v.Threshold), Samples: v.Samples,
			PeakTime: v.PeakTime}
	}
	var sample *int32
	if cfg.SampleBits > 0 {
		n := int32(cfg.Number(ch.Offset))
		sample = &n
	}
	var escalation *output.Escalation
	if e := a.Escalation; e != nil {
		escalation = &output.Escalation{Start: e.Start, PeakTime: e.Peak, Since: e.Since}
	}
	var recurs *output.Recurrence
	if r := a.Recurs; r != nil {
		recurs = &output.Recurrence{Period: r.Period, Count: int64(r.Count), Text: Recurring(a)}
	}
	out := output.Anomaly{
		ID: a.ID, Revision: a.Revision, Kind: uint8(ch.Kind), Reason: uint8(ch.Reason), Key: row.Key.Name(), Detector: row.Name,
		Severity: a.Severity, Band: bandIndex[a.Severity],
		Start: a.Start, End: a.End, PeakTime: a.PeakTime, OpenedAt: a.OpenedAt, EventTime: ch.Time,
		PeakScore: float64(a.PeakScore), Threshold: threshold.Published(a.Threshold), Rank: rank, Field: largestField(row, cfg),
		Samples:  a.Samples,
		Expected: a.Expected, Actual: a.Actual, Contribution: a.Contribution, Offset: cfg.Record(ch.Offset),
		Region: region, Group: group, Like: like, Range: a.Range.Width(), Held: held, Member: member, Sample: sample,
		Escalation: escalation, CarriedBy: a.Carrier, Side: uint8(a.Side), Fault: &fault, Recurs: recurs,
	}
	if field := anomaly.Largest(a.Contribution); field >= 0 && field < len(a.Expected) {
		out.Spread = a.Spread
	}
	out.Unit = cfg.UnitOf(row.Key.Name(), out.Field)
	out.Summary = summary(row, &out, cfg)
	return out
}

// largestField returns the name of the field that contributes most to the peak; empty where
// that is not known. An anomaly that closes because its detector's state was emptied may
// be about other fields than the detector has now.
func largestField(row *state.EventRow, cfg *state.Config) string {
	share := row.Change.Anomaly.Contribution
	if row.Detector < 0 || row.Change.Kind == anomaly.Close && row.Change.Reason == anomaly.Reset {
		return ""
	}
	names := cfg.Detectors[row.Detector].Fields
	member := row.Change.Anomaly.Carrier
	if v := row.Change.Anomaly.Leader; v != nil {
		member = v.Member
	}
	if member != "" {
		names = nil
		if d := named(cfg, member); d != nil {
			names = d.Fields
		}
	}
	if len(share) == 0 || len(names) != len(share) {
		return ""
	}
	if most := anomaly.Largest(share); most >= 0 {
		return names[most]
	}
	return ""
}
