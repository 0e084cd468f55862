package page

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestOneKeyInTwoTopics: a series is a key of a partition of an input topic. Where two topics and two partitions of one have
// a series of the same key, the page draws each with its own samples, scores and anomalies; lists, mutes and the comparison of
// detectors in shadow mode tell them apart, too.
func TestOneKeyInTwoTopics(t *testing.T) {
	b := newBed(t, func(c *Config) {
		c.Shadow = "shadow"
		c.Detectors = append(c.Detectors, Detector{Name: "new", Judged: true, Shadow: true})
	})
	b.topic("in", 2)
	for _, name := range []string{"other", "scores", "anomalies", "shadow"} {
		b.topic(name, 1)
	}
	const n = 300
	places := []place{{"in", 0}, {"other", 0}, {"in", 1}}
	var list []kafkatest.Record
	for i, p := range places {
		enc := output.NewScoreEncoder(-1, p.topic, p.partition, []string{"near"})
		for at := range n {
			list = append(list, kafkatest.Record{Topic: p.topic, Partition: p.partition, Key: []byte("any"), Time: b.at(at) / 1000,
				Value: fmt.Appendf(nil, `{"id":"pump-1","at":%d,"a":%d,"b":%d}`, b.at(at)/1000, i, i)})
			list = append(list, kafkatest.Record{Topic: "scores", Partition: 0, Key: []byte("pump-1"), Time: b.at(at+1) / 1000,
				Value: enc.Append(nil, []byte("pump-1"), b.at(at), b.at(at), 0, float64(i), output.Scored, int64(at), 0, output.Prediction{})})
		}
	}
	anomaly := func(id byte, detector string, i, second int) kafkatest.Record {
		return b.anomaly(id, 1, 0, "pump-1", second, func(a *output.Anomaly) {
			a.Detector, a.Topic, a.Partition = detector, places[i].topic, places[i].partition
		})
	}
	inShadow := anomaly(9, "new", 0, 190) // and open since
	inShadow.Topic = "shadow"
	b.write(append(list, anomaly(1, "near", 0, 200), anomaly(2, "near", 1, 210), anomaly(3, "near", 2, 220), inShadow)...)
	b.list(AnomalyQuery{}, "three", func(l *AnomalyList) bool { return l.Open == 3 })
	zero, one := int32(0), int32(1)
	for _, c := range []struct {
		q    AnomalyQuery
		want string
	}{
		{AnomalyQuery{Topic: "in"}, "03 01"}, {AnomalyQuery{Topic: "in", Partition: &zero}, "01"},
		{AnomalyQuery{Partition: &zero}, "02 01"}, {AnomalyQuery{Topic: "none"}, ""},
	} {
		c.q.Limit = 100
		if got := ids(b.Anomalies(&c.q).Anomalies); got != c.want {
			t.Errorf("%+v: %s, want %s", c.q, got, c.want)
		}
	}
	for i, q := range []SeriesQuery{
		{Anomaly: hex.EncodeToString([]byte{1, 15: 0})}, {Topic: "other"}, {Topic: "in", Partition: &one},
		{Topic: "in", Partition: &zero}, {Anomaly: hex.EncodeToString([]byte{2, 15: 0})}, {},
	} {
		want := []int{0, 1, 2, 0, 1, 2}[i]
		q.Key, q.Samples = "pump-1", 1000
		s, err := b.Series(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		foreign := func(v Number) bool { return v != Number(want) }
		if len(s.Times) != n || len(s.Scores) != 1 || len(s.Scores[0].Scores) != n || slices.ContainsFunc(s.Values[0], foreign) ||
			slices.ContainsFunc(s.Scores[0].Scores, foreign) || ids(s.Anomalies) != fmt.Sprintf("%02d", want+1) {
			t.Errorf("%+v: %d samples, %d scores, anomalies %s; want %+v's alone", q, len(s.Times), len(s.Scores[0].Scores),
				ids(s.Anomalies), places[want])
		}
	}
	var e *Error
	if _, err := b.Series(t.Context(), &SeriesQuery{Key: "pump-1", Topic: "other", Anomaly: hex.EncodeToString([]byte{1, 15: 0}),
		Samples: 1}); !errors.As(err, &e) || e.Code != http.StatusNotFound {
		t.Errorf("an anomaly of another topic: %v", err)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s := b.Shadow(&ShadowQuery{Limit: 10})
		if s.Open == 1 {
			if d := s.Detectors[0]; d.Both != 1 || d.OnlyLive != 2 {
				t.Errorf("a detector in shadow mode has found one anomaly of three, of the same series: %+v", d)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the anomaly in shadow mode is not read after a minute")
		}
	}
	if _, err := b.WriteFeedback(t.Context(), &Feedback{Kind: "mute", Keys: "pump-*", Topic: "other"}); err != nil {
		t.Fatal(err)
	}
	l := b.list(AnomalyQuery{}, "one is muted", func(l *AnomalyList) bool {
		return slices.ContainsFunc(l.Anomalies, func(a Anomaly) bool { return a.Muted })
	})
	for _, a := range l.Anomalies {
		if a.Muted != (a.Source.Topic == "other") {
			t.Errorf("anomaly %s of %s is muted: %t; the rule is of topic other", a.ID[:2], a.Source.Topic, a.Muted)
		}
	}
	if f := b.Feedback().Feedback; len(f) != 1 || f[0].Topic != "other" || f[0].Partition != nil {
		t.Errorf("%+v", f)
	}
	if _, err := b.WriteFeedback(t.Context(), &Feedback{Kind: "mute", Partition: &one}); !errors.As(err, &e) ||
		e.Code != http.StatusBadRequest {
		t.Errorf("a mute of a partition of any topic: %v", err)
	}
}
