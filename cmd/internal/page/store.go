package page

import (
	"bytes"
	"container/list"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"odradek/processor/feedback"
	"odradek/processor/kafka/record"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// Limits of a store. Closed anomalies go first, those whose last record is oldest before others.
const (
	mostAnomalies = 4096
	mostBytes     = 16 << 20
)

// storedAnomaly is an anomaly by its record with the largest revision.
type storedAnomaly struct {
	a         output.Anomaly // its Key and its slices are the anomaly's own
	key       []byte         // of the record: the series key as it is
	partition int32          // of the anomalies topic
	written   int64          // the record's timestamp, ms
	bytes     int
	opening   *output.Alarm // what its first record says, for a label; nil: that was not read
	at        *list.Element
}

// fault returns the id of its fault; an anomaly without one is a fault of its own.
func (s *storedAnomaly) fault() [16]byte {
	if s.a.Fault == nil {
		return s.a.ID
	}
	return *s.a.Fault
}

func (s *storedAnomaly) closed() bool { return output.AnomalyKinds[s.a.Kind] == "close" }

// store has the last anomalies, each once.
type store struct {
	byID         map[[16]byte]*storedAnomaly
	open, closed *list.List // of *storedAnomaly, by the order in which their last records were read
	bytes        int
	truncated    bool
	c            *Config
}

func newStore(c *Config) store {
	return store{byID: map[[16]byte]*storedAnomaly{}, open: list.New(), closed: list.New(), c: c}
}

// apply applies a record.
func (s *store) apply(a *output.Anomaly, rec *record.Record, partition int32) {
	opening := feedback.AlarmOf(a, a)
	if old := s.byID[a.ID]; old != nil {
		if a.Revision <= old.a.Revision {
			return // sent twice (at least once)
		}
		opening = old.opening
		s.remove(old)
	}
	e := &storedAnomaly{a: *a, key: bytes.Clone(rec.Key), partition: partition, written: rec.Timestamp, opening: opening}
	e.a.Key = bytes.Clone(a.Key)
	const each = 600 // bytes of an anomaly without its texts and lists, about
	e.bytes = each + len(e.key) + len(e.a.Key) + len(a.Summary) + len(a.CarriedBy) + len(a.Unit) +
		8*(len(a.Expected)+len(a.Actual)+len(a.Contribution))
	e.at = s.listOf(e).PushBack(e)
	s.byID[a.ID] = e
	s.bytes += e.bytes
	for len(s.byID) > mostAnomalies || s.bytes > mostBytes {
		oldest := s.closed.Front()
		if oldest == nil {
			oldest = s.open.Front()
		}
		s.remove(oldest.Value.(*storedAnomaly))
		s.truncated = true
	}
}

// listOf returns the list that an anomaly is in.
func (s *store) listOf(e *storedAnomaly) *list.List {
	if e.closed() {
		return s.closed
	}
	return s.open
}

func (s *store) remove(e *storedAnomaly) {
	s.listOf(e).Remove(e.at)
	delete(s.byID, e.a.ID)
	s.bytes -= e.bytes
}

// forget removes the anomalies of a partition of the topic.
func (s *store) forget(partition int32) {
	for _, l := range []*list.List{s.open, s.closed} {
		for at := l.Front(); at != nil; {
			e, next := at.Value.(*storedAnomaly), at.Next()
			if e.partition == partition {
				s.remove(e)
			}
			at = next
		}
	}
}

// list returns what matches: open ones by their opening, newest first, then closed ones by their end.
func (s *store) list(q *AnomalyQuery, feedback *feedbackStore) AnomalyList {
	names := map[string]bool{}
	for _, d := range s.c.detectors() {
		name := d.Name
		names[name] = true
	}
	for _, e := range s.byID {
		names[e.a.Detector] = true
	}
	out := AnomalyList{Detectors: []string{}}
	var open, closed counted
	out.Anomalies, open, closed = s.listed(func(e *storedAnomaly) bool { return matches(e, q) }, q.Limit, feedback)
	out.Open, out.OpenFaults, out.Closed, out.ClosedFaults = open.anomalies, open.faults, closed.anomalies, closed.faults
	for name := range names {
		out.Detectors = append(out.Detectors, name)
	}
	slices.Sort(out.Detectors)
	return out
}

// counted has the numbers of anomalies and of faults that they are of.
type counted struct{ anomalies, faults int }

func countFaults(list []*storedAnomaly) counted {
	faults := map[[16]byte]bool{}
	for _, e := range list {
		faults[e.fault()] = true
	}
	return counted{len(list), len(faults)}
}

// listed returns the anomalies that are wanted, in the order of list, limit at most, and the numbers of all of them.
func (s *store) listed(wanted func(*storedAnomaly) bool, limit int, feedback *feedbackStore) (list []Anomaly, nOpen, nClosed counted) {
	var open, closed []*storedAnomaly
	for _, e := range s.byID {
		switch {
		case !wanted(e):
		case e.closed():
			closed = append(closed, e)
		default:
			open = append(open, e)
		}
	}
	newest := func(at func(*storedAnomaly) int64) func(a, b *storedAnomaly) int {
		return func(a, b *storedAnomaly) int {
			if x, y := at(a), at(b); x != y {
				return int(max(-1, min(1, y-x)))
			}
			return bytes.Compare(a.a.ID[:], b.a.ID[:])
		}
	}
	slices.SortFunc(open, newest(func(e *storedAnomaly) int64 { return e.a.OpenedAt }))
	slices.SortFunc(closed, newest(func(e *storedAnomaly) int64 { return e.a.EventTime }))
	list, nOpen, nClosed = []Anomaly{}, countFaults(open), countFaults(closed)
	all := append(open, closed...)
	for _, e := range all[:min(len(all), limit)] {
		list = append(list, s.complete(e, feedback))
	}
	return list, nOpen, nClosed
}

// matches reports whether an anomaly is asked for.
func matches(e *storedAnomaly, q *AnomalyQuery) bool {
	a := &e.a
	switch {
	case q.State == "open" && e.closed(), q.State == "closed" && !e.closed(), q.Detector != "" && q.Detector != a.Detector,
		int(a.Severity) < q.MinSeverity, !scopeOf(q.Topic, q.Partition).Covers(a.Topic, a.Partition),
		!q.From.IsZero() && e.closed() && a.End < q.From.UnixMicro(), !q.To.IsZero() && a.Start >= q.To.UnixMicro():
		return false
	case q.Series == "":
		return true
	case strings.ContainsAny(q.Series, "*?"):
		return rules.MatchKey(q.Series, []byte(seriesOf(a.Key)))
	}
	return strings.Contains(seriesOf(a.Key), q.Series)
}

// scopeOf returns the scope that a request names; nil: any partition.
func scopeOf(topic string, partition *int32) feedback.Scope {
	s := feedback.Scope{Topic: topic, Partition: -1}
	if partition != nil {
		s.Partition = *partition
	}
	return s
}

// seriesOf returns a key as text.
func seriesOf(key []byte) string {
	if utf8.Valid(key) {
		return string(key)
	}
	return "0x" + hex.EncodeToString(key)
}

// complete returns an anomaly with its label, and whether a mute rule covers it.
func (s *store) complete(e *storedAnomaly, feedback *feedbackStore) Anomaly {
	a := &e.a
	w := Anomaly{
		ID: hex.EncodeToString(a.ID[:]), Revision: a.Revision, State: "open", Series: seriesOf(a.Key), Detector: a.Detector,
		Severity: int(a.Severity), Band: output.SeverityBands[a.Band],
		Start: timeOf(a.Start), End: timeOf(a.End), PeakTime: timeOf(a.PeakTime), OpenedAt: timeOf(a.OpenedAt), EventTime: timeOf(a.EventTime),
		WrittenAt: writtenAt(e.written), Samples: a.Samples, PeakScore: Number(a.PeakScore), Threshold: Number(a.Threshold),
		Rank: Number(a.Rank), Expected: numbers(a.Expected), Actual: numbers(a.Actual), Contribution: numbers(a.Contribution),
		Field: a.Field, Spread: Number(a.Spread), Unit: a.Unit, Summary: a.Summary,
		Source: Origin{Topic: a.Topic, Partition: a.Partition, Offset: a.Offset},
		Label:  feedback.labels[hex.EncodeToString(a.ID[:])],
	}
	if e.closed() {
		w.State, w.Reason = "closed", output.CloseReasons[a.Reason]
	}
	speaker := a.Detector
	if a.Member != nil {
		w.Member, speaker = a.Member.Name, a.Member.Name
	}
	if a.CarriedBy != "" {
		w.CarriedBy, speaker = a.CarriedBy, a.CarriedBy
	}
	if d := s.c.input(a.Topic).detector(speaker); d != nil && len(d.Fields) == max(len(a.Actual), len(a.Expected)) {
		w.Fields = d.Fields
	}
	if e := a.Escalation; e != nil {
		w.Escalation = &Escalation{Start: timeOf(e.Start), PeakTime: timeOf(e.PeakTime), Since: timeOf(e.Since)}
	}
	fault := e.fault()
	w.Fault = hex.EncodeToString(fault[:])
	if a.Group != nil {
		w.Group = hex.EncodeToString(a.Group[:])
	}
	if a.Recurs != nil {
		w.Recurs = a.Recurs.Text
	}
	if l := a.Like; l != nil {
		w.Like = &Like{Count: int(l.Count)}
		for _, id := range l.Labels {
			w.Like.Labels = append(w.Like.Labels, hex.EncodeToString(id[:]))
		}
	}
	if r := a.Region; r != nil {
		w.Region = &Region{X0: Number(r.X0), Y0: Number(r.Y0), X1: Number(r.X1), Y1: Number(r.Y1),
			ColumnFrom: r.ColumnFrom, ColumnTo: r.ColumnTo, RowFrom: r.RowFrom, RowTo: r.RowTo, Observed: r.Observed,
			Expected: Number(r.Expected), Ratio: Number(r.Ratio), P: Number(r.P)}
	}
	w.Muted = feedback.muted(e)
	return w
}

func timeOf(us int64) time.Time { return TimeOf(us) }

// writtenAt returns the time of a record's timestamp in milliseconds, which whoever writes the topic may choose.
func writtenAt(ms int64) time.Time {
	return timeOf(max(math.MinInt64/1000, min(ms, math.MaxInt64/1000)) * 1000)
}

// numbers returns a list as JSON has it; nil for none.
func numbers(list []float64) []Number {
	if list == nil {
		return nil
	}
	out := make([]Number, len(list))
	for i, v := range list {
		out[i] = Number(v)
	}
	return out
}

// alarm returns what a label of an anomaly says of it; nil where that is not known.
func (s *store) alarm(id string) *output.Alarm {
	digits, err := hex.DecodeString(id)
	if err != nil || len(digits) != 16 {
		return nil
	}
	e := s.byID[[16]byte(digits)]
	if e == nil || e.opening == nil {
		return nil
	}
	a := feedback.Until(e.opening, &e.a)
	return &a
}

// ofSeries returns the anomalies of the series of a key in a scope, oldest first.
func (s *store) ofSeries(key string, scope feedback.Scope) (list []*storedAnomaly) {
	for _, e := range s.byID {
		if seriesOf(e.a.Key) == key && scope.Covers(e.a.Topic, e.a.Partition) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *storedAnomaly) int {
		if a.a.Start != b.a.Start {
			return int(max(-1, min(1, a.a.Start-b.a.Start)))
		}
		return bytes.Compare(a.a.ID[:], b.a.ID[:])
	})
	return list
}

// none is a value that is not known.
var none = Number(math.NaN())
