package page

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"odradek/processor/feedback"
	"odradek/processor/kafka/record"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

// Limits of a feedbackStore. Labels go first, the oldest before others, and then the mutes that end first: of those no more are in
// force than feedback.InForce returns.
const (
	mostFeedback      = 10_000
	mostFeedbackBytes = 16 << 20
)

// feedbackRecord is a record of the feedback topic.
type feedbackRecord struct {
	f         output.Feedback
	partition int32
	bytes     int
}

// feedbackStore has the records of the feedback topic.
type feedbackStore struct {
	byID      map[string]*feedbackRecord
	bytes     int
	ofAnomaly map[string][]string               // ids of the labels of an anomaly
	labels    map[string]string                 // by anomaly: confirm or false_alarm
	muting    map[feedback.Scope]rules.MuteList // in force; nil: to be made
	truncated bool                              // records have been left out
}

func newFeedbackStore() feedbackStore {
	return feedbackStore{byID: map[string]*feedbackRecord{}, ofAnomaly: map[string][]string{}, labels: map[string]string{}}
}

// apply applies a record.
func (s *feedbackStore) apply(rec *record.Record, partition int32) {
	id := string(rec.Key)
	s.remove(id)
	if rec.Value == nil {
		return
	}
	f, err := output.DecodeFeedback(rec.Value)
	if err != nil {
		return // the worker that follows the topic logs it
	}
	const each = 400 // bytes of a record without its texts, about
	have := &feedbackRecord{f, partition, each + len(rec.Key) + len(rec.Value)}
	s.byID[id] = have
	s.bytes += have.bytes
	if isLabel(&f) {
		s.ofAnomaly[f.Anomaly] = append(s.ofAnomaly[f.Anomaly], id)
		s.label(f.Anomaly)
	}
	if len(s.byID) > mostFeedback || s.bytes > mostFeedbackBytes {
		s.shrink()
	}
}

// shrink removes enough records that the next ones have room, so that not each has to be searched for.
func (s *feedbackStore) shrink() {
	type candidate struct {
		id   string
		mute bool
		at   int64 // the end of a mute; when another was written
	}
	all := make([]candidate, 0, len(s.byID))
	for id, have := range s.byID {
		c := candidate{id: id, at: have.f.WrittenAt}
		if m, ok := feedback.MuteOf(&have.f); ok {
			c.mute, c.at = true, m.Rule.To
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		switch {
		case a.mute && !b.mute:
			return 1
		case b.mute && !a.mute:
			return -1
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	for _, c := range all {
		if len(s.byID) <= mostFeedback*15/16 && s.bytes <= mostFeedbackBytes/16*15 {
			break
		}
		s.remove(c.id)
	}
	s.truncated = true
}

func isLabel(f *output.Feedback) bool {
	return f.Kind == output.FeedbackConfirm || f.Kind == output.FeedbackFalseAlarm
}

// label sets the label of an anomaly: the newest of its labels, which is the one that the workers learn from.
func (s *feedbackStore) label(anomaly string) {
	delete(s.labels, anomaly)
	newest := ""
	for _, id := range s.ofAnomaly[anomaly] {
		if newest == "" || cmp.Or(cmp.Compare(s.byID[newest].f.WrittenAt, s.byID[id].f.WrittenAt), cmp.Compare(id, newest)) < 0 {
			newest = id
		}
	}
	if newest != "" {
		s.labels[anomaly] = output.FeedbackKinds[s.byID[newest].f.Kind]
	}
}

func (s *feedbackStore) remove(id string) {
	s.muting = nil
	have := s.byID[id]
	if have == nil {
		return
	}
	delete(s.byID, id)
	s.bytes -= have.bytes
	if !isLabel(&have.f) {
		return
	}
	anomaly := have.f.Anomaly
	if s.ofAnomaly[anomaly] = slices.DeleteFunc(s.ofAnomaly[anomaly], func(o string) bool { return o == id }); len(s.ofAnomaly[anomaly]) == 0 {
		delete(s.ofAnomaly, anomaly)
	}
	s.label(anomaly)
}

// forget removes the records of a partition of the topic.
func (s *feedbackStore) forget(partition int32) {
	for id, have := range s.byID {
		if have.partition == partition {
			s.remove(id)
		}
	}
}

// muted reports whether a mute rule covers an anomaly's detector, series and peak.
func (s *feedbackStore) muted(e *storedAnomaly) bool {
	if s.muting == nil {
		s.muting = map[feedback.Scope]rules.MuteList{}
		var all []feedback.Mute
		for _, have := range s.byID {
			if m, ok := feedback.MuteOf(&have.f); ok && m.Check() == "" {
				all = append(all, m)
			}
		}
		for _, m := range feedback.InForce(all) {
			s.muting[m.Scope] = append(s.muting[m.Scope], m.Rule)
		}
	}
	a := &e.a
	explained := func() (expected, actual, contribution []float64) { return a.Expected, a.Actual, a.Contribution }
	for scope, rules := range s.muting {
		if scope.Covers(a.Topic, a.Partition) && rules.Covers(a.Detector, e.key, a.PeakTime, a.PeakTime, explained) {
			return true
		}
	}
	return false
}

// list returns all, newest first.
func (s *feedbackStore) list() []Feedback {
	list := []Feedback{}
	for _, have := range s.byID {
		list = append(list, feedbackOf(&have.f))
	}
	slices.SortFunc(list, func(a, b Feedback) int {
		if c := b.WrittenAt.Compare(a.WrittenAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Span returns the begin and the end of a mute as a text has them; nil: always, and never. A bound that no text has is none, unless
// it leaves nothing of the time that texts have.
func Span(f *output.Feedback) (from, to *time.Time) {
	if f.From != nil && *f.From >= FirstTime {
		t := timeOf(*f.From)
		from = &t
	}
	if f.To != nil && *f.To <= LastTime {
		t := timeOf(*f.To)
		to = &t
	}
	return from, to
}

// feedbackOf returns a record as JSON has it.
func feedbackOf(f *output.Feedback) Feedback {
	from, to := Span(f)
	w := Feedback{ID: f.ID, Kind: output.FeedbackKinds[f.Kind], Anomaly: f.Anomaly, Detector: f.Detector, Keys: f.Keys, From: from, To: to,
		Topic: f.Topic, Partition: f.Partition, Author: f.Author, Reason: f.Reason, WrittenAt: timeOf(f.WrittenAt)}
	if f.Kind <= output.FeedbackMaintenance {
		w.Direction = output.FeedbackDirections[f.Direction]
	}
	return w
}

// mostText bounds the texts of feedback, in bytes.
const mostText = 2000

// recordOf returns the record of what a request says. The error names everything that is wrong with it.
func recordOf(f *Feedback, detectors []Detector) (*output.Feedback, error) {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	rec := &output.Feedback{ID: f.ID, Anomaly: f.Anomaly, Detector: f.Detector, Keys: f.Keys, Author: f.Author, Reason: f.Reason,
		Topic: f.Topic, Partition: f.Partition}
	kind := slices.Index(output.FeedbackKinds, f.Kind)
	if kind < 0 {
		wrong("kind %q is none of %s", f.Kind, strings.Join(output.FeedbackKinds, ", "))
	}
	rec.Kind = uint8(max(kind, 0))
	direction := f.Direction
	if direction == "" {
		direction = output.FeedbackDirections[0]
	}
	side := slices.Index(output.FeedbackDirections, direction)
	if side < 0 {
		wrong("direction %q is none of %s", f.Direction, strings.Join(output.FeedbackDirections, ", "))
	}
	rec.Direction = uint8(max(side, 0))
	at := func(t *time.Time) *int64 {
		if t == nil {
			return nil
		}
		us := t.UnixMicro()
		return &us
	}
	rec.From, rec.To = at(f.From), at(f.To)
	if len(f.Author) > mostText || len(f.Reason) > mostText || len(f.ID) > 256 {
		wrong("author and reason have at most %d bytes, an id 256", mostText)
	}
	if rec.Kind >= output.FeedbackConfirm && kind >= 0 {
		if id, err := hex.DecodeString(f.Anomaly); err != nil || len(id) != 16 {
			wrong("anomaly %q is no id of an anomaly: 32 hexadecimal digits", f.Anomaly)
		}
		if rec.ID == "" {
			rec.ID = "anomaly/" + f.Anomaly // the last label of an anomaly holds
		}
		if f.Detector != "" || f.Keys != "" || f.Topic != "" || f.Partition != nil || f.From != nil || f.To != nil || f.Direction != "" {
			wrong("detector, keys, topic, partition, from, to and direction belong to a mute")
		}
	} else if kind >= 0 {
		if f.Anomaly != "" {
			wrong("a mute names no anomaly: name its series in keys and its detector")
		}
		if f.Detector != "" && f.Detector != series.SilenceName && !slices.ContainsFunc(detectors,
			func(d Detector) bool { return d.Name == f.Detector }) {
			wrong("detector %q is not configured", f.Detector)
		}
		if rec.Kind == output.FeedbackMaintenance && (f.From == nil || f.To == nil) {
			wrong("a maintenance has a begin and an end: from and to")
		}
		for _, t := range []*time.Time{f.From, f.To} {
			if t != nil && (t.Year() < 1 || t.Year() > 9998) {
				wrong("%s is outside the years 1 to 9998", t.Format(time.RFC3339))
			}
		}
		if f.Partition != nil && (f.Topic == "" || *f.Partition < 0) {
			wrong("a partition is 0 or more, and needs its topic")
		}
		if m, _ := feedback.MuteOf(rec); len(faults) == 0 && m.Check() != "" {
			wrong("%s", m.Check())
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("page: %s", strings.Join(faults, "; "))
	}
	return rec, nil
}

// thresholdAt returns the threshold of a detector at an event time as far as it is known: of a fixed one, or of the
// anomaly that covers it.
func thresholdAt(d *Detector, anomalies []*storedAnomaly, us int64) Number {
	if d != nil && !math.IsNaN(d.Fixed) {
		return Number(d.Fixed)
	}
	for _, e := range anomalies {
		if d != nil && e.a.Detector == d.Name && e.a.Start <= us && us <= e.a.End {
			return Number(e.a.Threshold)
		}
	}
	return none
}
