package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// The command's idea of a changelog key is the one of package state.
func TestRecordKeys(t *testing.T) {
	det, err := simple.NewZScore(600)
	if err != nil {
		t.Fatal(err)
	}
	s := state.New(
		&state.Config{
			Dim:       1,
			Reading:   rules.Reading{Order: rules.Order{Lateness: 3000}},
			Windows:   []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
			Detectors: []series.DetectorConfig{{Name: "x", Detector: det, Stride: 1, Fingerprint: 2}},
		},
	)
	exec := detectors.NewCPU(1)
	b := exec.Batch()
	s.Mark(0)
	for i := range int64(6000) {
		key := fmt.Sprintf("series/%d", i%3)
		s.Fold(&state.Sample{Key: []byte(key), Time: i, Offset: i, Values: []float64{float64(i * i % 17)}}, b)
		if err := exec.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
		s.Mark(i + 1)
		if err := s.Snapshot(0, -1, func(_, _ []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Committed(i + 1)
	}
	s.Decide(state.MissingSchema, []byte("a schema"), []byte("none"), 6000)
	s.Mark(6001)
	kinds := map[string]int{}
	err = s.Snapshot(1<<40, 1<<30, func(key, value []byte) error {
		kind, series, numbers := splitRecordKey(string(key))
		kinds[kind]++
		if kind == "decision" {
			if series != "" || !slices.Equal(numbers, []uint64{uint64(state.MissingSchema), 6000}) {
				t.Errorf("decision of %q with %v", series, numbers)
			}
			return nil
		}
		if !strings.HasPrefix(series, "series/") || len(series) != len("series/0") {
			t.Errorf("key %q is a %s of %q with %v", key, kind, series, numbers)
		}
		return nil
	})
	if err != nil || kinds["head"] != 3 || kinds["segment"] == 0 || kinds["held samples"] == 0 || kinds["decision"] != 1 ||
		kinds["unknown"] > 0 {
		t.Errorf("%v, %v", kinds, err)
	}
}
