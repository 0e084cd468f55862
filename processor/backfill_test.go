package processor

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// backfillBench has a topic of records a second apart, of which the first ones are a backfill.
type backfillBench struct {
	*bench
	start int64 // Config.Start of the groups: a Kafka timestamp
	mu    sync.Mutex
	left  map[string]map[kafka.TP][]byte // state at the last hand-over, by group
}

func newBackfillBench(t *testing.T, partitions, backfilled, after int) *backfillBench {
	b := &backfillBench{bench: newBench(t, partitions), left: map[string]map[kafka.TP][]byte{}}
	if backfilled+after == 0 {
		return b
	}
	small := kgo.ProducerBatchMaxBytes(2 << 10)
	b.produce(backfilled, small)
	b.start = 1700000000000 + int64(b.n)*1000
	b.produce(after, small)
	return b
}

// slow lets each fetch wait, so that a backfill takes a while.
func (b *backfillBench) slow(pause time.Duration) {
	b.c.Fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		time.Sleep(pause) // SleepControl, often on one connection, has a data race: two goroutines wait on one queue
		return nil, nil, false
	})
}

// group returns the configuration of a group with outputs of its own.
func (b *backfillBench) group(name string) Config {
	b.t.Helper()
	for _, topic := range []string{name + "-scores", name + "-dlq", name + "-late"} {
		_ = b.client.Admin.CreateTopic(b.t.Context(), topic, 1, 1, nil) // or it is there
	}
	infos, err := b.client.Admin.Topics(b.t.Context(), b.input)
	if err != nil {
		b.t.Fatal(err)
	}
	log := name + "-" + b.input + "-changelog"
	_ = b.client.Admin.CreateTopic(b.t.Context(), log, infos[b.input].Partitions, 1, map[string]string{"cleanup.policy": "compact"})
	cfg := b.config("")
	cfg.Group = name
	for o, topic := range cfg.Outputs {
		if topic != "" {
			cfg.Outputs[o] = name + "-" + topic
		}
	}
	cfg.Changelog = func(string) string { return log }
	cfg.export = func(tp kafka.TP, restored bool, _ int64, state []byte) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !restored {
			if b.left[name] == nil {
				b.left[name] = map[kafka.TP][]byte{}
			}
			b.left[name][tp] = state
		}
	}
	return cfg
}

// warmed returns a group that begins at the start, with everything before as a backfill.
func (b *backfillBench) warmed(name string) Config {
	cfg := b.group(name)
	cfg.Start, cfg.Backfill = b.start, 1000*time.Hour
	return cfg
}

// finish runs a group to the end of the input.
func (b *backfillBench) finish(cfg Config) {
	b.t.Helper()
	p, _, stop := b.startWith(cfg)
	b.ready(p, 1)
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, cfg.Group, b.input); err != nil {
		b.t.Error(err)
	}
	if err := stop(); err != nil {
		b.t.Fatal(err)
	}
}

// starts returns the offsets of the start by partition.
func (b *backfillBench) starts() map[int64]int64 {
	b.t.Helper()
	infos, err := b.client.Admin.Topics(b.t.Context(), b.input)
	if err != nil {
		b.t.Fatal(err)
	}
	at := map[int64]int64{}
	for p := range infos[b.input].Partitions {
		tp := kafka.TP{Topic: b.input, Partition: int32(p)}
		offs, err := b.client.Offsets.ListOffsets(b.t.Context(), []kafka.TP{tp}, b.start)
		if err != nil {
			b.t.Fatal(err)
		}
		at[int64(p)] = offs[tp]
	}
	return at
}

// scores reads the scores of a group.
func (b *backfillBench) scores(group string) map[[2]int64]output.Score {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(b.t.Context(), group+"-scores", true)
	if err != nil {
		b.t.Fatal(err)
	}
	got := map[[2]int64]output.Score{}
	for i := range recs {
		s, err := output.DecodeScore(recs[i].Value)
		if err != nil {
			b.t.Fatal(err)
		}
		id := [2]int64{int64(s.Partition), s.Offset}
		if _, twice := got[id]; twice {
			b.t.Errorf("%s: two scores for %v", group, id)
		}
		got[id] = s
	}
	return got
}

// differences compares the scores of a group with the scores of one that has read everything from the beginning,
// and returns how many are not the same.
func (b *backfillBench) differences(group, all string) (n int) {
	b.t.Helper()
	starts, got, want := b.starts(), b.scores(group), b.scores(all)
	for id, w := range want {
		if g, ok := got[id]; ok != (id[1] >= starts[id[0]]) || ok && !sameScore(g, w) {
			n++
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			n++
		}
	}
	if len(want) < b.n-30*3*len(starts) {
		b.t.Errorf("%d scores of %d records", len(want), b.n)
	}
	return n
}

// sameScore compares two scores, either of which may have none.
func sameScore(a, b output.Score) bool {
	same := math.Float64bits(a.Score) == math.Float64bits(b.Score) && bytes.Equal(a.Key, b.Key)
	a.Key, a.Score, b.Key, b.Score = nil, 0, nil, 0
	return same && fmt.Sprint(a) == fmt.Sprint(b)
}

// sameState compares the states that two groups have left.
func (b *backfillBench) sameState(group, all string) bool {
	b.t.Helper()
	if len(b.left[all]) == 0 {
		b.t.Fatalf("%s has left no state", all)
	}
	for tp, state := range b.left[all] {
		if !bytes.Equal(state, b.left[group][tp]) {
			return false
		}
	}
	return true
}

// TestBackfill: a new group with a backfill has the scores of one that has read everything, to the bit, and
// its state, to the byte; with interruptions and with members that come and go, too.
func TestBackfill(t *testing.T) {
	const partitions = 3
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		b := newBackfillBench(t, partitions, 6000, 900)
		all := b.group("all")
		all.Guarantee = g
		b.finish(all)

		once := b.warmed("once")
		once.Guarantee = g
		b.finish(once)
		if n := b.differences("once", "all"); n > 0 {
			t.Errorf("%d scores are not as in a group that has read everything", n)
		}
		if !b.sameState("once", "all") {
			t.Error("the state is not as in a group that has read everything")
		}

		// Stopped in the middle of the backfill, again and again; and with two members at once.
		again := func() Config {
			cfg := b.warmed("again")
			cfg.Guarantee, cfg.Fetch.PartitionBytes, cfg.CommitInterval = g, 2<<10, 20*time.Millisecond
			return cfg
		}
		tps := make([]kafka.TP, partitions)
		for i := range tps {
			tps[i] = kafka.TP{Topic: b.input, Partition: int32(i)}
		}
		read := func() (n int64) {
			offs, err := b.client.Offsets.Committed(t.Context(), "again", tps)
			if err != nil {
				t.Fatal(err)
			}
			for _, off := range offs {
				n += max(0, off.Offset)
			}
			return n
		}
		interrupted := 0
		b.slow(5 * time.Millisecond)
		for want := int64(1); want < 4500; want = read() + 1000 {
			_, _, stop := b.startWith(again())
			for began := time.Now(); read() < want && time.Since(began) < 20*time.Second; {
				time.Sleep(2 * time.Millisecond)
			}
			if want > 2000 {
				_, _, stop2 := b.startWith(again()) // takes partitions over
				time.Sleep(150 * time.Millisecond)
				if err := stop2(); err != nil {
					t.Fatal(err)
				}
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if n := read(); n > 0 && n < 6000 {
				interrupted++
			}
			if offs, err := b.client.Offsets.Committed(t.Context(), "again", tps); err != nil {
				t.Fatal(err)
			} else if f, err := state.ParseFloor(offs[tps[0]].Metadata); err != nil || f.Backfill != b.starts()[0] {
				t.Fatalf("the metadata %q of an interrupted backfill, start %d: %v", offs[tps[0]].Metadata, b.starts()[0], err)
			}
		}
		b.finish(again())
		if n := b.differences("again", "all"); n > 0 || interrupted == 0 {
			t.Errorf("%d scores are not as in a group that has read everything, after %d interruptions", n, interrupted)
		}
		if !b.sameState("again", "all") {
			t.Error("the state after interruptions is not as in a group that has read everything")
		}
		t.Logf("%d interruptions", interrupted)

		// The negative control: without a backfill the first scores are missing, and the state has less.
		cold := b.warmed("cold")
		cold.Guarantee, cold.Backfill = g, 0
		b.finish(cold)
		if b.differences("cold", "all") == 0 || b.sameState("cold", "all") {
			t.Error("a group without a backfill has the scores or the state of one that has read everything")
		}
	}
}

// TestBackfillBadRecords: what cannot be read in the backfill is counted, and is no dead letter; late records of
// it are not sent on.
func TestBackfillBadRecords(t *testing.T) {
	b := newBackfillBench(t, 1, 0, 0)
	bad := func(n int) {
		t.Helper()
		recs := make([]kafkatest.Record, n)
		for i := range recs {
			recs[i] = kafkatest.Record{Topic: b.input, Key: []byte("bad"), Value: []byte("rubbish"), Time: 1700000000000 + int64(b.n)*1000}
		}
		if _, err := b.c.ProduceAcked(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
	}
	late := func() { // a second sample of each key, an hour earlier
		n := b.n
		b.n -= 3600
		b.produce(60)
		b.n = n
	}
	b.n = 10_000
	b.produce(200)
	bad(7)
	late()
	b.produce(100)
	b.start = 1700000000000 + int64(b.n)*1000
	b.produce(50)
	bad(2)
	b.produce(50)
	cfg := b.warmed("g")
	b.finish(cfg)
	read := func(topic string) int {
		recs, err := b.c.Admin().ReadAll(t.Context(), topic, true)
		if err != nil {
			t.Fatal(err)
		}
		return len(recs)
	}
	if n := read("g-dlq"); n != 2 {
		t.Errorf("%d dead letters, want the 2 behind the start", n)
	}
	if n := read("g-late"); n != 0 {
		t.Errorf("%d late records of the backfill are sent on", n)
	}
	text := counters(t, cfg)
	for name, want := range map[string]string{"records_backfilled_total": "367", "backfill_unreadable_total": "7",
		"records_dead_lettered_total": "2", "records_late_total": "0", "records_consumed_total": "469"} {
		if got := text[name]; got != want {
			t.Errorf("odradek_%s is %s, want %s", name, got, want)
		}
	}
}

// counters returns the metrics of partition 0, by name.
func counters(t *testing.T, cfg Config) map[string]string {
	t.Helper()
	families, err := cfg.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if c := m.GetCounter(); c != nil && len(m.GetLabel()) == 2 && m.GetLabel()[0].GetValue() == "0" {
				all[strings.TrimPrefix(f.GetName(), "odradek_")] = strconv.FormatFloat(c.GetValue(), 'f', -1, 64)
			}
		}
	}
	return all
}

// TestBackfillDeleted: input of the backfill that is deleted before it is read is no loss; what follows the start is.
func TestBackfillDeleted(t *testing.T) {
	b := newBackfillBench(t, 1, 3000, 300)
	start := b.starts()[0]
	cfg := func(lost OnLoss) Config {
		cfg := b.warmed("g")
		cfg.Fetch.PartitionBytes, cfg.CommitInterval, cfg.OffsetLost = 2<<10, 20*time.Millisecond, lost
		return cfg
	}
	committed := func() kafka.Offset {
		tp := kafka.TP{Topic: b.input}
		offs, err := b.client.Offsets.Committed(t.Context(), "g", []kafka.TP{tp})
		if err != nil {
			t.Fatal(err)
		}
		return offs[tp]
	}
	b.slow(10 * time.Millisecond)
	_, _, stop := b.startWith(cfg(FailOnLoss))
	for committed().Offset < 100 {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	at := committed().Offset
	if at >= start-10 {
		t.Fatalf("the backfill is at %d: too late to delete what it has not read", at)
	}
	if err := b.c.Admin().DeleteRecords(t.Context(), b.input, 0, (at+start)/2); err != nil {
		t.Fatal(err)
	}
	b.finish(cfg(FailOnLoss))
	got := b.scores("g")
	for id, s := range got {
		if id[1] < start {
			t.Fatalf("a score of the backfill: %+v", s)
		}
	}
	if len(got) < 300-30*3 {
		t.Errorf("%d scores of 300 records", len(got))
	}

	// A group that has begun to publish is asked.
	b.produce(50)
	if err := b.c.Admin().DeleteRecords(t.Context(), b.input, 0, int64(b.n)); err != nil {
		t.Fatal(err)
	}
	b.produce(50)
	b.refused(cfg(FailOnLoss), "retention has deleted input")
}

// TestBackfillLatest: with StartLatest the backfill ends where the log does when the partition is first assigned.
func TestBackfillLatest(t *testing.T) {
	b := newBackfillBench(t, 1, 900, 0)
	cfg := b.group("g")
	cfg.Start, cfg.Backfill = StartLatest, 24*365*100*time.Hour
	p, _, stop := b.startWith(cfg)
	b.ready(p, 1)
	b.produce(200)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := b.scores("g")
	for id, s := range got {
		if id[1] < 900 || s.State == output.WarmingUp {
			t.Errorf("a score %+v of %v", s, id)
		}
	}
	if len(got) < 200-30*3 {
		t.Errorf("%d scores of 200 records", len(got))
	}
}
