package feedback

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// presses is a partition of an input topic.
var presses = kafka.TP{Topic: "presses", Partition: 1}

// TestReader: the rules follow what is written, replaced and deleted; what is no feedback changes nothing else, a
// topic that is created again begins anew, and one that cannot be read leaves the rules as they are.
func TestReader(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	client, err := kafka.Open(ctx, kafka.Config{Brokers: k.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := kafkatest.Unique("feedback")
	r := NewReader(client, topic, 3, slog.New(slog.DiscardHandler))
	defer r.close()
	want := func(what string, ruleList ...rules.MuteRule) {
		t.Helper()
		r.Poll(ctx)
		m := r.Rules()
		if m == nil {
			t.Fatalf("%s: no rules are known", what)
		}
		if got, want := string(m.mutesOf(presses)), string(rules.MuteList(ruleList).Sorted().Encode()); got != want {
			t.Errorf("%s: rules %x, want %x", what, got, want)
		}
	}
	write := func(id string, value []byte) {
		t.Helper()
		if err := Write(ctx, client, topic, id, value); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(id, keys string, to int64) (rules.MuteRule, []byte) {
		f := output.Feedback{ID: id, Keys: keys, To: &to}
		m, ok := MuteOf(&f)
		if !ok || m.Scope != Anywhere {
			t.Fatal("a mute is no rule everywhere")
		}
		return m.Rule, f.Append(nil, -1)
	}
	create := func() {
		t.Helper()
		if err := client.Admin.CreateTopic(ctx, topic, 2, 1, Configs); err != nil {
			t.Fatal(err)
		}
	}
	if r.Rules() != nil {
		t.Error("rules are known before the first poll")
	}
	want("no topic")
	create()
	want("an empty topic")
	a, bytesA := rule("a", "pump-*", 100)
	b, bytesB := rule("b", "fan-?", 200)
	write("a", bytesA)
	want("one", a)
	write("b", bytesB)
	write("c", (&output.Feedback{ID: "c", Kind: output.FeedbackConfirm, Anomaly: "x"}).Append(nil, -1))
	write("d", []byte("no Avro"))
	want("two, and others", a, b)
	a2, bytesA2 := rule("a", "pump-1", 300)
	write("a", bytesA2)
	want("replaced", a2, b)
	before := r.Rules()
	if want("the same", a2, b); r.Rules() != before {
		t.Error("rules that did not change are others")
	}
	write("b", nil)
	want("deleted", a2)
	all, err := ReadAll(ctx, client, topic, func(error) {})
	if err != nil || len(all) != 2 {
		t.Errorf("%d records, %v", len(all), err)
	}
	if err := k.Admin().DeleteTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
	r.Poll(ctx) // finds that it is gone
	want("no topic any more")
	create()
	write("b", bytesB)
	want("created again", b)
	gone, stop := context.WithCancel(ctx)
	stop()
	if r.Poll(gone); len(r.Rules().mutesOf(presses)) == 0 {
		t.Error("rules are gone with a topic that cannot be read")
	}
	for i := range 2 * rules.MaxMutes {
		r.rules[string(rune(i))] = Mute{Anywhere, rules.MuteRule{Keys: "*", From: 0, To: int64(i + 1)}}
	}
	r.publish()
	l, err := rules.DecodeMutes(r.Rules().mutesOf(presses))
	if err != nil || len(l) != rules.MaxMutes || l[0].To != rules.MaxMutes+1 {
		t.Errorf("%d rules of too many, %v", len(l), err)
	}
}

// TestAlarmOf: a label has the opening of its anomaly from the first record and the rest from the last; what only the end tells,
// from a record that closed it.
func TestAlarmOf(t *testing.T) {
	first := output.Anomaly{Revision: 1, Detector: "d", Key: []byte("a"), OpenedAt: 100, PeakTime: 90, PeakScore: 5, Samples: 3,
		Range: 2, Held: 4, Expected: []float64{1, 1}, Actual: []float64{2, 4}, Contribution: []float64{0.1, 0.9}}
	last := output.Anomaly{Revision: 2, OpenedAt: 100, PeakTime: 120, End: 130, PeakScore: 9, Samples: 8, Kind: 1, Range: 7, Held: 6,
		Expected: []float64{1, 1}, Actual: []float64{2, 0}, Contribution: []float64{0.9, 0.1}}
	want := output.Alarm{Detector: "d", Series: "a", Field: 1, Side: uint8(rules.Above), Opened: 5, Peak: 9, Lasted: 30, First: 3, Apart: 3,
		Initial: 2, Range: 7, Early: 4, Held: 6}
	if a := AlarmOf(&first, &last); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	last.Kind, last.Actual[1] = 2, -5
	want.Samples, want.Apart = 8, 6
	if a := AlarmOf(&first, &last); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	ofAny, ofLast, wants := first, last, want // an ensemble's: the scores are its member's
	ofAny.PeakScore, ofAny.Member = 2, &output.Member{Name: "m", Score: 50, Samples: 1, PeakTime: 95}
	ofLast.PeakScore, ofLast.Member = 3, &output.Member{Name: "m", Score: 70, Samples: 6, PeakTime: 120}
	wants.Detector, wants.Opened, wants.Peak, wants.Samples, wants.Lasted = "d/m", 50, 70, 6, 30
	if a := AlarmOf(&ofAny, &ofLast); a == nil || *a != wants {
		t.Errorf("%+v, want %+v", a, wants)
	}
	first.Side = 2 // its newest reading was on another side than the one that deviates most
	below := want
	below.Side = uint8(rules.Below)
	if a := AlarmOf(&first, &last); a == nil || *a != below {
		t.Errorf("%+v, want %+v", a, below)
	}
	first.Side = 0
	last.Expected = nil
	want.Apart = 3
	if a := AlarmOf(&first, &last); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	first.Expected = nil
	want.First, want.Apart, want.Side = 0, 0, 0
	if a := AlarmOf(&first, &last); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if AlarmOf(nil, &last) != nil || AlarmOf(&last, &last) != nil {
		t.Error("a label says what is not known")
	}
}

// TestLabels: the rules follow the labels, of which the newest of an anomaly counts; labels that do not say what their anomaly was
// like teach nothing, and of a flood only the newest are kept.
func TestLabels(t *testing.T) {
	r := NewReader(nil, "feedback", 3, slog.New(slog.DiscardHandler))
	put := func(key, anomaly string, kind uint8, at int64, alarm *output.Alarm) {
		t.Helper()
		f := output.Feedback{ID: key, Kind: kind, Anomaly: anomaly, WrittenAt: at, Alarm: alarm}
		r.apply(&record.Record{Key: []byte(key), Value: f.Append(nil, -1)})
	}
	id := func(i int) string { return fmt.Sprintf("%032x", i) }
	alarm := func(opened float64) *output.Alarm {
		return &output.Alarm{Detector: "d", Series: "a", Opened: opened, Peak: max(20, opened), Side: 1}
	}
	ruleList := func(what string, n int) rules.LearnedList {
		t.Helper()
		r.publish()
		l, err := rules.DecodeLearned(r.Rules().learnedOf("presses"))
		if err != nil || len(l) != n {
			t.Fatalf("%s: %+v, %v; want %d rules", what, l, err, n)
		}
		return l
	}
	put("1", id(1), output.FeedbackFalseAlarm, 1, alarm(10))
	put("2", id(2), output.FeedbackFalseAlarm, 2, alarm(11))
	put("3", id(2), output.FeedbackFalseAlarm, 3, alarm(11))
	put("4", id(2), output.FeedbackFalseAlarm, 4, alarm(11))
	ruleList("three labels of one anomaly and one of another", 0)
	put("5", id(5), output.FeedbackFalseAlarm, 5, nil)
	put("6", "no id", output.FeedbackFalseAlarm, 6, alarm(10))
	ruleList("labels of nothing known", 0)
	put("7", id(7), output.FeedbackFalseAlarm, 7, alarm(12))
	if l := ruleList("three", 1); l[0].Count != 3 || l[0].Least >= 20 || l[0].Most <= 20 {
		t.Errorf("%+v", l)
	}
	before := r.Rules()
	put("5", id(5), output.FeedbackFalseAlarm, 5, nil)
	if ruleList("the same", 1); r.Rules() != before {
		t.Error("rules that did not change are others")
	}
	put("8", id(1), output.FeedbackConfirm, 8, alarm(10))
	ruleList("one is confirmed later", 0)
	put("9", id(1), output.FeedbackFalseAlarm, 9, alarm(10))
	ruleList("and a false alarm again", 1)
	r.apply(&record.Record{Key: []byte("7")})
	ruleList("one is taken back", 0)
	put("7", id(7), output.FeedbackFalseAlarm, 7, alarm(12))
	ruleList("and given again", 1)
	put("10", id(10), output.FeedbackConfirm, 10, alarm(11))
	ruleList("a confirmed one among them", 0)
	for i := range 5 * rules.MaxLabels / 2 {
		put("flood"+strconv.Itoa(i), id(100+i), output.FeedbackFalseAlarm, int64(100+i), alarm(30))
		if len(r.labels) > 2*rules.MaxLabels {
			t.Fatalf("%d labels are kept", len(r.labels))
		}
	}
	if l := ruleList("a flood", 1); l[0].Count != rules.MaxLabels || l[0].Least > 30 || l[0].Most > 40 {
		t.Errorf("%+v", l)
	}
	r.least = 0
	ruleList("learning is off", 0)
}

// TestScope: series of one key in two topics are two series. A mute of one topic or partition holds there alone, and false alarms
// of one topic's series teach nothing about the other; where no topic is named, both are meant.
func TestScope(t *testing.T) {
	r := NewReader(nil, "feedback", 3, slog.New(slog.DiscardHandler))
	put := func(f output.Feedback) {
		r.apply(&record.Record{Key: []byte(f.ID), Value: f.Append(nil, -1)})
	}
	label := func(i int, topic string) output.Feedback {
		first := output.Anomaly{ID: [16]byte{byte(i)}, Revision: 1, Detector: "near", Key: []byte("pump-1"), Topic: topic, PeakScore: 10,
			OpenedAt: 100, PeakTime: 90}
		last := first
		last.Revision, last.Kind, last.Samples = 2, 2, 3
		return output.Feedback{ID: fmt.Sprint(i), Kind: output.FeedbackFalseAlarm, Anomaly: fmt.Sprintf("%x", first.ID), WrittenAt: int64(i),
			Alarm: AlarmOf(&first, &last)}
	}
	taught := func(topic string) int {
		t.Helper()
		l, err := rules.DecodeLearned(r.Rules().learnedOf(topic))
		if err != nil {
			t.Fatal(err)
		}
		if like := l.Like(&rules.Alarm{Detector: "near", Series: "pump-1", Field: -1, Opened: 10, Peak: 10}); like != nil {
			return like.Count
		}
		return 0
	}
	for i := range 3 {
		put(label(i+1, "presses"))
	}
	r.publish()
	if p, o := taught("presses"), taught("pumps"); p != 3 || o != 0 {
		t.Errorf("three false alarms of presses: an anomaly of it is like %d, and one of another topic like %d; want 3 and 0", p, o)
	}
	f := label(4, "")
	put(f)
	f = label(5, "")
	put(f)
	put(label(6, "pumps"))
	r.publish()
	if p, o, none := taught("presses"), taught("pumps"), taught("fans"); p != 5 || o != 3 || none != 0 {
		t.Errorf("two labels of any topic, three of presses and one of pumps: %d, %d, and elsewhere %d; want 5, 3 and 0", p, o, none)
	}
	two := int32(2)
	put(output.Feedback{ID: "all", Keys: "a"})
	put(output.Feedback{ID: "topic", Keys: "b", Topic: "presses"})
	put(output.Feedback{ID: "partition", Keys: "c", Topic: "presses", Partition: &two})
	r.publish()
	for tp, want := range map[kafka.TP]string{{Topic: "presses", Partition: 2}: "abc", {Topic: "presses", Partition: 1}: "ab",
		{Topic: "pumps", Partition: 2}: "a"} {
		l, err := rules.DecodeMutes(r.Rules().mutesOf(tp))
		got := ""
		for i := range l {
			got += l[i].Keys
		}
		if err != nil || got != want {
			t.Errorf("%s: rules of %q, %v; want %q", tp, got, err, want)
		}
	}
	records := map[string]output.Feedback{"1": label(1, "presses"), "2": label(2, "presses"), "3": label(3, ""), "4": label(4, "pumps")}
	if all := Learn(records, 3); len(all) != 3 ||
		all[0].Topic != "" || len(all[0].Rules) != 0 || all[1].Topic != "presses" || len(all[1].Rules) != 1 || len(all[2].Rules) != 0 {
		t.Errorf("%+v", all)
	}
}
