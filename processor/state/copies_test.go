package state

import (
	"math"
	"slices"
	"testing"

	"odradek/processor/state/series"
)

// TestCopies: the times, words and values of a task are its rows', although the ring has
// moved on.
func TestCopies(t *testing.T) {
	sets := series.NewSets([]series.WindowConfig{{Columns: []int{0, 1}, Fingerprint: 1}},
		[]series.DetectorConfig{{Name: "a", Detector: scorer{4}, Stride: 3, Fingerprint: 2}}, 1<<20)
	set := sets.For(nil)
	sw, d := &set.Windows[0], &set.Windows[0].Detectors[0]
	w := new(series.Window)
	push := func(from, to int) {
		for i := from; i < to; i++ {
			w.Reserve(sw)
			w.PushRow(sw, int64(10*i), []float64{float64(i), -float64(i)}, false)
		}
	}
	for _, centers := range [][]float64{nil, {100, 200}} {
		c := copies{words: []uint64{99, 99}} // of another task
		task := pendingTask{Detector: d, at: 2, times: 4, copied: 4}
		push(0, 7)
		c.addTimes(w, 4, 0)
		c.words = append(c.words, 8, 10, 13)
		c.addValues(w, d, 4, centers, nil)
		push(7, 20)
		times, words := c.Times(&task)
		if !slices.Equal(times, []uint64{30, 40, 50, 60}) || !slices.Equal(words, []uint64{8, 10, 13}) {
			t.Fatalf("times %v, words %v", times, words)
		}
		if centers == nil {
			centers = []float64{0, 0}
		}
		for back, want := range []int64{6, 5, 4, 3, 3} {
			if time, row := c.Row(&task, back); time != 10*want || math.Float64frombits(row[1]) != -float64(want) {
				t.Errorf("%d rows back it has %v of time %d, not %d", back, row, time, want)
			}
		}
		for i, want := range []float64{4, 5, 6} {
			at, row := c.Values(&task, i)
			for j, sign := range []float64{1, -1} {
				if got := math.Float64frombits(row[j]); got != sign*want || math.Float64frombits(at[j]) != centers[j] {
					t.Errorf("row %d has %v, not %v, centers %v", i, got, sign*want, at)
				}
			}
		}
	}
}
