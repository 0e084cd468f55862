package series

import (
	"slices"
	"testing"
)

// TestTables: a cell has its count and its baseline, windows are sums of the tables of their strides, and what changes comes back.
func TestTables(t *testing.T) {
	g := &Grid{Columns: 2, Rows: 2, Count: -1, Baseline: 1, Span: 30, Stride: 10}
	tables := make(Tables, 3*4*3)
	for stride := range int64(3) {
		for cell := range 4 {
			tables[g.Row(10*stride-10, cell)] = uint64(10*stride - 10)
		}
	}
	tables.Add(g.Row(10, 1), 2, 0.5)
	undo := tables.AppendCell(nil, g.Row(10, 1))
	before := slices.Clone(tables)
	tables.Add(g.Row(10, 1), 3, 1)
	tables.Add(g.Row(-10, 1), 7, 0)
	tables.Add(g.Row(0, 3), 1, 2)
	sum := make([]float64, 8)
	if start := tables.Sum(g, sum); start != -10 || !slices.Equal(sum, []float64{0, 0, 12, 1.5, 0, 0, 1, 2}) {
		t.Errorf("the window from %d has %v", start, sum)
	}
	// The table of the stride from 20 takes the place of that from -10.
	saved, then := tables.Append(nil, g, 20), slices.Clone(tables)
	for cell := range 4 {
		tables[g.Row(20, cell)] = 20
		tables.set(g.Row(20, cell), 0, 0)
	}
	clear(sum)
	if start := tables.Sum(g, sum); start != 0 || !slices.Equal(sum, []float64{0, 0, 5, 1.5, 0, 0, 1, 2}) {
		t.Errorf("the window from %d has %v", start, sum)
	}
	if tables.Restore(saved); !slices.Equal(tables, then) {
		t.Errorf("tables %v, not %v", tables, then)
	}
	tables.Add(g.Row(-10, 1), -7, 0)
	tables.Add(g.Row(0, 3), -1, -2)
	if tables.RestoreCell(undo); !slices.Equal(tables, before) {
		t.Errorf("tables %v, not %v", tables, before)
	}
}
