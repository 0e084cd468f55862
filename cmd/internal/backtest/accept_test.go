package backtest

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"odradek/processor/state"
	"odradek/schemas"
)

// TestFilesAccept: rows of a file are read as records are: values that the mapping does not take are missing, and texts are
// times in its zone or layout.
func TestFilesAccept(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name, text string
		m          schemas.Mapping
		times      []string
		values     []float64
		troubles   int
	}{
		{"bounds", "time,v\n1,-9999\n2,3\n3,150.5\n", schemas.Mapping{Fields: []string{"v"}, Valid: []string{"v=..100"}, MissingIf: []string{"v=-9999"}},
			[]string{"1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z", "1970-01-01T00:00:00.003Z"}, []float64{nan, 3, nan}, 0},
		{"zone", "time,v\n2026-01-31 08:00:00,1\n2026-01-31T08:00:00Z,2\n5,3\n", schemas.Mapping{Fields: []string{"v"}, TimeZone: "Asia/Tokyo"},
			[]string{"2026-01-30T23:00:00Z", "2026-01-31T08:00:00Z", "1970-01-01T00:00:00.005Z"}, []float64{1, 2, 3}, 0},
		{"layout", "time,v\n20260131,1\n2026-01-31,2\n", schemas.Mapping{Fields: []string{"v"}, TimeZone: "UTC", TimeLayout: "%Y%m%d"},
			[]string{"2026-01-31T00:00:00Z"}, []float64{1}, 1},
		{"neither", "time,v\n2026-01-31 08:00:00,-9999\n", schemas.Mapping{Fields: []string{"v"}},
			[]string{"2026-01-31T08:00:00Z"}, []float64{-9999}, 0},
	} {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := NewFiles([]string{path}, Options{Mapping: c.m, Workers: 1}, nil, &state.Config{}, "in", 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var times []string
		var values []float64
		err = src.Read(t.Context(), func(_ int, s *Share) error {
			for _, row := range s.Rows {
				times = append(times, time.UnixMicro(s.Block.Times[row]).UTC().Format(time.RFC3339Nano))
				values = append(values, s.Block.Row(int(row))...)
			}
			return nil
		})
		same := slices.EqualFunc(values, c.values, func(a, b float64) bool { return a == b || a != a && b != b })
		if err != nil || !slices.Equal(times, c.times) || !same || len(src.Troubles()) != c.troubles {
			t.Errorf("%s: %v %v, want %v %v; %q, %v", c.name, times, values, c.times, c.values, src.Troubles(), err)
		}
	}
}
