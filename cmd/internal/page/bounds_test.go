package page

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"odradek/processor/feedback"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// TestSeriesBudget: of a topic with records of 700 KB no more is read than the limit, and the samples that are answered reach up to the
// record of the anomaly without a gap. Sizes that jump from one record to the next change nothing.
func TestSeriesBudget(t *testing.T) {
	b := newBed(t, nil)
	for _, name := range []string{"anomalies", "in", "scores"} {
		b.topic(name, 1)
	}
	const n, from, to = 550, 300, 460 // those between are large; a span behind the small ones would be of all of them
	ats := []int{to - 1, from - 1, n - 1}
	pad := strings.Repeat("x", 700<<10)
	for i := range n {
		note := ""
		if i >= from && i < to && i%10 != 3 || i == 250 {
			note = pad
		}
		b.write(kafkatest.Record{Topic: "in", Partition: 0, Key: []byte("k"), Time: b.at(i) / 1000,
			Value: fmt.Appendf(nil, `{"id":"pump-1","at":%d,"a":%d,"b":2,"note":%q}`, b.at(i)/1000, i, note)})
	}
	for i, at := range ats {
		b.write(b.anomaly(byte(i+1), 1, 0, "pump-1", at, nil))
	}
	b.list(AnomalyQuery{}, "open", func(l *AnomalyList) bool { return l.Open == 3 })
	for i, at := range ats {
		s, err := b.Series(t.Context(), &SeriesQuery{Key: "pump-1", Anomaly: fmt.Sprintf("%02x%030x", i+1, 0), Samples: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if s.Bytes > s.Budget {
			t.Errorf("around offset %d: %d MiB were read, the limit is %d MiB", at, s.Bytes>>20, s.Budget>>20)
		}
		before := 0
		for j, v := range s.Values[0] {
			if v <= Number(at) {
				before++
			}
			if j > 0 && v != s.Values[0][j-1]+1 {
				t.Errorf("around offset %d: sample %v comes after %v", at, v, s.Values[0][j-1])
			}
		}
		if before < 30 || s.Values[0][before-1] != Number(at) {
			t.Errorf("around offset %d: %d samples up to the anomaly", at, before)
		}
	}
}

// TestFeedbackOfAnyTimes: a record of another program with times that JSON has no text for is listed, without a bound where it has
// none, and the records beside it, too.
func TestFeedbackOfAnyTimes(t *testing.T) {
	b := newBed(t, nil)
	b.topic("anomalies", 1)
	b.topic("feedback", 1)
	first, last, year20000 := int64(math.MinInt64), int64(math.MaxInt64), int64(568971820800_000_000)
	for _, f := range []output.Feedback{{ID: "good", Keys: "a", WrittenAt: 1},
		{ID: "ever", Keys: "x", From: &first, To: &last, WrittenAt: last},
		{ID: "later", From: &year20000, WrittenAt: first}, {ID: "before", To: &first}} {
		if err := feedback.Write(t.Context(), b.c.Client, "feedback", f.ID, f.Append(nil, output.SingleObject)); err != nil {
			t.Fatal(err)
		}
	}
	b.write(b.anomaly(1, 1, 0, "pump-1", 10, func(a *output.Anomaly) { a.Start, a.End, a.PeakTime = first, last, year20000 }))
	b.list(AnomalyQuery{}, "open", func(l *AnomalyList) bool { return l.Open == 1 })
	srv := httptest.NewServer(Handler(Source{Explorer: func() DataSource { return b.Explorer }}))
	defer srv.Close()
	get := func(path string, into any) {
		t.Helper()
		res, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, res.Status)
		}
		if err := json.NewDecoder(res.Body).Decode(into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var l FeedbackList
	for end := time.Now().Add(5 * time.Minute); len(l.Feedback) < 4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not read after a minute: %+v", l)
		}
		l = FeedbackList{}
		get("/feedback", &l)
	}
	byID := map[string]Feedback{}
	for _, f := range l.Feedback {
		byID[f.ID] = f
	}
	if f := byID["ever"]; f.From != nil || f.To != nil || f.WrittenAt.Year() != 9999 {
		t.Errorf("since ever and for ever: %+v", f)
	}
	if f := byID["later"]; f.From == nil || f.From.Year() != 9999 || f.To != nil {
		t.Errorf("from the year 20000 on: %+v", f)
	}
	if f := byID["before"]; f.To == nil || f.To.Year() != 1 {
		t.Errorf("until before the year 1: %+v", f)
	}
	var list AnomalyList
	if get("/anomalies", &list); len(list.Anomalies) != 1 {
		t.Errorf("%+v", list)
	}
	l = FeedbackList{}
	if get("/feedback?limit=1", &l); len(l.Feedback) != 1 || l.Total != 4 || l.Truncated {
		t.Errorf("with a limit: %+v", l)
	}
}

// TestFeedbackBounds: the records in memory are bounded in number and bytes, labels go first and then the mutes that end first, and no
// more mutes count than are in force.
func TestFeedbackBounds(t *testing.T) {
	s := newFeedbackStore()
	put := func(f output.Feedback) {
		s.apply(&record.Record{Key: []byte(f.ID), Value: f.Append(nil, output.SingleObject)}, 0)
		if len(s.byID) > mostFeedback || s.bytes > mostFeedbackBytes {
			t.Fatalf("%d records of %d bytes are kept", len(s.byID), s.bytes)
		}
	}
	anomaly := strings.Repeat("ab", 16)
	put(output.Feedback{ID: "label", Kind: output.FeedbackConfirm, Anomaly: anomaly, WrittenAt: math.MaxInt64})
	for i := range 30_000 {
		to := int64((i*7919)%30_000 + 1)
		put(output.Feedback{ID: fmt.Sprint("m", i), Keys: fmt.Sprint("k", i), To: &to})
	}
	early := 0 // read since the store was full last
	for _, have := range s.byID {
		if have.f.To != nil && *have.f.To < 20_000 {
			early++
		}
	}
	if len(s.byID) < mostFeedback*9/10 || early > mostFeedback/16 || s.labels[anomaly] != "" || !s.truncated {
		t.Errorf("%d records, %d of the first to end, label %q, truncated %t", len(s.byID), early, s.labels[anomaly], s.truncated)
	}
	e := &storedAnomaly{key: []byte("k1")}
	s.muted(e)
	ruleList := 0
	for _, l := range s.muting {
		ruleList += len(l)
	}
	if ruleList != rules.MaxMutes {
		t.Errorf("%d mutes count, %d are in force", ruleList, rules.MaxMutes)
	}
	for i := range 100 {
		put(output.Feedback{ID: fmt.Sprint("large", i), Reason: strings.Repeat("x", 900<<10)})
	}
	for id := range s.byID {
		s.apply(&record.Record{Key: []byte(id)}, 0)
	}
	if s.bytes != 0 || len(s.ofAnomaly) != 0 || len(s.labels) != 0 {
		t.Errorf("after all are removed: %d bytes, %d anomalies, %d labels", s.bytes, len(s.ofAnomaly), len(s.labels))
	}
}

// TestLabelsOfOneAnomaly: of several labels the newest counts, in any order, and where one is removed the others
// stay.
func TestLabelsOfOneAnomaly(t *testing.T) {
	s := newFeedbackStore()
	id := strings.Repeat("ab", 16)
	put := func(key string, kind uint8, at int64) {
		f := output.Feedback{ID: key, Kind: kind, Anomaly: id, WrittenAt: at}
		s.apply(&record.Record{Key: []byte(key), Value: f.Append(nil, output.SingleObject)}, 0)
	}
	want := func(what, label string) {
		t.Helper()
		if s.labels[id] != label {
			t.Errorf("%s: label %q, want %q", what, s.labels[id], label)
		}
	}
	put("mine", output.FeedbackConfirm, 5)
	put("yours", output.FeedbackFalseAlarm, 7)
	put("old", output.FeedbackConfirm, 3)
	want("three", "false_alarm")
	s.apply(&record.Record{Key: []byte("yours")}, 0)
	want("the newest is removed", "confirm")
	put("old", output.FeedbackFalseAlarm, 9)
	want("an old one is replaced", "false_alarm")
	s.apply(&record.Record{Key: []byte("old")}, 0)
	want("and removed", "confirm")
	s.apply(&record.Record{Key: []byte("mine")}, 0)
	want("all are removed", "")
	f := output.Feedback{ID: "resume", Kind: output.FeedbackResume, Resume: &output.Resume{Topic: "in"}}
	s.apply(&record.Record{Key: []byte("resume"), Value: f.Append(nil, output.SingleObject)}, 0)
	if len(s.labels) != 0 {
		t.Errorf("what is no label is one: %v", s.labels)
	}
}
