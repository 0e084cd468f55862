package backtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/detectors"
)

// blank is an executor that scores nothing: what is left is reading, folding, judging
// and gathering.
type blank struct{ detectors.Executor }

func (blank) Execute(_ context.Context, b *detectors.Batch) error {
	clear(b.Out)
	return nil
}

// BenchmarkRun reads a Parquet file of 2,000 sensors in order of time and folds it for
// three detectors; an operation is a row.
func BenchmarkRun(b *testing.B) {
	path := filepath.Join(b.TempDir(), "fleet.parquet")
	type row struct {
		Key   string  `parquet:"key,dict"`
		Time  int64   `parquet:"time,timestamp(millisecond),delta"`
		Value float64 `parquet:"value"`
	}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := parquet.NewGenericWriter[row](f, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1<<20))
	rng := rand.New(rand.NewPCG(1, 2))
	rows := 0
	for minute := range 400 {
		buf := make([]row, 2000)
		for s := range buf {
			buf[s] = row{fmt.Sprintf("sensor-%05d", s), int64(minute) * 60_000, rng.NormFloat64()}
		}
		rows += len(buf)
		if _, err := w.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	f.Close()
	c, faults, _ := config.Parse([]string{"ODRADEK_DETECTORS=level,change,near", "ODRADEK_DETECTOR_LEVEL_OP=zscore",
		"ODRADEK_DETECTOR_LEVEL_WINDOW=64",
		"ODRADEK_DETECTOR_CHANGE_OP=ikasst", "ODRADEK_DETECTOR_CHANGE_WINDOW=16", "ODRADEK_DETECTOR_NEAR_OP=knn",
		"ODRADEK_DETECTOR_NEAR_WINDOW=256",
		"ODRADEK_DETECTOR_NEAR_MIN_POINTS=64"})
	if faults = config.FaultsOf(faults, []string{"DETECTOR"}); len(faults) > 0 {
		b.Fatal(faults)
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += rows {
		src, err := NewFiles([]string{path}, table.Options{Mapping: c.SchemaMapping(), Workers: 2}, nil, nil, "t", 64)
		if err != nil {
			b.Fatal(err)
		}
		run := configOf(b, c, src)
		run.Executor = blank{run.Executor}
		if _, err := Run(b.Context(), run); err != nil {
			b.Fatal(err)
		}
	}
}
