package cycle

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

func withRows(rows []state.Row) *state.State {
	var s state.State
	s.Rows = rows
	return &s
}

// TestRunsHaveTheScoresOfRecords: the runs of some Writes have, by series and detector, the scores of single records in their order,
// each once; a run is of one series and detector.
func TestRunsHaveTheScoresOfRecords(t *testing.T) {
	rng := seedtest.New(t)
	now := time.Unix(1700000000, 0)
	for round := range 40 {
		id := []int32{1, output.SingleObject, output.JSON}[rng.IntN(3)]
		numbered, mode, limit := rng.IntN(2) == 0, ScoresMode(rng.IntN(2)), []int{900_000, 900_000, 700}[rng.IntN(3)]
		if id == output.JSON {
			limit += 600
		}
		cfg := &state.Config{}
		for _, name := range []string{"level", "near", "flat"}[:1+rng.IntN(3)] {
			cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{Name: name})
		}
		if numbered {
			cfg.SampleBits = uint8(rng.IntN(2)) * state.SeveralBits
		}
		topics := &Topics{}
		topics.Outputs[Scores] = Topic{Name: "scores", Partitions: 3, BatchBytes: limit}
		p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
		writer := func(runs bool) *Writer {
			carried := NewCarried([]string{"traceparent"})
			if !runs {
				carried = NewCarried(nil)
			}
			w := NewWriter(topics, kafka.TP{Topic: "in", Partition: 2}, cfg, &SchemaIDs{Scores: id}, mode, carried)
			if numbered {
				w.Number()
			}
			if runs {
				w.Runs()
			}
			return w
		}
		var keys []*state.Key
		set := &series.Set{}
		for i := range 1 + rng.IntN(4) {
			keys = append(keys, series.NewKey(fmt.Appendf(nil, "press-%d", i), set))
		}
		// chunks are the rows of some Writes.
		var chunks [][]state.Row
		offset := rng.Int64N(1e6)
		for range 1 + rng.IntN(4) {
			rows := make([]state.Row, rng.IntN(400))
			for i := range rows {
				offset += rng.Int64N(3)
				rows[i] = state.Row{Key: keys[rng.IntN(len(keys))], Detector: rng.Int32N(int32(len(cfg.Detectors))), Exceeds: rng.IntN(5) == 0,
					Score: float32(rng.NormFloat64()), Offset: offset, Time: offset * 1e6, About: offset*1e6 - rng.Int64N(1e7)}
				if rng.IntN(4) == 0 {
					rows[i].State, rows[i].Score, rows[i].Remaining = 1, float32(math.NaN()), 1+rng.Int32N(300)
				}
			}
			chunks = append(chunks, rows)
		}
		type scoresOf struct{ series, detector string }
		read := func(w *Writer, most int) (all map[scoresOf][]string, records int) {
			for _, rows := range chunks {
				if _, err := w.Write(p, withRows(rows), &metrics.Work{}, now); err != nil {
					t.Fatal(err)
				}
			}
			all = map[scoresOf][]string{}
			for i := range p.sinks[Scores] {
				if p.sinks[Scores][i].b == nil {
					continue
				}
				for _, value := range valuesOf(t, p.sinks[Scores][i].b) {
					list, err := output.DecodeScores(nil, []byte(value))
					if err != nil || len(list) == 0 || len(list) > most {
						t.Fatalf("%d scores, %v", len(list), err)
					}
					records++
					for _, s := range list {
						who := scoresOf{string(s.Key), s.Detector}
						if who.series != string(list[0].Key) || int(kafka.Partition(s.Key, 3)) != i {
							t.Fatalf("%q in partition %d", s.Key, i)
						}
						sample := int32(-1)
						if s.Sample != nil {
							sample, s.Sample = *s.Sample, nil
						}
						all[who] = append(all[who], fmt.Sprint(sample, s))
					}
				}
			}
			p.Reset()
			return all, records
		}
		want, scores := read(writer(false), 1)
		w := writer(true)
		got, runs := read(w, output.MaxRun)
		again, _ := read(w, output.MaxRun) // what is linked is of the present Write
		for who, list := range want {
			if !slices.Equal(got[who], list) || !slices.Equal(again[who], list) {
				t.Fatalf("round %d: of %v there are\n%s\nwant\n%s", round, who, strings.Join(got[who], "\n"), strings.Join(list, "\n"))
			}
		}
		if len(got) != len(want) || limit > 10_000 && runs > len(chunks)*len(keys)*3+scores/output.MaxRun {
			t.Fatalf("%d scores of %d series and detectors are %d runs of %d", scores, len(want), runs, len(got))
		}
	}
}

// TestRunThatDoesNotFit: the error names the topic, and the next Write has nothing of the one that failed.
func TestRunThatDoesNotFit(t *testing.T) {
	cfg := &state.Config{Detectors: []series.DetectorConfig{{Name: "level"}, {Name: "near"}}}
	topics := &Topics{}
	topics.Outputs[Scores] = Topic{Name: "scores", Partitions: 1, BatchBytes: 200}
	p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
	w := NewWriter(topics, kafka.TP{Topic: "in"}, cfg, &SchemaIDs{Scores: 1}, ScoresAll, NewCarried(nil))
	w.Runs()
	key := series.NewKey([]byte("press-7"), &series.Set{})
	rows := []state.Row{{Key: key}, {Key: key}, {Key: key, Detector: 1}}
	_, err := w.Write(p, withRows(rows), &metrics.Work{}, time.Unix(0, 0))
	if !errors.Is(err, record.ErrTooLarge) || !strings.Contains(err.Error(), "does not fit topic scores") {
		t.Fatal(err)
	}
	p.Reset()
	topics.Outputs[Scores].BatchBytes = 10_000
	if _, err := w.Write(p, withRows(rows[:1]), &metrics.Work{}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if values := valuesOf(t, p.sinks[Scores][0].b); len(values) != 1 {
		t.Errorf("%d records", len(values))
	} else if list, err := output.DecodeScores(nil, []byte(values[0])); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
