package processor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"odradek/detectors/threshold"
	"odradek/processor/events"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/metrics"
	"odradek/schemas/output"
)

// bandIndex is the schema's index of the band of each severity.
var bandIndex = func() (index [256]uint8) {
	for s := range index {
		i := slices.Index(output.SeverityBands, threshold.Band(uint8(s)))
		if i < 0 {
			panic("processor: the anomaly schema lacks the band " + threshold.Band(uint8(s)))
		}
		index[s] = uint8(i)
	}
	return index
}()

// writeAnomalies encodes the chunk's changes of anomalies into the cycle. They
// are rare beside the scores.
func (pt *partition) writeAnomalies(c *cycle, r *result, now time.Time) (bytes int, err error) {
	topic := &c.outs.topics[OutputAnomalies]
	if topic.name == "" {
		return 0, nil
	}
	ms := now.UnixMilli()
	for i := range pt.state.Events {
		row := &pt.state.Events[i]
		a := AnomalyRecord(row, pt.host.cfg.State)
		var n [metrics.ChangeKinds]int64
		n[row.Change.Kind]++
		r.work.Counts.Changes.Add(row.Name, n)
		switch row.Change.Kind {
		case events.Open:
			pt.open[row.Name]++
		case events.Close:
			pt.open[row.Name]--
		}
		if len(pt.state.Events)-i <= metrics.MaxRecent {
			r.work.Recent = append(r.work.Recent, metrics.RecentAnomaly{Time: time.UnixMicro(a.EventTime).UTC(),
				Kind: output.AnomalyKinds[a.Kind], Key: string(a.Key), Detector: row.Name,
				Severity: int(a.Severity), Band: output.SeverityBands[a.Band]})
		}
		size, err := pt.writeAnomaly(c, topic, ms, &a)
		if err != nil {
			return bytes, err
		}
		bytes += size
	}
	if len(pt.state.Events) > 0 {
		pt.showOpen()
	}
	return bytes, nil
}

// countOpen takes the number of open anomalies from the state, which has been
// restored or rolled back.
func (pt *partition) countOpen() {
	if pt.host.outputs.topics[OutputAnomalies].name != "" {
		pt.open = pt.state.OpenAnomalies()
		pt.showOpen()
	}
}

func (pt *partition) showOpen() {
	open := maps.Clone(pt.open)
	pt.openNow.Store(&open)
}

func (pt *partition) writeAnomaly(c *cycle, t *topic, ms int64, a *output.Anomaly) (bytes int, err error) {
	sinks := c.sinks[OutputAnomalies]
	s := &sinks[kafka.Partition(a.Key, len(sinks))]
	b := c.lock(s, t)
	defer s.mu.Unlock()
	for {
		pt.value = pt.anomalyEnc.Append(pt.value[:0], a)
		err = b.Append(ms, a.Key, pt.value, nil)
		if !errors.Is(err, record.ErrTooLarge) || a.Expected == nil && a.Actual == nil && a.Contribution == nil {
			break
		}
		// A row of thousands of values: what it was like is in the input.
		a.Expected, a.Actual, a.Contribution = nil, nil, nil
	}
	if err != nil {
		return 0, fmt.Errorf("processor: an anomaly of %d bytes does not fit topic %s: %w; raise its max.message.bytes",
			len(pt.value), t.name, err)
	}
	return len(pt.value) + len(a.Key) + 12, nil
}

// AnomalyRecord is a change of an anomaly as it is published, but for topic and partition,
// which its encoder has.
func AnomalyRecord(row *keystate.EventRow, cfg *keystate.Config) output.Anomaly {
	ch := &row.Change
	a := &ch.Anomaly
	rank := float64(a.Rank)
	if rank == 0 {
		rank = math.NaN()
	}
	return output.Anomaly{
		ID: a.ID, Revision: a.Revision, Kind: uint8(ch.Kind), Reason: uint8(ch.Reason), Key: row.Key.Name(), Detector: row.Name,
		Severity: a.Severity, Band: bandIndex[a.Severity],
		Start: a.Start, End: a.End, PeakTime: a.PeakTime, OpenedAt: a.OpenedAt, EventTime: ch.Time,
		PeakScore: float64(a.PeakScore), Threshold: float64(a.Threshold), Rank: rank, Field: largestField(row, cfg), Samples: a.Samples,
		Expected: a.Expected, Actual: a.Actual, Contribution: a.Contribution, Offset: ch.Offset,
	}
}

// largestField is the name of the field with the largest share in the peak; empty where
// that is not known. One that closes because its detector's state was given up may be
// of other fields than the detector has now.
func largestField(row *keystate.EventRow, cfg *keystate.Config) string {
	share := row.Change.Anomaly.Contribution
	if row.Detector < 0 || row.Change.Kind == events.Close && row.Change.Reason == events.Reset {
		return ""
	}
	names := cfg.Detectors[row.Detector].Fields
	if len(share) == 0 || len(names) != len(share) {
		return ""
	}
	most := 0
	for i, v := range share {
		if v > share[most] {
			most = i
		}
	}
	return names[most]
}
