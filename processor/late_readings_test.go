package processor

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// lateSamples returns the numbers of the late samples that the headers of a late record name.
func lateSamples(t *testing.T, r *kafkatest.Record) (numbers []int) {
	t.Helper()
	text, _ := r.Header("odradek.late.samples")
	for part := range strings.SplitSeq(string(text), ",") {
		first, last, run := strings.Cut(part, "-")
		if !run {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || to < from || len(numbers) > 0 && from <= numbers[len(numbers)-1] {
			t.Fatalf("late samples %q", text)
		}
		for i := from; i <= to; i++ {
			numbers = append(numbers, i)
		}
	}
	if count, _ := r.Header("odradek.late.count"); string(count) != strconv.Itoa(len(numbers)) {
		t.Fatalf("%s late samples, and %q", count, text)
	}
	return numbers
}

// smallBatches has batches of few tasks, so that what a vote decides does not fit one.
type smallBatches struct{ detectors.Executor }

func (s smallBatches) Batch() *detectors.Batch {
	b := s.Executor.Batch()
	b.MaxTasks = 4
	return b
}

// TestLateReadings: a record with late readings is in the topic of late records once, with the numbers of those readings, and they
// are as many as are counted, also where cycles are rolled back and replayed. Some of the records are suspects first, several at a time
// and with late readings among them, and are accepted later.
func TestLateReadings(t *testing.T) {
	for _, lateness := range []int64{400_000, 0} {
		t.Run(fmt.Sprint(lateness), func(t *testing.T) { testLateReadings(t, lateness) })
	}
}

func testLateReadings(t *testing.T, lateness int64) {
	b := newBench(t, 2)
	m := schemas.Mapping{Key: "points.s", Time: "points.at", Fields: []string{"points.v"}, Readings: "points"}
	dec, err := formats.NewDecoder(m, nil, formats.Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	const start = 1_700_000_000_000
	at := [2]int64{start, start}
	late := map[[2]int64]int{} // by partition and offset: readings that are late for sure
	next := [2]int64{}
	produce := func(n int) {
		var recs []kafkatest.Record
		record := func(p int, times []int64, slow int64) {
			var points []string
			for _, at := range times {
				if lateness == 0 && b.rng.IntN(2) == 0 { // of series that are far behind the others, and not late
					points = append(points, fmt.Sprintf(`{"s":%d,"at":%d,"v":%v}`, 10+b.rng.IntN(4), slow+b.rng.Int64N(10), b.rng.NormFloat64()))
				}
				points = append(points, fmt.Sprintf(`{"s":%d,"at":%d,"v":%v}`, b.rng.IntN(3), at, b.rng.NormFloat64()))
			}
			recs = append(recs, kafkatest.Record{Topic: b.input, Partition: int32(p), Time: start,
				Value: fmt.Appendf(nil, `{"points":[%s]}`, strings.Join(points, ","))})
			next[p]++
		}
		for i := range n {
			p := i % 2
			leap := i > 40 && b.rng.IntN(40) == 0
			before := at[p]
			if leap {
				at[p] += 300_000
			}
			rounds := 1
			if leap {
				rounds = 14 // enough to agree
			}
			for round := range rounds {
				at[p] += 50
				var times []int64
				for range 1 + b.rng.IntN(12) {
					when := at[p] + b.rng.Int64N(100)
					if next[p] > 20 && b.rng.IntN(6) == 0 {
						when = before - 20_000 - b.rng.Int64N(500)
						late[[2]int64{int64(p), next[p]}]++
					}
					times = append(times, when)
				}
				times = append(times, at[p])
				record(p, times, before-20_250+int64(round*30))
			}
		}
		if _, err := b.c.ProduceAcked(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
	}
	var h handovers
	config := func() Config {
		cfg := b.config("one")
		cfg.Mappings.Decoder, cfg.Numbered, cfg.Executor = dec, true, smallBatches{cfg.Executor}
		cfg.Mappings.State.SampleBits, cfg.Mappings.State.Reading.Lateness, cfg.Mappings.State.Reading.MaxJump = state.SeveralBits, lateness, 60e6
		h.record(&cfg)
		return cfg
	}
	h.refuse(b)
	counted, suspects := int64(0), int64(0)
	for range 4 {
		produce(200)
		h.run(t, 2, func() {
			cfg := config()
			b.run(cfg)
			counted += int64(gathered(t, cfg.Metrics, "odradek_records_late_total"))
			suspects += int64(gathered(t, cfg.Metrics, "odradek_suspects_total"))
		})
	}
	topic := b.config("one").Outputs[cycle.Late]
	published, several, seen := int64(0), 0, map[[2]int64]bool{}
	for _, r := range b.read(topic) {
		partition, _ := r.Header("odradek.source.partition")
		offset, _ := r.Header("odradek.source.offset")
		p, _ := strconv.ParseInt(string(partition), 10, 64)
		o, _ := strconv.ParseInt(string(offset), 10, 64)
		numbers := lateSamples(t, &r)
		published += int64(len(numbers))
		if len(numbers) > 1 {
			several++
		}
		if want := late[[2]int64{p, o}]; seen[[2]int64{p, o}] || len(numbers) < want || lateness > 0 && want == 0 {
			t.Errorf("%d/%d: %d late readings, at least %d expected; there before: %v", p, o, len(numbers), want, seen[[2]int64{p, o}])
		}
		seen[[2]int64{p, o}] = true
		delete(late, [2]int64{p, o})
	}
	if len(late) > 0 || published != counted || several < 50 || suspects < 100 || h.refused == 0 {
		t.Errorf("%v are missing; %d readings published, %d counted; %d records with several, %d suspects, %d commits "+
			"refused", late, published, counted, several, suspects, h.refused)
	}
}
