package page

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/output"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// bed is an explorer of topics that the test writes.
type bed struct {
	*Explorer
	t       *testing.T
	cluster *kafkatest.Cluster
	start   time.Time
}

// newBed starts a broker without topics and an explorer; edit changes its configuration.
func newBed(t *testing.T, edit func(*Config)) *bed {
	t.Helper()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	client, err := kafka.Open(t.Context(), kafka.Config{Brokers: k.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	dec, err := formats.NewDecoder(schemas.Mapping{Key: "id", Time: "at", Fields: []string{"a", "b"}}, nil, formats.Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{Client: client, Anomalies: "anomalies", Scores: "scores",
		Feedback: &feedback.Topic{Client: client, Name: "feedback", Replication: 1, Unframed: output.SingleObject},
		Input: Input{Decoder: dec, Fields: []string{"a", "b"},
			Detectors: []Detector{{Name: "near", Op: "knn", Configured: "conformal:0.001", Fields: []string{"a", "b"}, Fixed: math.NaN()},
				{Name: "level", Op: "zscore", Configured: "fixed:8", Fields: []string{"b"}, Fixed: 8}}},
		Log: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(c)
	}
	e, stop := Start(context.Background(), c)
	t.Cleanup(stop)
	return &bed{e, t, k, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
}

func (b *bed) topic(name string, partitions int) {
	b.t.Helper()
	if err := b.cluster.Admin().CreateTopic(b.t.Context(), name, partitions, 1, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) write(records ...kafkatest.Record) {
	b.t.Helper()
	if _, err := b.cluster.ProduceAcked(b.t.Context(), records); err != nil {
		b.t.Fatal(err)
	}
}

// at is an event time in microseconds.
func (b *bed) at(second int) int64 {
	return b.start.Add(time.Duration(second) * time.Second).UnixMicro()
}

// anomaly is a record of the anomalies topic.
func (b *bed) anomaly(id byte, revision uint32, kind uint8, key string, second int, edit func(*output.Anomaly)) kafkatest.Record {
	a := output.Anomaly{ID: [16]byte{id}, Revision: revision, Kind: kind, Key: []byte(key), Detector: "near", Severity: 60, Band: 1,
		Start: b.at(second), End: b.at(second + 3), PeakTime: b.at(second + 1), OpenedAt: b.at(second), EventTime: b.at(second + 3), PeakScore: 3,
		Threshold: 2, Rank: math.NaN(), Samples: 4, Expected: []float64{1, math.NaN()}, Actual: []float64{5, 6}, Topic: "in",
		Offset: int64(second)}
	if edit != nil {
		edit(&a)
	}
	return kafkatest.Record{Topic: "anomalies", Partition: -1, Key: []byte(key), Time: b.start.UnixMilli() + int64(second)*1000,
		Value: output.NewAnomalyEncoder(-1, a.Topic, a.Partition).Append(nil, &a)}
}

// list asks until the answer is as wanted, and returns it.
func (b *bed) list(q AnomalyQuery, what string, wanted func(*AnomalyList) bool) AnomalyList {
	b.t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list := b.Anomalies(&q)
		if wanted(&list) {
			return list
		}
		if time.Now().After(end) {
			text, _ := json.Marshal(list)
			b.t.Fatalf("%s: not after a minute: %s", what, text)
		}
	}
}

func ids(list []Anomaly) (text string) {
	for _, a := range list {
		text += a.ID[:2] + " "
	}
	return strings.TrimSpace(text)
}

// TestAnomalies follows a topic that is made after the explorer, with aborted, repeated and foreign records; the list is in
// order, and filters hold.
func TestAnomalies(t *testing.T) {
	b := newBed(t, nil)
	b.list(AnomalyQuery{}, "without a topic", func(l *AnomalyList) bool { return !l.Loading && l.Fault == "" })
	b.topic("anomalies", 3)
	b.write(b.anomaly(1, 1, 0, "pump-1", 10, nil), b.anomaly(2, 1, 0, "pump-2", 20, nil), b.anomaly(3, 1, 0, "fan<1>", 15,
		func(a *output.Anomaly) {
			a.Detector, a.Severity, a.Band = "level", 100, 3
		}), kafkatest.Record{Topic: "anomalies", Partition: -1, Key: []byte("x"), Value: []byte("no anomaly")}, b.anomaly(4, 1, 0, "\xff\x01", 5,
		nil))
	l := b.list(AnomalyQuery{}, "four are open", func(l *AnomalyList) bool { return l.Open == 4 })
	if got := ids(l.Anomalies); got != "02 03 01 04" {
		t.Errorf("open ones are listed as %s, want the newest first", got)
	}
	if a := l.Anomalies[2]; a.State != "open" || a.Series != "pump-1" || a.Band != "minor" || a.PeakScore != 3 ||
		!math.IsNaN(float64(a.Rank)) ||
		a.Fields[1] != "b" || a.Actual[1] != 6 || a.Source != (Origin{Topic: "in", Offset: 10}) ||
		!a.Start.Equal(b.start.Add(10*time.Second)) {
		t.Errorf("an anomaly is %+v", a)
	}
	if s := l.Anomalies[3].Series; s != "0xff01" {
		t.Errorf("a key that is no text is %q", s)
	}
	b.write(b.anomaly(1, 2, 1, "pump-1", 10, func(a *output.Anomaly) { a.Severity = 70 }),
		b.anomaly(1, 1, 0, "pump-1", 10, nil), // again: at least once
		b.anomaly(2, 2, 2, "pump-2", 20, nil), b.anomaly(5, 1, 0, "pump-2", 40, nil),
		b.anomaly(5, 2, 2, "pump-2", 40, func(a *output.Anomaly) { a.Fault = &[16]byte{2} }))
	// Two partitions, so the anomaly of pump-1 may be the last to come.
	l = b.list(AnomalyQuery{}, "two are closed, one is revised", func(l *AnomalyList) bool {
		return l.Closed == 2 && l.Open == 3 && slices.ContainsFunc(l.Anomalies, func(a Anomaly) bool { return a.Severity == 70 })
	})
	if got := ids(l.Anomalies); got != "03 01 04 05 02" || l.Anomalies[1].Severity != 70 || l.Anomalies[3].Reason != "recovered" {
		t.Errorf("listed %s: %+v", got, l.Anomalies)
	}
	if l.OpenFaults != 3 || l.ClosedFaults != 1 || l.Anomalies[3].Fault != l.Anomalies[4].ID || l.Anomalies[4].Fault != l.Anomalies[4].ID {
		t.Errorf("%d and %d faults: %+v", l.OpenFaults, l.ClosedFaults, l.Anomalies)
	}
	for _, c := range []struct {
		q    AnomalyQuery
		want string
	}{
		{AnomalyQuery{State: "closed"}, "05 02"}, {AnomalyQuery{State: "open"}, "03 01 04"}, {AnomalyQuery{Series: "pump"},
			"01 05 02"},
		{AnomalyQuery{Series: "pump-?"}, "01 05 02"}, {AnomalyQuery{Series: "*-2"}, "05 02"}, {AnomalyQuery{Series: "ump-?"}, ""},
		{AnomalyQuery{Detector: "level"}, "03"}, {AnomalyQuery{MinSeverity: 70}, "03 01"},
		{AnomalyQuery{From: b.start.Add(30 * time.Second)}, "03 01 04 05"}, {AnomalyQuery{To: b.start.Add(15 * time.Second)}, "01 04"},
		{AnomalyQuery{Limit: 2}, "03 01"},
	} {
		q := c.q
		q.Limit = max(q.Limit, 100*(1-min(1, q.Limit)))
		if got := ids(b.Anomalies(&q).Anomalies); got != c.want {
			t.Errorf("%+v: %s, want %s", c.q, got, c.want)
		}
	}
	if a, err := b.Anomaly("05" + strings.Repeat("0", 30)); err != nil || a.Series != "pump-2" {
		t.Errorf("by id: %+v, %v", a, err)
	}
	for id, code := range map[string]int{"06" + strings.Repeat("0", 30): 404, "05": 400, strings.Repeat("x", 32): 400} {
		var e *Error
		if _, err := b.Anomaly(id); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v, want code %d", id, err, code)
		}
	}
}

// TestAnomaliesMadeAnew: a topic that is deleted and made again begins anew.
func TestAnomaliesMadeAnew(t *testing.T) {
	b := newBed(t, nil)
	b.topic("anomalies", 2)
	b.write(b.anomaly(1, 1, 0, "pump-1", 10, nil), b.anomaly(2, 1, 0, "pump-2", 20, nil))
	b.list(AnomalyQuery{}, "two are open", func(l *AnomalyList) bool { return l.Open == 2 })
	if err := b.cluster.Admin().DeleteTopic(t.Context(), "anomalies"); err != nil {
		t.Fatal(err)
	}
	b.topic("anomalies", 1)
	b.write(b.anomaly(9, 1, 0, "pump-9", 1, nil))
	b.list(AnomalyQuery{}, "the topic is another", func(l *AnomalyList) bool {
		return slices.ContainsFunc(l.Anomalies, func(a Anomaly) bool { return a.ID[:2] == "09" })
	})
}

// TestStoreBounds: what is kept is bounded, closed anomalies go first, and the newest stay.
func TestStoreBounds(t *testing.T) {
	s := newStore(nil)
	add := func(i int, kind uint8, list int) {
		a := output.Anomaly{Kind: kind, Revision: 1, Key: []byte("k"), Detector: "d", Actual: make([]float64, list)}
		copy(a.ID[:], fmt.Sprintf("%08d", i))
		s.apply(&a, &record.Record{Key: []byte("k")}, 0)
	}
	for i := range mostAnomalies / 2 {
		add(i, 0, 0)
	}
	for i := range mostAnomalies {
		add(10_000+i, 2, 0)
	}
	oldest := s.closed.Front().Value.(*storedAnomaly).a.ID
	if s.open.Len() != mostAnomalies/2 || len(s.byID) != mostAnomalies || !s.truncated || oldest[4] != '2' {
		t.Errorf("%d open of %d, the oldest closed one is %s", s.open.Len(), len(s.byID), oldest[:8])
	}
	for i := range mostAnomalies {
		add(50_000+i, 0, 0)
	}
	if s.closed.Len() != 0 || s.open.Len() != mostAnomalies {
		t.Errorf("%d open, %d closed", s.open.Len(), s.closed.Len())
	}
	const wide = 10_000 // values each
	for i := range 2 * mostBytes / wide / 8 {
		add(90_000+i, 0, wide)
	}
	if s.bytes > mostBytes || s.open.Len() < mostBytes/wide/8/2 {
		t.Errorf("%d anomalies of %d bytes", s.open.Len(), s.bytes)
	}
	s.forget(0)
	if len(s.byID) != 0 || s.bytes != 0 || s.open.Len() != 0 {
		t.Errorf("after forgetting: %d, %d bytes", len(s.byID), s.bytes)
	}
}

// TestSeries: values and scores around an anomaly are those that were written, of the series alone, in order, as many as
// asked for; a series without an anomaly is found by its scores. The scores are records of their own, or runs with single ones between.
func TestSeries(t *testing.T) {
	t.Run("records", func(t *testing.T) { testSeries(t, false) })
	t.Run("runs", func(t *testing.T) { testSeries(t, true) })
}

func testSeries(t *testing.T, runs bool) {
	b := newBed(t, nil)
	b.topic("in", 1)
	b.topic("scores", 2)
	b.topic("anomalies", 1)
	const n = 3000
	series := []string{"pump-1", "pump-2", "quiet"}
	var in, scores []kafkatest.Record
	for i := range n {
		key := series[i%3]
		value := fmt.Sprintf(`{"id":%q,"at":%d,"a":%d,"b":%v}`, key, b.at(i)/1000, i, 0.5)
		if i == 1501 { // a null, and what is no record
			value = strings.Replace(value, `"a":1501`, `"a":null`, 1)
		}
		if i == 1504 {
			value = "no JSON"
		}
		in = append(in, kafkatest.Record{Topic: "in", Partition: 0, Key: []byte("any"), Time: b.at(i) / 1000, Value: []byte(value)})
	}
	const later = 600 // samples by which the detector level is later than near
	enc := output.NewScoreEncoder(-1, "in", 0, []string{"near", "level"})
	runEnc := output.NewScoreEncoder(-1, "in", 0, []string{"near", "level"}).Runs()
	pending := [3][2][]output.RunScore{}
	for i := range n + later {
		for detector, at := range []int{i, i - later} {
			if at < 0 || at >= n {
				continue
			}
			key, run := series[(at+later)%3], &pending[(at+later)%3][detector]
			rec := kafkatest.Record{Topic: "scores", Partition: -1, Key: []byte(key), Time: b.at(i+1) / 1000}
			score := output.RunScore{EventTime: b.at(at), ScoreTime: b.at(at), Offset: int64(at), Score: float32(at + detector)}
			if detector == 1 && key != "quiet" {
				score.Prediction = output.Prediction{Predicted: true, Expected: float64(at), Spread: 0.5}
			}
			*run = append(*run, score)
			switch {
			case !runs || at%51 < 3:
				for _, r := range *run {
					rec.Value = enc.Append(nil, []byte(key), r.EventTime, r.ScoreTime, detector, float64(r.Score), r.State, r.Offset, 0, r.Prediction)
					scores = append(scores, rec)
				}
				*run = (*run)[:0]
			case len(*run) == 7 || at+3 >= n:
				rec.Value = runEnc.AppendRun(nil, []byte(key), detector, *run)
				scores, *run = append(scores, rec), (*run)[:0]
			}
		}
	}
	b.write(in...)
	b.write(scores...)
	const at = 1500 // of pump-1
	b.write(b.anomaly(1, 1, 0, "pump-1", at, func(a *output.Anomaly) { a.Field, a.Offset = "b", at }), b.anomaly(2, 1, 0, "pump-1", 90, nil),
		b.anomaly(2, 2, 2, "pump-1", 90, nil))
	b.list(AnomalyQuery{}, "the anomalies are read", func(l *AnomalyList) bool { return l.Open == 1 && l.Closed == 1 })
	ask := func(q SeriesQuery) *Series {
		t.Helper()
		s, err := b.Series(t.Context(), &q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		return s
	}
	s := ask(SeriesQuery{Key: "pump-1", Samples: 100})
	if len(s.Times) != 150 || !slices.IsSorted(s.Times) || s.Times[99] != float64(b.at(at))/1000 || s.Values[0][99] != at ||
		s.Values[1][0] != 0.5 ||
		!slices.Equal(s.Fields, []string{"a", "b"}) || !s.More || *s.Anchor != (Origin{Topic: "in", Offset: at}) {
		t.Errorf("%d samples, the 100th at %v, fields %v, more %t", len(s.Times), s.Times[99], s.Fields, s.More)
	}
	if len(s.Scores) != 2 || s.Scores[0].Detector != "level" || len(s.Scores[0].Scores) != 150 || s.Scores[0].Scores[99] != at+1 ||
		s.Scores[0].Threshold[0] != 8 || s.Scores[1].Scores[99] != at || s.Scores[1].Threshold[99] != 2 ||
		!math.IsNaN(float64(s.Scores[1].Threshold[0])) {
		t.Errorf("scores %+v", s.Scores)
	}
	if ids(s.Anomalies) != "01" || len(s.Usual) != 2 || s.Usual[0].Detector != "" || s.Usual[0].Over != 64 || len(s.Notes) != 1 {
		t.Errorf("anomalies %s, usual %+v, notes %q", ids(s.Anomalies), s.Usual[0], s.Notes)
	}
	if u := s.Usual[1]; u.Detector != "level" || u.Over != 0 || u.Expected[99] != at || u.Low[99] != at-1.5 || u.High[99] != at+1.5 {
		t.Errorf("what level expects: %+v", u)
	}
	s = ask(SeriesQuery{Key: "pump-1", Anomaly: hex.EncodeToString([]byte{2, 15: 0}), Samples: 5000})
	if len(s.Times) != n/3 || len(s.Scores[1].Scores) != n/3 || ids(s.Anomalies) != "02 01" || s.More {
		t.Errorf("all: %d samples, %d scores, anomalies %s, more %t", len(s.Times), len(s.Scores[1].Scores), ids(s.Anomalies), s.More)
	}
	s = ask(SeriesQuery{Key: "pump-2", Samples: 2000}) // without an anomaly, with a bad record and a null
	if len(s.Times) != n/3-1 || len(s.Anomalies) != 0 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "1 of the records") {
		t.Errorf("a series without anomalies: %d samples, notes %q", len(s.Times), s.Notes)
	}
	if i := slices.Index(s.Times, float64(b.at(1501))/1000); i < 0 || !math.IsNaN(float64(s.Values[0][i])) {
		t.Errorf("a null is at %d", i)
	}
	for key, code := range map[string]int{"pump-3": 404, "pump-2": 404} {
		var e *Error
		q := SeriesQuery{Key: key, Samples: 10}
		if key == "pump-2" {
			q.Anomaly = strings.Repeat("0", 32)
		}
		if _, err := b.Series(t.Context(), &q); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%+v: %v", q, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	b.reading <- struct{}{} // another is being read
	cancel()
	if _, err := b.Series(gone, &SeriesQuery{Key: "pump-1", Samples: 1}); err == nil {
		t.Error("two series are read at once")
	}
	<-b.reading
}

// TestSpans: what is asked for next is bounded by blockBytes and by the room that is left.
func TestSpans(t *testing.T) {
	for _, c := range []struct{ last, bytes, room, want int64 }{
		{256, 256 * 100, budget, 1024}, {100_000, 100_000 * 100, budget, fetchBytes / 100}, {1000, 1000 * 1 << 20, budget, 2}, {1000, 100_000,
			10_000, 100},
		{1000, 0, budget, 4000}, {1000, 100_000, -5, 1},
		{1, 10 << 20, budget, 1},
	} {
		if got := nextSpan(c.last, c.bytes, c.room); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestWriteAndRemove: feedback is in the topic and in the answers, and can be removed; what is wrong is named.
func TestWriteAndRemove(t *testing.T) {
	b := newBed(t, nil)
	b.topic("anomalies", 1)
	b.write(b.anomaly(1, 1, 0, "pump-1", 10, nil))
	id := "01" + strings.Repeat("0", 30)
	until := b.start.Add(time.Hour)
	rule, err := b.WriteFeedback(t.Context(), &Feedback{Kind: "mute", Keys: "pump-*", To: &until, Reason: "why", Author: "me"})
	if err != nil || len(rule.ID) != 8 || rule.Direction != "both" {
		t.Fatalf("%+v, %v", rule, err)
	}
	if f, err := b.WriteFeedback(t.Context(), &Feedback{Kind: "false_alarm", Anomaly: id}); err != nil || f.ID != "anomaly/"+id {
		t.Fatalf("%+v, %v", f, err)
	}
	b.list(AnomalyQuery{}, "the anomaly has both", func(l *AnomalyList) bool {
		return len(l.Anomalies) == 1 && l.Anomalies[0].Muted && l.Anomalies[0].Label == "false_alarm"
	})
	if l := b.Feedback(); len(l.Feedback) != 2 || l.Feedback[0].Kind != "false_alarm" || !l.Feedback[1].To.Equal(until) || l.Fault != "" {
		t.Errorf("%+v", l)
	}
	for _, id := range []string{rule.ID, "anomaly/" + id} {
		if err := b.RemoveFeedback(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.list(AnomalyQuery{}, "both are taken back", func(l *AnomalyList) bool {
		return !l.Anomalies[0].Muted &&
			l.Anomalies[0].Label == ""
	})
	var e *Error
	if err := b.RemoveFeedback(t.Context(), rule.ID); !errors.As(err, &e) || e.Code != http.StatusNotFound {
		t.Errorf("removing what is not there: %v", err)
	}
	past := b.start.Add(-time.Hour)
	for _, c := range []struct {
		f    Feedback
		want string
	}{
		{Feedback{Kind: "moot"}, `kind "moot" is none of mute, maintenance, confirm, false_alarm`},
		{Feedback{Kind: "mute", Direction: "up"}, `direction "up" is none of both, above, below`},
		{Feedback{Kind: "mute", Detector: "far"}, `detector "far" is not configured`},
		{Feedback{Kind: "mute", Anomaly: id}, "a mute names no anomaly"},
		{Feedback{Kind: "mute", From: &until, To: &past}, "it ends before it begins"},
		{Feedback{Kind: "mute", Keys: strings.Repeat("x", 300)}, "256"},
		{Feedback{Kind: "maintenance", From: &past}, "a maintenance has a begin and an end"},
		{Feedback{Kind: "confirm", Anomaly: "12"}, `anomaly "12" is no id`},
		{Feedback{Kind: "confirm", Anomaly: id, Keys: "x"}, "belong to a mute"},
		{Feedback{Kind: "mute", Reason: strings.Repeat("x", 3000)}, "at most 2000 bytes"},
	} {
		if _, err := b.WriteFeedback(t.Context(), &c.f); !errors.As(err, &e) || e.Code != http.StatusBadRequest ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.f, err, c.want)
		}
	}
	if _, err := b.WriteFeedback(t.Context(), &Feedback{Kind: "mute", Detector: "silence"}); err != nil {
		t.Errorf("silence cannot be muted: %v", err)
	}
}
