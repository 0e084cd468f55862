package discord

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"odradek/detectors"
)

// runDiscords executes a detector's tasks of stride fresh rows over a series of one value, as its
// owner would, and returns the findings of each, their rows counted in the series.
func runDiscords(t *testing.T, d detectors.Detector, x []float64, stride int) (all [][]detectors.Finding) {
	t.Helper()
	e := detectors.NewCPU(2)
	defer e.Close()
	var carry detectors.Words
	for end := stride; end <= len(x); end += stride {
		rows := min(end, d.Window()+stride-1)
		size, ok := d.Size(detectors.View{Dim: 1, Rows: rows, Fresh: stride})
		if !ok {
			continue
		}
		b := e.Batch()
		task := detectors.Task{Op: d.Op(), Dim: 1, Fresh: uint32(stride), Params: b.Put(d.Params())}
		var to []float64
		task.X, to = b.GrowF64(rows)
		copy(to, x[end-rows:end])
		if len(carry) > 0 {
			task.Carry = b.Put(carry)
		}
		b.GrowOutputs(&task, size)
		b.Tasks = append(b.Tasks, task)
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		r := b.Rows(0)
		found := d.AppendFindings(nil, r)
		media, block := d.(detectors.Blocker).Block(r)
		if media != MediaType || len(block) > detectors.MaxBlock || new(Heatmap).UnmarshalBinary(block) != nil {
			t.Fatalf("a block of %d bytes, %q", len(block), media)
		}
		best := make([]float32, stride)
		for i := range found {
			f := &found[i]
			if f.To-f.From+1 != f.Length || f.Fresh != max(0, f.To-rows+stride) || f.Rank < 1 || !(f.Score >= 0 && f.Score <= 2) {
				t.Fatalf("finding %+v", *f)
			}
			best[f.Fresh] = max(best[f.Fresh], float32(f.Score))
			f.From += end - rows
			f.To += end - rows
		}
		for i, s := range r.Scores {
			if !(s == best[i] || s != s && best[i] == 0) {
				t.Fatalf("the score of fresh row %d is %v, its findings have %v at most", i, s, best[i])
			}
		}
		all, carry = append(all, found), append(detectors.Words(nil), r.Next...)
		e.Release(b)
	}
	return all
}

func TestDiscordsAreReportedOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, stride = 1200, 20
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Sin(float64(i)*0.3) + 0.05*rng.NormFloat64()
	}
	for i := range 8 {
		x[700+i] += 3
	}
	for _, tumbling := range []bool{false, true} {
		p := TopParams{Window: 300, MinLength: 12, MaxLength: 20, Step: 4, Top: 2, Tumbling: tumbling}
		s := stride
		if tumbling {
			s = p.Window
		}
		seen := map[int][]detectors.Finding{}
		covered := 0
		for task, found := range runDiscords(t, detectors.Must(NewTop(p)), x, s) {
			if task == 0 && len(found) == 0 {
				t.Error("nothing in the first window")
			}
			for _, f := range found {
				for _, o := range seen[f.Length] {
					if f.From <= o.To && o.From <= f.To && !(tumbling && f.From/p.Window != o.From/p.Window) {
						t.Errorf("tumbling %v: %+v was reported as %+v", tumbling, f, o)
					}
				}
				seen[f.Length] = append(seen[f.Length], f)
				if f.From <= 707 && f.To >= 700 {
					covered++
					if f.Rank == 1 && f.Score < 0.2 {
						t.Errorf("tumbling %v: the fault is found as %+v", tumbling, f)
					}
				}
			}
		}
		if covered < 3 || len(seen) != 3 {
			t.Errorf("tumbling %v: the fault is in %d findings of %d lengths", tumbling, covered, len(seen))
		}
	}
}

func TestDiscordsFaults(t *testing.T) {
	_, err := NewTop(TopParams{Window: 100, MinLength: 2, MaxLength: 60, Step: -1, Top: 40, K: 65, Exclusion: 65, Precision: 48})
	for _, want := range []string{"least length is 2", "no neighbour in windows of 100", "40 discords", "k is 65", "1/65", "48 bits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for _, p := range []TopParams{
		{Window: 3, MinLength: 3}, {Window: 100, MinLength: 10, MaxLength: 9}, {Window: 100_000, MinLength: 3, MaxLength: 2000},
		{Window: MaxTopWindow + 1, MinLength: 3},
	} {
		if _, err := NewTop(p); err == nil {
			t.Errorf("%+v has no fault", p)
		}
	}
}

// TestDiscordsBlock requires that the heatmap of a task has its discords at their places, and nothing
// else.
func TestDiscordsBlock(t *testing.T) {
	p := TopParams{Window: 1000, MinLength: 20, MaxLength: 40, Step: 20}
	d := detectors.Must(NewTop(p)).(*topDetector)
	size, _ := d.Size(detectors.View{Dim: 1, Rows: 1009, Fresh: 10})
	r := detectors.Rows{Dim: 1, Fresh: 10, X64: make([]float64, 1009), Params: d.Params(), Detail: make(detectors.Words, size.Detail)}
	d.set.write(&r, 0, 9, nil)
	if _, block := d.Block(detectors.Rows{Dim: 1, Fresh: 1, X64: r.X64[:30], Params: d.Params(), Detail: r.Detail}); block != nil {
		t.Error("a block of a window that is too short")
	}
	d.set.write(&r, 1, 9, []Discord{{At: 500, Length: 40, Distance: math.Sqrt(80), Nearest: 7}})
	_, block := d.Block(r)
	var h Heatmap
	if err := h.UnmarshalBinary(block); err != nil || h.Rows != 2 || h.Columns != 981 {
		t.Fatalf("%d rows and %d columns: %v", h.Rows, h.Columns, err)
	}
	for i := range h.Columns {
		if v := h.value(1, i); h.value(0, i) == h.value(0, i) || (v == 1) != (i >= 500 && i < 540) {
			t.Fatalf("column %d has %v and %v", i, h.value(0, i), v)
		}
	}
}
