package state

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/processor/state/series"
)

// realDetectors are detectors of every op whose rows are centred, with embeddings and
// z-normalisation, and of one whose rows are as they came.
func realDetectors(t *testing.T, dim int) map[string]detectors.Detector {
	out := map[string]detectors.Detector{}
	add := func(name string, d detectors.Detector, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = d
	}
	z, err := simple.NewZScore(17)
	add("zscore", z, err)
	l, err := lof.New(lof.OpParams{Window: 40, K: 5, Embed: 4, ZNorm: true})
	add("lof", l, err)
	l, err = lof.New(lof.OpParams{Window: 33, K: 4})
	add("lof of samples", l, err)
	n, err := knn.New(knn.Params{Window: 50, K: 3, Embed: 6})
	add("knn", n, err)
	o, err := discord.New(discord.Params{Window: 60, Length: 7, MinPoints: 20})
	add("discord", o, err)
	if dim == 1 {
		i, err := sst.NewIKA(sst.IKAOpParams{Window: 8, Rank: 2, PowerSteps: 2, Epsilon: 1e-3})
		add("ikasst", i, err)
		v, err := sst.NewSVD(sst.SVDOpParams{Window: 6, Rank: 2})
		add("svdsst", v, err)
	}
	return out
}

// sharing folds a log, and executes its batches on the CPU where they are cut.
type sharing struct {
	t      *testing.T
	s      *State
	b      *detectors.Batch
	rows   []flat
	all    map[string][]modelRow // of each key
	tasks  int
	shared int // tasks that share a part of X with another
	others int // tasks with other bits if the window had centers of its own
}

// check compares the X of all tasks that wait with what the model makes of their rows.
func (s *sharing) check() {
	ends := map[string]uint32{} // of the X of the last task of a detector and a key
	for i := range s.s.tasks.Pending() {
		p := &s.s.tasks.Pending()[i]
		if p.Index < 0 {
			continue
		}
		s.tasks++
		b := s.b
		if p.Direct {
			b = &s.s.tasks.direct
		}
		rows := b.Rows(int(p.Index))
		x, wide := rows.X, rows.X64
		all := s.all[string(p.Key.Name())]
		fresh := s.s.tasks.copies.Fresh(p)
		n, _ := slices.BinarySearchFunc(all, fresh[len(fresh)-1].Offset, func(r modelRow, o int64) int { return int(r.offset - o) })
		all = all[:n+1]
		dim, full := p.Detector.Dim, int(p.Detector.Full)
		window := all[max(0, len(all)-full):]
		around := centered(all, full, dim)
		if around == nil {
			around = window
		}
		if len(x)+len(wide) != dim*len(window) {
			s.t.Fatalf("task %d: %d numbers for %d rows", p.Index, len(x)+len(wide), len(window))
		}
		other := false
		for r, row := range window {
			for c, v := range row.v {
				if wide != nil {
					if got := wide[r*dim+c]; got != v {
						s.t.Fatalf("%s: task %d of key %q, row %d of %d: %v, want %v", p.Detector.Name, p.Index, p.Key.Name(), r, len(window), got, v)
					}
					continue
				}
				got := x[r*dim+c]
				if want := float32(v - middleOf(around, c)); !same32(got, want) {
					s.t.Fatalf("%s: task %d of key %q, row %d of %d: %v, by itself it is %v",
						p.Detector.Name, p.Index, p.Key.Name(), r, len(window), got, want)
				}
				other = other || !same32(got, float32(v-middleOf(window, c)))
			}
		}
		if other {
			s.others++
		}
		id := fmt.Sprint(p.Detector.Index, "/", string(p.Key.Name()))
		if p.Direct {
			continue
		}
		span := s.b.Tasks[p.Index].X
		if span.Off < ends[id] {
			s.shared++
		}
		ends[id] = span.Off + span.Len
	}
}

func same32(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b }

func (s *sharing) flush(e detectors.Executor) {
	s.check()
	if err := e.Execute(context.Background(), s.b); err != nil {
		s.t.Fatal(err)
	}
	s.s.Apply(s.b)
	s.b.Reset()
	s.rows = append(s.rows, flatten(s.s.Rows)...)
	s.s.Rows = s.s.Rows[:0]
}

// TestSharedRows: the tasks of a key in a batch share rows, and every one has the bits
// that it has in a batch of its own: X, scores and carries, regardless of the keys, the
// strides and the cuts between batches.
func TestSharedRows(t *testing.T) {
	r := seedtest.New(t)
	tasks, shared, others := 0, 0, 0
	e := detectors.NewCPU(1)
	defer e.Close()
	for range 12 {
		dim := 1 + r.IntN(2)
		cfg := &Config{Dim: dim, Windows: []series.WindowConfig{{Columns: []int{0, 1}[:dim], Fingerprint: 1}}}
		for name, d := range realDetectors(t, dim) {
			if r.IntN(2) == 0 {
				continue
			}
			cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{Name: name, Detector: d, Stride: []int{1, 1, 2, 5}[r.IntN(4)],
				Fingerprint: uint64(len(cfg.Detectors))})
		}
		if len(cfg.Detectors) == 0 {
			continue
		}
		var log []Sample
		keys, level := 1+r.IntN(6), 1e4*r.NormFloat64()
		for i := range 100 + r.IntN(1200) {
			sm := Sample{Key: fmt.Append(nil, "k", r.IntN(1+r.IntN(keys))), Offset: int64(i), Time: int64(i)}
			for range dim {
				sm.Values = append(sm.Values, level+r.NormFloat64())
			}
			if r.IntN(100) == 0 {
				sm.Values[0] *= 1e5 // a spike
			}
			if r.IntN(300) == 0 {
				level += 1e6
			}
			log = append(log, sm)
		}
		fold := func(cut func(h *sharing) bool, limit int) *sharing {
			h := &sharing{t: t, s: New(cfg), b: &detectors.Batch{}, all: map[string][]modelRow{}}
			if need := h.s.Need(); limit > 0 && need.Tasks > 0 { // else all tasks are direct
				h.b.MaxIn, h.b.MaxTasks = need.In*limit, need.Tasks+r.IntN(need.Tasks*limit*9)
			}
			for i := range log {
				sm := &log[i]
				for !h.s.Fits(h.b) {
					h.flush(e)
				}
				h.all[string(sm.Key)] = append(h.all[string(sm.Key)], modelRow{offset: sm.Offset, v: sm.Values})
				h.s.Fold(sm, h.b)
				if h.b.MaxIn > 0 && len(h.b.In) > h.b.MaxIn {
					t.Fatalf("%d words where %d are allowed", len(h.b.In), h.b.MaxIn)
				}
				if cut(h) {
					h.flush(e)
				}
			}
			h.flush(e)
			return h
		}
		alone := fold(func(*sharing) bool { return true }, 0)
		if alone.shared > 0 {
			t.Fatalf("%d tasks share rows where each has a batch of its own", alone.shared)
		}
		for range 3 {
			every := 1 + r.IntN(400)
			h := fold(func(*sharing) bool { return r.IntN(every) == 0 }, r.IntN(4))
			compareRows(t, h.rows, alone.rows)
			if a, b := alone.s.Export(nil), h.s.Export(nil); !slices.Equal(a, b) {
				t.Fatal("another state")
			}
			tasks, shared, others = tasks+h.tasks, shared+h.shared, others+h.others
		}
	}
	t.Logf("%d tasks, %d share rows, %d would have other bits with centers of their own", tasks, shared, others)
	if shared < tasks/10 || others < tasks/3 {
		t.Error("that is too few to tell")
	}
}

// TestSmallWindowsShareNothing: tasks of windows that are packed in no time have rows of
// their own, and nothing is left free behind them; tasks of longer ones share.
func TestSmallWindowsShareNothing(t *testing.T) {
	for _, c := range []struct {
		dim, window int
		shares      bool
	}{{1, leastShared - 1, false}, {1, leastShared, true}, {3, leastShared/3 + 1, true}, {3, leastShared / 3, false}} {
		cfg := one(&fake{window: c.window, least: c.window}, 1)
		cfg.Dim, cfg.Windows[0].Columns = c.dim, []int{0, 1, 2}[:c.dim]
		s, b := New(cfg), &detectors.Batch{}
		values := make([]float64, c.dim)
		shared, need := false, 0
		for i := range 8 * c.window {
			s.Fold(&Sample{Key: []byte("k"), Offset: int64(i), Time: int64(i), Values: values}, b)
		}
		for i := range b.Tasks {
			need += int(b.Tasks[i].X.Len)
			shared = shared || i > 0 && b.Tasks[i].X.Off < b.Tasks[i-1].X.Off+b.Tasks[i-1].X.Len
		}
		if shared != c.shares {
			t.Errorf("windows of %d rows of %d: tasks share rows: %v", c.window, c.dim, shared)
		}
		if rows := s.Need().In - len(s.dets[0].Params); !c.shares && (rows > c.window*c.dim+2 || len(b.In) > need+len(s.dets[0].Params)+2) {
			t.Errorf("windows of %d rows of %d: a task needs %d words, and %d tasks take %d", c.window, c.dim, rows, len(b.Tasks), len(b.In))
		}
	}
}

// TestRoomBehindX: the arena has no more room that is not used than rows of tasks that
// the batch before had, or half of what is.
func TestRoomBehindX(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 3))
	s, b := New(one(&fake{window: 100, least: 100}, 1)), &detectors.Batch{}
	offset := int64(0)
	for range 300 {
		for k := range 8 {
			for range []int{1, 1, 2, 16, 70}[r.IntN(5)] {
				s.Fold(&Sample{Key: []byte{byte(k)}, Offset: offset, Time: offset, Values: []float64{r.NormFloat64()}}, b)
				offset++
			}
		}
		used := map[uint32]bool{}
		params := 0
		for i := range b.Tasks {
			x := b.Tasks[i].X
			for w := x.Off; w < x.Off+x.Len; w++ {
				used[w] = true
			}
			params = int(b.Tasks[i].Params.Len)
		}
		// At most 63 rows behind each of a key's runs of 100 rows or more.
		if free := len(b.In) - len(used) - params; float64(free) > 0.63*float64(len(used)) {
			t.Fatalf("%d words in use, %d are not", len(used), free)
		}
		execute(b)
		s.Apply(b)
		b.Reset()
		s.Rows = s.Rows[:0]
	}
}
