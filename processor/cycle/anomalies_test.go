package cycle

import (
	"maps"
	"math"
	"testing"
	"time"

	"odradek/processor/anomaly"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

func TestAnomalyNamesItsField(t *testing.T) {
	cfg := &state.Config{Detectors: []series.DetectorConfig{{Name: "d", Fields: []string{"a", "b[0]", "b[1]"}}}}
	for _, c := range []struct {
		name     string
		detector int32
		share    []float64
		kind     anomaly.Kind
		reason   anomaly.Reason
		want     string
	}{
		{"the largest share", 0, []float64{0.1, 0.2, 0.7}, anomaly.Open, 0, "b[1]"},
		{"equal shares", 0, []float64{0.2, 0.4, 0.4}, anomaly.Update, 0, "b[0]"},
		{"not a number", 0, []float64{0.2, math.NaN(), 0.4}, anomaly.Close, anomaly.Recovered, "b[1]"},
		{"not a number, first", 0, []float64{math.NaN(), 0.2, 0.4}, anomaly.Open, 0, "b[1]"},
		{"no numbers", 0, []float64{math.NaN(), math.NaN(), math.NaN()}, anomaly.Open, 0, ""},
		{"no shares", 0, nil, anomaly.Open, 0, ""},
		{"another number of fields", 0, []float64{1}, anomaly.Open, 0, ""},
		{"state of other fields", 0, []float64{0.1, 0.2, 0.7}, anomaly.Close, anomaly.Reset, ""},
		{"silence", state.SilenceDetector, nil, anomaly.Open, 0, ""},
		{"a detector that is gone", state.RemovedDetector, []float64{1, 0, 0}, anomaly.Close, anomaly.DetectorRemoved, ""},
	} {
		row := state.EventRow{Key: &state.Key{}, Detector: c.detector, Name: "d", Change: anomaly.Change{Kind: c.kind, Reason: c.reason}}
		row.Change.Anomaly.Contribution, row.Change.Anomaly.Rank = c.share, 0.25
		if a := AnomalyRecord(&row, cfg); a.Field != c.want || a.Rank != 0.25 {
			t.Errorf("%s: field %q, rank %v, want %q", c.name, a.Field, a.Rank, c.want)
		}
	}
	cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{Name: "any", Fields: []string{"d", "e"}})
	for member, want := range map[string]string{"d": "a", "gone": ""} {
		row := state.EventRow{Key: &state.Key{}, Detector: 1, Name: "any", Change: anomaly.Change{Anomaly: anomaly.Anomaly{
			Contribution: []float64{1, 0, 0}, Leader: &anomaly.Leader{Member: member, Score: 9, Threshold: 3, Samples: 4, PeakTime: 5}}}}
		wantMember := output.Member{Name: member, Score: 9, Threshold: 3, Samples: 4, PeakTime: 5}
		if a := AnomalyRecord(&row, cfg); a.Field != want || *a.Member != wantMember {
			t.Errorf("member %s: field %q, want %q; %+v", member, a.Field, want, a.Member)
		}
	}
	if a := AnomalyRecord(&state.EventRow{Key: &state.Key{}, Detector: -1}, cfg); a.Rank == a.Rank {
		t.Errorf("the rank of a silence is %v", a.Rank)
	}
}

// TestCountsOfChanges: changes are counted by detector and kind, those in shadow mode apart, marked ones twice.
func TestCountsOfChanges(t *testing.T) {
	topics := &Topics{}
	for i, to := range changeTopics {
		topics.Outputs[to] = Topic{Name: string(rune('a' + i)), Partitions: 1, BatchBytes: 1 << 16}
	}
	p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
	w := NewWriter(topics, kafka.TP{Topic: "in"}, &state.Config{}, &SchemaIDs{}, ScoresAll, NewCarried(nil))
	row := func(kind anomaly.Kind, shadow bool, like *anomaly.Like) (row state.EventRow) {
		row = state.EventRow{Key: &state.Key{}, Detector: state.SilenceDetector, Name: "d", Change: anomaly.Change{Kind: kind}}
		row.Change.Anomaly.Shadow, row.Change.Anomaly.Like = shadow, like
		return row
	}
	like := &anomaly.Like{Count: 3}
	var work metrics.Work
	var s state.State
	s.Events = []state.EventRow{row(anomaly.Open, false, nil), row(anomaly.Open, false, like), row(anomaly.Close, false, like),
		row(anomaly.Open, true, nil)}
	if _, err := w.Write(p, &s, &work, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want metrics.Changes }{
		"changes": {work.Counts.Changes, metrics.Changes{"d": {2, 0, 1}}},
		"shadow":  {work.Counts.Shadow, metrics.Changes{"d": {1}}},
		"marked":  {work.Counts.Marked, metrics.Changes{"d": {1, 0, 1}}},
	} {
		if !maps.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
