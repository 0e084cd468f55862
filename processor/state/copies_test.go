package state

import (
	"slices"
	"testing"

	"odradek/processor/state/series"
)

// TestCopies: the fresh rows, times and values of a task are its rows', although the ring has
// moved on.
func TestCopies(t *testing.T) {
	sets := series.NewSets([]series.WindowConfig{{Columns: []int{0, 1}, Fingerprint: 1}},
		[]series.DetectorConfig{{Name: "a", Detector: scorer{4}, Stride: 3, Fingerprint: 2}}, 1<<20)
	set := sets.For(nil)
	sw, d := &set.Windows[0], &set.Windows[0].Detectors[0]
	for _, centers := range [][]float64{nil, {100, 200}} {
		c := copies{fresh: make([]freshRow, 2), times: make([]int64, 3), values: make([]float64, 1)} // of another task
		k := series.NewKey([]byte("k"), set)
		w := &k.Windows[0]
		push := func(from, to int) {
			for i := from; i < to; i++ {
				w.Reserve(sw)
				w.PushRow(sw, int64(10*i), []float64{float64(i), -float64(i)}, false)
			}
		}
		task := pendingTask{Key: k, Detector: d, Valued: true}
		push(0, 7)
		copy(w.Fresh(sw, d), []uint64{8, 11})
		c.add(&task, 0, 13, 4, &packer{centers: centers})
		push(7, 20)
		if got, want := c.Fresh(&task), []freshRow{{40, 4, RowScored}, {50, 5, RowImputed}, {60, 6, RowImputed}}; !slices.Equal(got, want) {
			t.Fatalf("fresh rows %v, not %v", got, want)
		}
		if times := c.Times(&task); !slices.Equal(times, []int64{30, 40, 50, 60}) {
			t.Fatalf("times %v", times)
		}
		if centers == nil {
			centers = []float64{0, 0}
		}
		for i, x := range c.Columns(&task) {
			if x != (column{centers[i], 1}) {
				t.Errorf("column %d is %v", i, x)
			}
		}
		for i, want := range []float64{4, 5, 6} {
			if row := c.Values(&task, i); !slices.Equal(row, []float64{want, -want}) {
				t.Errorf("row %d has %v, not %v", i, row, want)
			}
		}
		for back, want := range []int64{6, 5, 4, 4} { // without an Explainer, only the fresh ones
			if time, row := c.Row(&task, back); time != 10*want || row[1] != -float64(want) {
				t.Errorf("%d rows back it has %v of time %d, not %d", back, row, time, want)
			}
		}
		for time, want := range map[int64]int{60: 0, 51: 0, 50: 1, 0: 2} {
			if back := c.Since(&task, time); back != want {
				t.Errorf("since %d it has %d rows, not %d", time, back, want)
			}
		}
	}
}
