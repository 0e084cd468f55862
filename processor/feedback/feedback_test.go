package feedback

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/keystate/mute"
	"odradek/schemas/output"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

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
	r := NewReader(client, topic, slog.New(slog.DiscardHandler))
	defer r.close()
	want := func(what string, rules ...mute.Rule) {
		t.Helper()
		r.Poll(ctx)
		m := r.Mutes()
		if m == nil {
			t.Fatalf("%s: no rules are known", what)
		}
		if got, want := string(m.content), string(mute.List(rules).Sorted().Encode()); got != want {
			t.Errorf("%s: rules %x, want %x", what, got, want)
		}
	}
	write := func(id string, value []byte) {
		t.Helper()
		if err := Write(ctx, client, topic, id, value); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(id, keys string, to int64) (mute.Rule, []byte) {
		f := output.Feedback{ID: id, Keys: keys, To: &to}
		m, ok := RuleOf(&f)
		if !ok {
			t.Fatal("a mute is no rule")
		}
		return m, f.Append(nil, -1)
	}
	create := func() {
		t.Helper()
		if err := client.CreateTopic(ctx, topic, 2, 1, Configs); err != nil {
			t.Fatal(err)
		}
	}
	if r.Mutes() != nil {
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
	before := r.Mutes()
	if want("the same", a2, b); r.Mutes() != before {
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
	if r.Poll(gone); len(r.Mutes().content) == 0 {
		t.Error("rules are gone with a topic that cannot be read")
	}
	for i := range 2 * mute.MaxRules {
		r.rules[string(rune(i))] = mute.Rule{Keys: "*", From: 0, To: int64(i + 1)}
	}
	r.publish()
	l, err := mute.Decode(r.Mutes().content)
	if err != nil || len(l) != mute.MaxRules || l[0].To != mute.MaxRules+1 {
		t.Errorf("%d rules of too many, %v", len(l), err)
	}
}
