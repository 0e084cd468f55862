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
		none := block == nil && len(found) == 0 && d.(*topDetector).p.Radius > 0 // no range discord, no heatmap
		if !none && (media != MediaType || len(block) > detectors.MaxBlock || new(Heatmap).UnmarshalBinary(block) != nil) {
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
		if v := h.Value(1, i); h.Value(0, i) == h.Value(0, i) || (v == 1) != (i >= 500 && i < 540) {
			t.Fatalf("column %d has %v and %v", i, h.Value(0, i), v)
		}
	}
	// A range discord has its own place alone.
	p.Radius = Auto
	d = detectors.Must(NewTop(p)).(*topDetector)
	size, _ = d.Size(detectors.View{Dim: 1, Rows: 1009, Fresh: 10})
	r.Params, r.Detail = d.Params(), make(detectors.Words, size.Detail)
	s := settingsFor(&r)
	s.writeRanged(&r, 0, 9, Ranged{Radius: 1})
	s.writeRanged(&r, 1, 9, Ranged{Radius: 1, Count: 1, Found: []Discord{{At: 500, Length: 40, Distance: math.Sqrt(80)}}})
	_, block = d.Block(r)
	if err := h.UnmarshalBinary(block); err != nil {
		t.Fatal(err)
	}
	for i := range h.Columns {
		if v := h.Value(1, i); h.Value(0, i) == h.Value(0, i) || (v == 1) != (i == 500) {
			t.Fatalf("column %d of a range discord has %v and %v", i, h.Value(0, i), v)
		}
	}
}

// TestRangedFindings requires that each range discord is reported when its last sample is fresh, and the first window's at
// once; that a sample's score belongs to the farthest that ends there.
func TestRangedFindings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, stride = 1200, 20
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Sin(float64(i)*0.3) + 0.05*rng.NormFloat64()
	}
	for i := range 8 {
		x[100+i] -= 2
		x[700+i] += 3
	}
	p := TopParams{Window: 300, MinLength: 12, MaxLength: 20, Step: 4, Radius: 2.5}
	seen := map[[2]int]bool{}
	fault := 0
	all := runDiscords(t, detectors.Must(NewTop(p)), x, stride)
	for task, found := range all {
		end := (p.Window+stride-1)/stride*stride + stride + task*stride // of the task; the first is the first with a window before it
		want := map[[2]int]float64{}
		from := end - p.Window
		for _, m := range []int{12, 16, 20} {
			for _, d := range Define(x[from:end], m, Options{}).Range(m, p.Radius) {
				if last := from + d.At + m; task == 0 || last > end-stride {
					want[[2]int{from + d.At, m}] = Normalised(d.Distance, m, 1)
				}
			}
		}
		for _, f := range found {
			w, ok := want[[2]int{f.From, f.Length}]
			if !ok || math.Abs(w-f.Score) > 1e-6 || seen[[2]int{f.From, f.Length}] {
				t.Fatalf("task %d: %+v, expected %v %v, or reported before", task, f, ok, w)
			}
			delete(want, [2]int{f.From, f.Length})
			seen[[2]int{f.From, f.Length}] = true
			if f.From <= 707 && f.To >= 700 {
				fault++
			}
		}
		if len(want) > 0 {
			t.Fatalf("task %d, rows %d to %d: %d range discords are not reported: %v", task, from, end, len(want), want)
		}
	}
	if fault < 20 || len(all) < 40 {
		t.Errorf("%d findings of the fault in %d tasks", fault, len(all))
	}
}

// TestRangedOfATaskAreBounded requires that a task with more range discords than it keeps has the farthest and their number.
func TestRangedOfATaskAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const dim, n = 64, 200
	d := detectors.Must(NewTop(TopParams{Window: n, MinLength: 3, MaxLength: 66, Radius: 0.5, Tumbling: true}))
	size, _ := d.Size(detectors.View{Dim: dim, Rows: n, Fresh: n})
	if most := 4 * (MaxRanged + dim*64); size.Detail > most || size.Detail < most/2 {
		t.Fatalf("%d words of detail, at most %d", size.Detail, most)
	}
	r := detectors.Rows{Dim: dim, Fresh: n, X64: make([]float64, dim*n), Params: d.Params(), Detail: make(detectors.Words, size.Detail),
		Scores: make([]float32, n), Next: make(detectors.Words, size.Carry)}
	for i := range r.X64 {
		r.X64[i] = rng.NormFloat64()
	}
	topCPU(context.Background(), &r, detectors.Sequential)
	e := d.(*topDetector).Describe(r, n-1)
	var count, kept float64
	for _, m := range e.Measures {
		switch m.Name {
		case "range discords of its length in the window":
			count = m.Value
		case "farthest of them that are kept":
			kept = m.Value
		}
	}
	if kept != MaxRanged/dim/64 || count < 2*kept {
		t.Errorf("%v of %v range discords are kept", kept, count)
	}
	s := settingsFor(&r)
	if w := s.words(r.Detail, 5, s.kept-1); w[2] == detectors.NoRow || !(w.Float64(0) > 0.5) {
		t.Errorf("the last of %d range discords is %v", s.kept, w)
	}
}

func TestParseRadius(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "off": 0, "auto": Auto, "4.5": 4.5} {
		if got, err := ParseRadius(text); got != want || err != nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "NaN", "inf", "on", "Auto"} {
		if _, err := ParseRadius(text); err == nil {
			t.Errorf("%q has no fault", text)
		}
	}
	if _, err := NewTop(TopParams{Window: 100, MinLength: 16, Radius: 8.1}); err == nil || !strings.Contains(err.Error(), "up to 8") {
		t.Errorf("a radius beyond all distances: %v", err)
	}
}
