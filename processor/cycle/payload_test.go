package cycle

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// valuesOf reads the values of the records in batches.
func valuesOf(t *testing.T, b *record.Batches) (values []string) {
	t.Helper()
	var it record.Iterator
	for i := range b.Finish() {
		it.Reset(&record.Chunk{Raw: b.Seal(i, -1, -1, -1, false)[record.SizePrefix:]})
		for it.Next() {
			values = append(values, string(it.Record().Value))
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

// TestPayloadShared: the writers of several partitions add to one payload at the same time;
// each record is in it once, in the partition of its key, and in the numbers of the cycle.
func TestPayloadShared(t *testing.T) {
	rng := seedtest.New(t)
	topics := &Topics{changelogs: map[string]*Topic{"in": {Name: "log", Partitions: 8, BatchBytes: 4 << 10}}}
	topics.Outputs[DeadLetters] = Topic{Name: "dlq", Partitions: 1 + rng.IntN(4), BatchBytes: 4 << 10}
	topics.Outputs[Late] = Topic{Name: "late", Partitions: 1 + rng.IntN(4), BatchBytes: 4 << 10}
	p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
	for range 2 { // again after Reset
		const writers, each = 8, 200
		var wg sync.WaitGroup
		for part := range int32(writers) {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
			wg.Go(func() {
				tp := kafka.TP{Topic: "in", Partition: part}
				w := NewWriter(topics, tp, &state.Config{}, &SchemaIDs{}, ScoresAll, NewCarried(nil))
				var s state.State
				for i := range each {
					id := strconv.Itoa(int(part)*each + i)
					rec := &record.Record{Offset: int64(i), Key: []byte(strconv.Itoa(rng.IntN(5))), Value: []byte(id)}
					if i%2 == 0 {
						w.Late(rec, nil)
					} else {
						w.DeadLetter(rec, "malformed", "no reason", "")
					}
					if _, err := w.Write(p, &s, &metrics.Work{}, time.Unix(0, 0)); err != nil {
						t.Error(err)
					}
					w.Reset()
					if err := p.Changelog(tp, func(b *record.Batches) error { return b.Append(0, rec.Key, rec.Value, nil) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		outs, logs := p.Batches()
		seen := map[string]int{}
		for tp, b := range outs {
			for _, v := range valuesOf(t, b) {
				if id, _ := strconv.Atoi(v); (tp.Topic == "late") != (id%2 == 0) {
					t.Errorf("record %s is in %s", v, tp)
				}
				seen[v]++
			}
		}
		for tp, b := range logs {
			if n := len(valuesOf(t, b)); n != each || tp.Topic != "log" {
				t.Errorf("%s has %d records of %d", tp, n, each)
			}
		}
		if len(seen) != writers*each || len(logs) != writers {
			t.Errorf("%d records of %d, %d changelog partitions", len(seen), writers*each, len(logs))
		}
		for v, n := range seen {
			if n != 1 {
				t.Errorf("record %s is there %d times", v, n)
			}
		}
		var stats metrics.CycleStats
		p.Stats(&stats)
		if stats.Outputs["late"] != writers*each/2 || stats.Outputs["dlq"] != writers*each/2 || stats.ChangelogRecords != writers*each {
			t.Errorf("the numbers of the cycle are %+v", stats)
		}
		p.Reset()
	}
}

// TestOrigins: of each batch it is known of which input partitions its records are; once a topic is apart, each is of one.
func TestOrigins(t *testing.T) {
	rng := seedtest.New(t)
	topics := NewTopics()
	topics.Outputs[DeadLetters] = Topic{Name: "dlq", Partitions: 1 + rng.IntN(3), BatchBytes: 2 << 10}
	p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
	var s state.State
	var writers []*Writer
	for part := range int32(3) {
		writers = append(
			writers,
			NewWriter(topics, kafka.TP{Topic: "in", Partition: part}, &state.Config{}, &SchemaIDs{}, ScoresAll, NewCarried(nil)),
		)
	}
	for _, apart := range []bool{false, true, false} {
		topics.Outputs[DeadLetters].Apart = apart
		shared := 0
		for range 60 {
			w := writers[rng.IntN(3)]
			for range rng.IntN(6) {
				w.DeadLetter(&record.Record{Key: []byte(strconv.Itoa(rng.IntN(9))), Value: []byte(w.tp.String())}, "malformed", "no reason", "")
			}
			if _, err := w.Write(p, &s, &metrics.Work{}, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			w.Reset()
		}
		out, _ := p.Batches()
		for tp, b := range out {
			for i := range b.Finish() {
				want := map[string]bool{}
				var it record.Iterator
				it.Reset(&record.Chunk{Raw: b.Seal(i, -1, -1, -1, false)[record.SizePrefix:]})
				for it.Next() {
					want[string(it.Record().Value)] = true
				}
				got := p.Origins(tp, i)
				for _, input := range got {
					if !want[input.String()] {
						t.Errorf("%s, batch %d: %v, want %v", tp, i, got, want)
					}
				}
				if len(got) != len(want) || apart && len(got) != 1 {
					t.Errorf("%s, batch %d: %v, want %v, apart %t", tp, i, got, want, apart)
				}
				if len(got) > 1 {
					shared++
				}
			}
		}
		if !apart && shared == 0 {
			t.Error("no batch is of several partitions")
		}
		p.Reset()
	}
}
