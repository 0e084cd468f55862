package ops

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/cmd/bench/testbed"
)

// TestSSTApart: on a rhythm that changes, the scores of IKA-SST are near the scores of SVD-SST, and not the same.
func TestSSTApart(t *testing.T) {
	b := &Bench{Measuring: &testbed.Measuring{Log: io.Discard}, Recordings: t.TempDir()}
	rng := rand.New(rand.NewPCG(1, 2))
	recordings := 0
	for _, s := range rangeSeriesAll() {
		if s.file == "" {
			continue
		}
		recordings++
		f, err := os.Create(filepath.Join(b.Recordings, s.file+".txt.gz"))
		if err != nil {
			t.Fatal(err)
		}
		w := gzip.NewWriter(f)
		for i := range 1200 {
			v := 5e5 + math.Sin(float64(i)*(0.3+0.1*float64(i/300))) + 0.2*rng.NormFloat64()
			fmt.Fprintln(w, v, v)
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.sstApart(context.Background())
	if err != nil || len(rows) != recordings {
		t.Fatalf("%d rows of %d recordings, %v", len(rows), recordings, err)
	}
	for _, r := range rows {
		if !(r.Value > 0.8 && r.Value < 1) || strings.Contains(r.Note, " 0.000 apart") {
			t.Errorf("%+v", r)
		}
	}
}
