package state

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/processor/state/series"
)

// scorer scores full windows. Its carry is one word.
type scorer struct{ window int }

func (s scorer) Op() detectors.Op        { return simple.OpZScore }
func (s scorer) Params() detectors.Words { return detectors.Words{7} }
func (s scorer) Window() int             { return s.window }

func (s scorer) Size(v detectors.View) (detectors.Outputs, bool) {
	return detectors.Outputs{Scores: v.Fresh, Carry: 1}, v.Rows-v.Fresh+1 >= s.window
}

func (s scorer) AppendFindings(dst []detectors.Finding, _ detectors.Rows) []detectors.Finding {
	return dst
}

// wantedTask is what a queue should have.
type wantedTask struct {
	key    int // index of the series; of a function its number
	index  int32
	offset int64     // of the newest row
	words  []uint64  // of the fresh rows
	values []float64 // of the window
}

// TestQueue: tasks come in the order in which they were added, with the offsets, the rows
// and the tasks before them of their own series, from batch to batch and where the numbers of
// tasks overflow.
func TestQueue(t *testing.T) {
	r := seedtest.New(t)
	for range 50 {
		window, stride := 1+r.IntN(60), 1+r.IntN(5)
		sets := series.NewSets([]series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
			[]series.DetectorConfig{{Name: "a", Detector: scorer{window}, Stride: stride, Fingerprint: 2}}, 1<<20)
		set := sets.For(nil)
		sw, d := &set.Windows[0], &set.Windows[0].Detectors[0]
		keys := make([]*Key, 1+r.IntN(5))
		past := make([][]float64, len(keys))
		for i := range keys {
			keys[i] = series.NewKey(fmt.Append(nil, i), set)
		}
		q, b := newTaskQueue(sets.Setups, new(int64), false), &detectors.Batch{}
		q.numbered = uint32(math.MaxUint32 - r.IntN(200))
		var want []wantedTask
		called, defers := []int(nil), 0
		for offset := range int64(1000) {
			if r.IntN(50) == 0 {
				checkQueue(t, &q, b, want, keys)
				for i := range q.Pending() {
					if p := &q.Pending()[i]; p.Index == taskDeferred {
						q.Do(p)
					}
				}
				q.Drop()
				b.Reset()
				if want = want[:0]; len(called) != defers || !slices.IsSorted(called) {
					t.Fatalf("%d functions, called were %v", defers, called)
				}
			}
			if r.IntN(20) == 0 {
				n := defers
				defers++
				q.Defer(func() { called = append(called, n) })
				want = append(want, wantedTask{key: n, index: taskDeferred})
			}
			i := r.IntN(len(keys))
			k, v := keys[i], 1e6+r.NormFloat64()
			w, m := &k.Windows[0], &k.Progress[0]
			k.LastTime, k.LastOffset, past[i] = 2*offset, offset, append(past[i], v)
			w.Reserve(sw)
			w.PushValue(sw, k.LastTime, v)
			word := uint64(offset) << 1
			switch {
			case w.Rows < d.MinRows:
				q.WarmUp(k, d, k.LastTime, offset, int32(3*offset))
				want = append(want, wantedTask{key: i, index: taskWarmingUp, offset: offset})
			case m.Fresh+1 < d.Fresh:
				w.Fresh(sw, d)[m.Fresh] = word
				m.Fresh++
			default:
				words := append(slices.Clone(w.Fresh(sw, d)[:m.Fresh]), word)
				q.Pack(k, 0, d, word, b)
				m.Fresh = 0
				full := past[i][max(0, len(past[i])-int(d.Full)):]
				want = append(want, wantedTask{i, int32(len(b.Tasks)) - 1, offset, words, slices.Clone(full)})
			}
		}
		checkQueue(t, &q, b, want, keys)
	}
}

// checkQueue compares the queue with what it should have, and X with the windows, whose
// values are within some units of each other.
func checkQueue(t *testing.T, q *taskQueue, b *detectors.Batch, want []wantedTask, keys []*Key) {
	t.Helper()
	got := q.Pending()
	if len(got) != len(want) || q.Empty() != (len(want) == 0) {
		t.Fatalf("%d tasks, not %d", len(got), len(want))
	}
	last := map[int]int{} // index into want of the last task, by series
	for i := range want {
		if want[i].index >= 0 {
			last[want[i].key] = i
		}
	}
	before := map[int]uint32{} // After of the next task, by series
	for i := range want {
		e, p := &want[i], &got[i]
		if p.Index != e.index || e.index != taskDeferred && p.Key != keys[e.key] {
			t.Fatalf("task %d is %d of series %s, not %d of %d", i, p.Index, p.Key.Name(), e.index, e.key)
		}
		if e.index == taskWarmingUp {
			if got, want := q.copies.warm[p.place], (warmRow{2 * e.offset, e.offset, int32(3 * e.offset)}); got != want {
				t.Fatalf("task %d has %v, not %v", i, got, want)
			}
		}
		if e.index < 0 {
			continue
		}
		fresh, times := q.copies.Fresh(p), q.copies.Times(p)
		if !slices.EqualFunc(fresh, e.words, func(f freshRow, word uint64) bool { return f == freshOf(2*int64(word>>1), word) }) ||
			times[len(times)-1] != 2*e.offset {
			t.Fatalf("task %d has %v, not %v, and times %v", i, fresh, e.words, times)
		}
		if is := last[e.key] == i; q.Last(i, &keys[e.key].Progress[0]) != is {
			t.Fatalf("task %d is the last one of its series: %v", i, !is)
		}
		if after := b.Tasks[e.index].After; after != before[e.key] {
			t.Fatalf("task %d comes after task %d, not %d", i, after, before[e.key])
		}
		before[e.key] = uint32(e.index) + 1
		x := b.Rows(int(e.index)).X
		if len(x) != len(e.values) {
			t.Fatalf("task %d has %d rows, not %d", i, len(x), len(e.values))
		}
		for j := range x {
			if d := float64(x[j]-x[0]) - (e.values[j] - e.values[0]); math.Abs(d) > 1e-5 {
				t.Fatalf("task %d: row %d is off by %v", i, j, d)
			}
		}
	}
}
