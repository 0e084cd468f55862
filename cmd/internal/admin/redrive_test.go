package admin

import (
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// timeOf returns the timestamp of record number n.
func timeOf(n int) int64 { return 1_700_000_000_000 + int64(n) }

// letterOf returns a letter as cycle.Writer writes it, of the record number n of a source partition.
func letterOf(dlq, source string, partition int32, n int, class string, own ...kafkatest.Header) kafkatest.Record {
	h := append([]kafkatest.Header{{Key: "trace", Value: strconv.AppendInt(nil, int64(n), 10)}}, own...)
	h = append(h, kafkatest.Header{Key: exceptionHeader, Value: []byte("odradek." + class)},
		kafkatest.Header{Key: streamsPrefix + "stacktrace"}, kafkatest.Header{Key: streamsPrefix + "message", Value: []byte("why")},
		kafkatest.Header{Key: streamsPrefix + "topic", Value: []byte(source)},
		kafkatest.Header{Key: streamsPrefix + "partition", Value: strconv.AppendInt(nil, int64(partition), 10)},
		kafkatest.Header{Key: streamsPrefix + "offset", Value: strconv.AppendInt(nil, int64(n), 10)},
		kafkatest.Header{Key: classHeader, Value: []byte(class)},
		kafkatest.Header{Key: cycle.TimestampHeader, Value: strconv.AppendInt(nil, timeOf(n), 10)})
	return kafkatest.Record{Topic: dlq, Partition: partition, Time: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "k%d", n),
		Value: fmt.Appendf(nil, "%s %d", class, n), Headers: h}
}

// picky refuses values that begin with "bad".
type picky struct{ schemas.Decoder }

func (picky) Decode(_ context.Context, _, value []byte, _ int64, _ func(string) ([]byte, bool), _ *schemas.Reading) error {
	if len(value) > 3 && string(value[:3]) == "bad" {
		return &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: -1, Err: errors.New("bad")}
	}
	return nil
}

// killed is what the test panics with to end a redrive as a kill would: nothing is closed or aborted.
type killed struct{}

type fixture struct {
	t           *testing.T
	k           *kafkatest.Cluster
	source, dlq string
}

// redrive runs a redrive with a client of its own. setup may change it. It returns false if it was killed.
func (f *fixture) redrive(setup func(*Redrive)) (tally Tally, done bool, err error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := kafka.Open(ctx, kafka.Config{Brokers: f.k.Brokers})
	if err != nil {
		f.t.Fatal(err)
	}
	topic, err := OpenDeadLetters(ctx, client, f.dlq)
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	defer topic.Close()
	r := &Redrive{Client: client, Topic: topic, Filter: Filter{Partition: -1}, Sources: []string{f.source}, Attempts: 3,
		Reader:     func(string) (schemas.Decoder, time.Duration) { return picky{}, 0 },
		MaxMessage: 1 << 20, Partitions: 2, Replication: 1}
	if setup != nil {
		setup(r)
	}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
		}
	}()
	tally, err = r.Run(ctx)
	return tally, true, err
}

// count returns how often each letter's record is in a topic, by partition and number.
func (f *fixture) count(topic string) map[string]int {
	f.t.Helper()
	recs, err := f.k.Admin().ReadAll(context.Background(), topic, true)
	if err != nil {
		f.t.Fatal(err)
	}
	n := map[string]int{}
	for i := range recs {
		if from, ok := recs[i].Header(FromHeader); ok {
			n[string(from)]++
		}
	}
	return n
}

// once returns an error unless each of the letters is in the topic exactly once.
func (f *fixture) once(topic string, letters int) error {
	n := f.count(topic)
	for from, times := range n {
		if times != 1 {
			return fmt.Errorf("letter %s is there %d times", from, times)
		}
	}
	if len(n) != letters {
		return fmt.Errorf("%d of %d letters are there", len(n), letters)
	}
	return nil
}

func newFixture(t *testing.T, k *kafkatest.Cluster) *fixture {
	return &fixture{t: t, k: k, source: k.Topic(t, "source", 2), dlq: k.Topic(t, "dlq", 2)}
}

func (f *fixture) produce(recs ...kafkatest.Record) {
	f.t.Helper()
	if _, err := f.k.ProduceAcked(context.Background(), recs); err != nil {
		f.t.Fatal(err)
	}
}

// TestRedriveKilled: a redrive that is killed again and again, before and after its transactions end,
// sends each letter once. Without the ledger some come twice.
func TestRedriveKilled(t *testing.T) {
	t.Run(kafkatest.KindFake, func(t *testing.T) { testRedriveKilled(t, kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})) })
	if kafkatest.Long() {
		t.Run(kafkatest.KindNewest, func(t *testing.T) { testRedriveKilled(t, kafkatest.Open(t, kafkatest.KindNewest)) })
	}
}

func testRedriveKilled(t *testing.T, k *kafkatest.Cluster) {
	rng := seedtest.New(t)
	f := newFixture(t, k)
	letters := 0
	write := func(n int, class string) {
		recs := make([]kafkatest.Record, n)
		for i := range recs {
			recs[i] = letterOf(f.dlq, f.source, int32(letters%2), letters, class)
			letters++
		}
		f.produce(recs...)
	}
	// run ends a redrive at a step, 0 for never, and reports whether it ended by itself.
	run := func(at int) bool {
		_, done, err := f.redrive(func(r *Redrive) {
			if at > 0 && rng.IntN(2) == 0 {
				r.Filter.Classes = []string{"magic"} // what it sends is no stretch of offsets
			}
			r.step = func(string) {
				if at--; at == 0 {
					panic(killed{})
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	// Each redrive has letters for two transactions, of two steps each, so it is killed for certain.
	for _, i := range append(rng.Perm(4), rng.Perm(4)...) {
		write(rng.IntN(transactionLetters), "unknown_schema")
		write(transactionLetters+1, "magic")
		if run(1 + i) {
			t.Fatalf("a redrive was not killed at step %d", 1+i)
		}
	}
	for !run(0) {
	}
	if err := f.once(f.source, letters); err != nil {
		t.Error(err)
	}
	// The control: with the ledger lost, the same check fails.
	if err := f.k.Admin().DeleteTopic(context.Background(), LedgerTopic(f.dlq)); err != nil {
		t.Fatal(err)
	}
	run(0)
	if f.once(f.source, letters) == nil {
		t.Error("without its ledger the redrive sent nothing twice: the check sees nothing")
	}
}

// TestRedrive: what is sent is the record as it was, with its time and in its partition; what cannot be
// read, was sent too often, is of a batch, cut off or of another group stays.
func TestRedrive(t *testing.T) {
	f := newFixture(t, kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1}))
	good := letterOf(f.dlq, f.source, 1, 7, "magic")
	attempts := func(n string) kafkatest.Header { return kafkatest.Header{Key: AttemptsHeader, Value: []byte(n)} }
	batch := letterOf(f.dlq, f.source, 0, 3, "corrupt_batch")
	batch.Headers = append(batch.Headers, kafkatest.Header{Key: batchPrefix + "records", Value: []byte("5")})
	cut := letterOf(f.dlq, f.source, 0, 1<<20, "too_large")
	cut.Headers = append([]kafkatest.Header{{Key: truncatedPrefix + "size", Value: []byte("99")}}, cut.Headers[1:]...)
	whole := letterOf(f.dlq, f.source, 0, 0, "too_large") // of the record that is there
	whole.Headers = append([]kafkatest.Header{{Key: truncatedPrefix + "size", Value: []byte("99")}}, whole.Headers[1:]...)
	f.produce(kafkatest.Record{Topic: f.source, Key: []byte("whole"), Value: []byte("all of it")})
	f.produce(good, letterOf(f.dlq, f.source, 0, 1, "bad"), letterOf(f.dlq, f.source, 0, 2, "magic", attempts("3")), batch, cut, whole,
		letterOf(f.dlq, "elsewhere", 0, 4, "magic"), letterOf(f.dlq, f.source, 0, 5, "magic", attempts("1"), kafkatest.Header{Key: FromHeader}))
	dry, _, err := f.redrive(func(r *Redrive) { r.Dry = true })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.count(f.source)); n != 0 {
		t.Fatalf("a dry run sent %d records", n)
	}
	got, _, err := f.redrive(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "map[magic:2 too_large:1] map[a whole batch that could not be read:map[corrupt_batch:1] " +
		"cut off, and no longer in the source topic:map[too_large:1] from a topic that is none of the group's:map[magic:1] " +
		"sent too often:map[magic:1] would be a dead letter again:map[malformed:1]]"
	for _, tally := range []Tally{dry, got} {
		if text := fmt.Sprint(tally.Sent, tally.Kept); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	recs, err := f.k.Admin().ReadAll(context.Background(), f.source, true)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range recs {
		n, _ := r.Header(AttemptsHeader)
		seen[string(r.Key)] = fmt.Sprintf("%d %s %d %s", r.Partition, r.Value, len(r.Headers), n)
		if string(r.Key) == "k7" && (r.Time != timeOf(7) || r.Headers[0].Key != "trace") {
			t.Errorf("not as it was: %+v", r)
		}
	}
	for key, want := range map[string]string{"k7": "1 magic 7 3 1", "k5": "0 magic 5 3 2"} {
		if seen[key] != want {
			t.Errorf("%s: %q, want %q", key, seen[key], want)
		}
	}
	if again, _, err := f.redrive(nil); err != nil || again.Total() != 0 {
		t.Errorf("a second redrive sent %v, %v", again.Sent, err)
	}
	// All of it as it is, to another topic that does not exist.
	to := kafkatest.Unique("repaired")
	got, _, err = f.redrive(func(r *Redrive) { r.To, r.Reader = to, nil })
	if err != nil || got.Total() != 5 || len(f.count(to)) != 5 {
		t.Errorf("to another topic: %v %v, %v", got.Sent, got.Kept, err)
	}
}

// TestTwoRedrives: of two at a time the first one is ended by the second, and nothing is sent twice.
func TestTwoRedrives(t *testing.T) {
	f := newFixture(t, kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1}))
	const letters = 3 * transactionLetters
	var recs []kafkatest.Record
	for i := range letters {
		recs = append(recs, letterOf(f.dlq, f.source, int32(i%2), i, "magic"))
	}
	f.produce(recs...)
	first := true
	_, _, err := f.redrive(func(r *Redrive) {
		r.step = func(step string) {
			if step == "written" && first {
				first = false
				if _, _, err := f.redrive(nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err == nil {
		t.Error("the first redrive ended without an error")
	}
	t.Log(err)
	if err := f.once(f.source, letters); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	foreign := []record.Header{{Key: exceptionHeader, Value: b("java.lang.X")}, {Key: streamsPrefix + "topic", Value: b("other")}}
	for _, c := range []struct {
		name string
		own  []record.Header
		more []record.Header
	}{
		{"a letter", []record.Header{{Key: "a", Value: b("1")}}, nil},
		{"a letter of a letter of another program", foreign, nil},
		{"a letter that was cut off", nil, []record.Header{{Key: truncatedPrefix + "size", Value: b("9")}}},
	} {
		h := append(append(append([]record.Header{}, c.own...), c.more...), record.Header{Key: exceptionHeader, Value: b("odradek.magic")},
			record.Header{Key: streamsPrefix + "topic", Value: b("t")}, record.Header{Key: streamsPrefix + "offset", Value: b("x")},
			record.Header{Key: classHeader, Value: b("magic")})
		if n := ownCount(h); n != len(c.own) {
			t.Errorf("%s: %d headers are its own, want %d", c.name, n, len(c.own))
		}
	}
	if n := ownCount(foreign); n != 2 {
		t.Errorf("a record that is no letter has %d own headers, want 2", n)
	}
}

// deflated compresses as AWS Glue's serializer does.
func deflated(text string) string {
	var b strings.Builder
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func TestReframe(t *testing.T) {
	for _, c := range []struct {
		value, want string
		first       bool
		header      string
	}{
		{"\x00\x00\x00\x00\x07body", "\x00\x00\x00\x01\x02body", false, ""},
		{"\x00\x00\x00\x00\x07\x02body", "\x00\x00\x00\x01\x02\x02body", true, ""},
		{"body", "\x00\x00\x00\x01\x02body", false, ""},
		{"body", "\x00\x00\x00\x01\x02\x00body", true, ""},
		{"\x010123456789abcdefbody", "\x00\x00\x00\x01\x02body", false, ""},
		{"\x03\x000123456789abcdefbody", "\x00\x00\x00\x01\x02body", false, ""},
		{"\x03\x050123456789abcdef" + deflated("body"), "\x00\x00\x00\x01\x02body", false, ""},
		{"\x03\x050123456789abcdefbody", "\x00\x00\x00\x01\x02\x03\x050123456789abcdefbody", false, ""}, // not zlib's
		{"\xc3\x0101234567body", "\x00\x00\x00\x01\x02body", false, ""},
		{"body", "body", true, "\x00\x00\x00\x00\x07\x02"},
	} {
		l := &Letter{Value: []byte(c.value)}
		if c.header != "" {
			l.Headers = []record.Header{{Key: schemas.SchemaIDHeader, Value: []byte(c.header)}}
		}
		l.Reframe(0x102, c.first)
		if string(l.Value) != c.want {
			t.Errorf("%q: %q, want %q", c.value, l.Value, c.want)
		}
		if c.header != "" && string(l.Headers[0].Value) != "\x00\x00\x00\x01\x02\x02" {
			t.Errorf("header %q", l.Headers[0].Value)
		}
	}
}

// TestRuns compares sets of offsets with a map.
func TestRuns(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		var all runs
		want := map[int64]bool{}
		for range 1 + rng.IntN(4) {
			var r runs
			for at := int64(rng.IntN(5)); at < 60; at += int64(rng.IntN(4)) {
				r.add(at)
				want[at] = true
				if at > 50 {
					break
				}
			}
			all = append(all, r...)
		}
		all = all.merge()
		for at := int64(-1); at < 70; at++ {
			if all.has(at) != want[at] {
				t.Fatalf("%d in %v: %t", at, all, all.has(at))
			}
		}
		for i := 1; i < len(all); i++ {
			if all[i][0] <= all[i-1][1]+1 {
				t.Fatalf("%v is not merged", all)
			}
		}
	}
}
