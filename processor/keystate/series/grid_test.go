package series

import (
	"math"
	"slices"
	"testing"
)

// TestTable: a cell has its count and its baseline, and both come back.
func TestTable(t *testing.T) {
	table := make(Table, 3*4)
	for i := range 4 {
		table[i] = 77 // the window's start
	}
	table.AddCell(1, 2, 0.5)
	whole := table.Append(nil)
	undo := table.AppendCell(nil, 1)
	table.AddCell(1, 3, 1)
	if c := table.cell(1); math.Float64frombits(c[0]) != 5 || math.Float64frombits(c[1]) != 1.5 {
		t.Errorf("cell 1 has count %v and baseline %v", math.Float64frombits(c[0]), math.Float64frombits(c[1]))
	}
	other := slices.Clone(table)
	if table.RestoreCell(undo); !slices.Equal(table, Table(whole)) {
		t.Errorf("cells %v, not %v", table, whole)
	}
	if other.Restore(whole); !slices.Equal(other, table) {
		t.Errorf("cells %v, not %v", other, whole)
	}
}
