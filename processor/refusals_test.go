package processor

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
)

// produceDead writes n records that cannot be read to each of the partitions.
func (b *bench) produceDead(value string, n int, partitions ...int32) {
	b.t.Helper()
	var recs []kafkatest.Record
	for i := range n {
		for _, p := range partitions {
			recs = append(recs, kafkatest.Record{Topic: b.input, Partition: p, Key: fmt.Appendf(nil, "k%d", i), Time: 1700000000000,
				Value: fmt.Appendf(nil, "%s %d", value, i)})
		}
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

// holding selects produce requests whose records for a topic have the bytes.
func holding(topic, part string) func(kmsg.Request) bool {
	return func(req kmsg.Request) bool {
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic && bytes.Contains(p.Records, []byte(part)) {
					return true
				}
			}
		}
		return false
	}
}

// TestRefusedOutput: brokers refuse the dead letters of one of three partitions, which are in batches with the dead letters of the
// others. It alone is quarantined, regardless of the reason, and nothing of the others is lost.
func TestRefusedOutput(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.InvalidTimestamp, kerr.InvalidRecord, kerr.PolicyViolation, kerr.UnknownServerError,
		kerr.CorruptMessage} {
		for name, guarantee := range map[string]Guarantee{"exactly once": ExactlyOnce, "at least once": AtLeastOnce} {
			t.Run(code.Message+", "+name, func(t *testing.T) {
				b := newBench(t, 3)
				b.produceDead("bad", 50, 0, 1, 2)
				b.produceDead("poison", 1, 1)
				b.produceDead("bad", 50, 0, 1, 2)
				b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "dlq", Err: code, Count: -1, When: holding("dlq", "poison")})
				cfg := b.config("")
				cfg.Guarantee, cfg.TransactionTimeout = guarantee, time.Second
				log := cfg.capture()
				p, stop := b.start(cfg)
				waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) > 0 })
				b.produceDead("more", 20, 0, 2)
				if err := b.waitCommittedBut("g", 1); err != nil {
					t.Error(err)
				}
				if q := quarantined(p); len(q) != 1 || q[0].Partition != 1 || q[0].Quarantine.Reason != Refused {
					t.Errorf("in quarantine: %+v; want partition 1, refused", q)
				}
				if lines := log.with("level=ERROR"); len(lines) != 1 {
					t.Errorf("lines of level ERROR: %q", lines)
				}
				stop(nil)
				seen := map[string]int{}
				for _, r := range b.dead() {
					if p := head(&r, "__streams.errors.partition"); p != "1" {
						seen[p+"/"+head(&r, "__streams.errors.offset")]++
					}
				}
				if len(seen) != 240 {
					t.Errorf("%d dead letters of the other partitions, want 240", len(seen))
				}
				for at, n := range seen {
					if n > 1 && guarantee == ExactlyOnce {
						t.Errorf("%d dead letters of %s", n, at)
					}
				}
			})
		}
	}
}

// TestRefusedOutputOfAll: a topic that refuses everything for a while is to blame, not each partition: when it takes
// records again, no partition is left in quarantine.
func TestRefusedOutputOfAll(t *testing.T) {
	b := newBench(t, 3)
	b.produceDead("bad", 50, 0, 1, 2)
	fault := b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "dlq", Err: kerr.InvalidTimestamp, Count: -1})
	cfg := b.config("")
	log := cfg.capture()
	p, stop := b.start(cfg)
	waitFor(t, "the topic is to blame", func() bool { return len(log.with("the topic refuses the output of every partition")) > 0 })
	fault.Remove()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
		t.Error(err)
	}
	if q := quarantined(p); len(q) != 0 {
		t.Errorf("in quarantine: %+v", q)
	}
	stop(nil)
	if n := len(b.dead()); n != 150 {
		t.Errorf("%d dead letters, want 150", n)
	}
}

// TestCopiesHaveTheTimeOfWriting: dead letters, late records and records of the internal topic have the time of writing as
// Kafka's timestamp, regardless of their records' own, and these in a header; a dead letter of the internal topic has the timestamp of the
// input.
func TestCopiesHaveTheTimeOfWriting(t *testing.T) {
	for _, rekey := range []bool{false, true} {
		t.Run(fmt.Sprintf("rekey %t", rekey), func(t *testing.T) {
			b := newBench(t, 1)
			began := time.Now().Add(-time.Second).UnixMilli()
			recs := append(b.readings(0, 20), b.readings(0, 2)...)
			old := b.readings(0, 1)[0]
			b.n = 0
			late := b.readings(0, 1)[0]
			late.Key = recs[20].Key
			times := []int64{time.Now().Add(3 * time.Hour).UnixMilli(), time.Now().Add(-240 * time.Hour).UnixMilli()}
			recs[20].Value, recs[20].Time = []byte("no Avro"), times[0]
			recs[21].Value, recs[21].Time = []byte("no Avro"), times[1]
			for i := range 30 { // of every series, so that some are late for certain
				r := old
				r.Key = fmt.Appendf(nil, "s%02d", i)
				r.Time = times[i%2]
				recs = append(recs, r)
			}
			late.Time = times[1]
			recs = append(recs, late)
			if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
				t.Fatal(err)
			}
			cfg := b.config("")
			cfg.Mappings.State.Reading.Lateness = 1
			topics := []string{"dlq", "late"}
			if rekey {
				b.makeKeyed(1, nil)
				topics = append(topics, "rekey")
				b.runKeyed(cfg)
			} else {
				b.run(cfg)
			}
			for _, topic := range topics {
				got, err := b.c.Admin().ReadAll(context.Background(), topic, true)
				if err != nil || len(got) == 0 {
					t.Fatalf("%d records in %s (%v)", len(got), topic, err)
				}
				for i := range got {
					if at := got[i].Time; at < began || at > time.Now().UnixMilli() {
						t.Errorf("%s: a record has the timestamp %s", topic, time.UnixMilli(at))
					}
					own := head(&got[i], cycle.TimestampHeader)
					found := false
					for j := range recs {
						found = found || bytes.Equal(recs[j].Value, got[i].Value) && own == fmt.Sprint(recs[j].Time)
					}
					if !found {
						t.Errorf("%s: header %s of %q is %s", topic, cycle.TimestampHeader, got[i].Value, own)
					}
				}
			}
		})
	}
}

// TestRefusedByKafka: as TestRefusedOutput, by Kafka itself, which refuses a record without a key in a compacted topic. And
// a topic that takes records of any time has one three hours ahead and one of ten days ago, which cannot be read.
func TestRefusedByKafka(t *testing.T) {
	b, cfg := newKafkaBench(t, 3, map[string]string{"cleanup.policy": "compact"}, "message.timestamp.after.max.ms", "9223372036854775807")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var recs []kafkatest.Record
	for p, at := range []time.Duration{3 * time.Hour, 0, -240 * time.Hour} {
		recs = append(recs, b.readings(int32(p), 20)...)
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: int32(p), Key: []byte("k"), Value: fmt.Appendf(nil, "bad %d", p),
			Time: time.Now().Add(at).UnixMilli()})
	}
	recs = append(recs, kafkatest.Record{Topic: b.input, Partition: 1, Value: []byte("no key"), Time: time.Now().UnixMilli()})
	_, err := b.c.ProduceAcked(ctx, recs)
	must(t, err)
	p, stop := b.start(cfg)
	waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) > 0 })
	must(t, b.c.Admin().WaitCommittedTo(ctx, cfg.Group, b.input, map[int32]int64{0: 21, 2: 21}))
	if q := quarantined(p); len(q) != 1 || q[0].Partition != 1 || q[0].Quarantine.Reason != Refused {
		t.Errorf("in quarantine: %+v; want partition 1, refused", q)
	}
	stop(nil)
	dead, err := b.c.Admin().ReadAll(ctx, cfg.Outputs[cycle.DeadLetters], true)
	must(t, err)
	seen := map[string]bool{}
	for i := range dead {
		at := time.Since(time.UnixMilli(dead[i].Time))
		if at < 0 || at > 3*time.Minute {
			t.Errorf("the dead letter of %q is %v old", dead[i].Value, at)
		}
		seen[string(dead[i].Value)] = head(&dead[i], cycle.TimestampHeader) == fmt.Sprint(recs[20+21*int(dead[i].Value[4]-'0')].Time)
	}
	if !seen["bad 0"] || !seen["bad 2"] {
		t.Errorf("dead letters and whether they have their records' times: %v", seen)
	}
}
