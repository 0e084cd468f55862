package ops

import (
	"context"
	"io"
	"strings"
	"testing"

	"odradek/cmd/bench/testbed"
)

// TestRegions: all algorithms find one rectangle, the hot region, and the benchmark has a row for each.
func TestRegions(t *testing.T) {
	b := &Bench{Measuring: &testbed.Measuring{Quick: true, Log: io.Discard}}
	rows, err := b.Regions(context.Background())
	if err != nil || len(rows) != 2*len(gridFamilies)*len(gridWays) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		if strings.Contains(r.Case, "Poisson n=32") && !strings.Contains(r.Note, "rows 10 to 13, columns 8 to 11;") {
			t.Errorf("%+v", r)
		}
	}
}
