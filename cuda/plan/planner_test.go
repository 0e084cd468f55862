package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
)

// TestLayout compares the structs of task.h with their twins in Go: fields, their order, their places.
func TestLayout(t *testing.T) {
	b, err := os.ReadFile("../kernels/task.h")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`//.*`).ReplaceAllString(string(b), "")
	words := map[string]int{"uint32_t": 4, "Span": 8}
	for name, twin := range map[string]reflect.Type{
		"Span": reflect.TypeFor[detectors.Span](), "Task": reflect.TypeFor[Task](),
		"Tile": reflect.TypeFor[Tile](), "Launch": reflect.TypeFor[Launch](), "Zeroed": reflect.TypeFor[Zeroed](),
	} {
		body := regexp.MustCompile(`(?s)struct ` + name + ` \{(.*?)\}`).FindStringSubmatch(source)
		if body == nil {
			t.Fatalf("task.h has no struct %s", name)
		}
		off, n := 0, 0
		for _, decl := range strings.Split(body[1], ";") {
			typ, names, ok := strings.Cut(strings.TrimSpace(decl), " ")
			if !ok {
				continue
			}
			for _, field := range strings.Split(names, ",") {
				field = strings.TrimSpace(field)
				count := 1
				if base, size, ok := strings.Cut(field, "["); ok {
					field = base
					fmt.Sscanf(size, "%d]", &count)
				}
				for range count {
					if n >= twin.NumField() {
						t.Fatalf("%s: %s is not in Go", name, field)
					}
					f := twin.Field(n)
					if f.Offset != uintptr(off) || int(f.Type.Size()) != words[typ] || !strings.EqualFold(f.Name, field) && field != "pad" {
						t.Errorf("%s: %s %s at %d in C, %s of %d bytes at %d in Go", name, typ, field, off, f.Name, f.Type.Size(), f.Offset)
					}
					off += words[typ]
					n++
				}
			}
		}
		if n != twin.NumField() || off != int(twin.Size()) {
			t.Errorf("%s: %d fields, %d bytes in C; %d, %d in Go", name, n, off, twin.NumField(), twin.Size())
		}
	}
	lane, err := os.ReadFile("../device/lane.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uintptr{"taskBytes": unsafe.Sizeof(Task{}), "tileBytes": unsafe.Sizeof(Tile{})} {
		if !strings.Contains(string(lane), fmt.Sprintf("%s = %d,", name, size)) {
			t.Errorf("lane.h does not say that %s = %d", name, size)
		}
	}
}

// testPlan replaces an op's plan for a test. The class of a task is its number of fresh rows; the CPU
// scores tasks of 13; the cost is the length of X.
func testPlan(t testing.TB, ops ...detectors.Op) {
	old := slices.Clone(byOp)
	t.Cleanup(func() { copy(byOp, old) })
	for i := range byOp {
		byOp[i] = nil
	}
	for _, op := range ops {
		byOp[op] = &opPlan{
			class: func(t *detectors.Task, params detectors.Words) (Class, int, bool) {
				return Class{Op: op, A: t.Fresh, B: params[0]}, int(t.X.Len), t.Fresh != 13
			},
			launches: func(c Class, p *builder, chains []chain) {
				for _, c := range chains {
					p.tiles = append(p.tiles, Tile{First: c.first, Count: c.count, Scratch: p.scratch(10)})
				}
				p.launch(names[int(c.A)%len(names)], blockATile, 32, 0)
			},
		}
	}
}

// addTask appends a task of an op with a carry of 2 numbers.
func addTask(b *detectors.Batch, op detectors.Op, fresh, rows, after int) {
	t := detectors.Task{Op: op, Dim: 1, Fresh: uint32(fresh), After: uint32(after)}
	t.Params, _ = b.GrowF32(1)
	b.In[t.Params.Off] = 0
	t.X, _ = b.GrowF32(rows)
	t.Scores, t.Next = b.GrowOut(fresh), b.GrowOut(2)
	b.Tasks = append(b.Tasks, t)
}

// planned formats one round: the batch's task numbers by launch and tile, and those for the CPU.
func planned(p *Planner, b *detectors.Batch) string {
	p.Assign(b)
	tasks := make([]Task, p.Tasks)
	p.schedule(b, tasks)
	s := ""
	for _, l := range p.build.launches {
		s += "["
		for k, tile := range p.build.tiles[l.FirstTile : l.FirstTile+l.Tiles] {
			if k > 0 {
				s += " "
			}
			for n := range tile.Count {
				if n > 0 {
					s += ">"
				}
				s += fmt.Sprint(p.order[tile.First+n])
				if tasks[tile.First+n].After == 1 && n == 0 {
					s += "'" // its carry is in out, from an earlier launch
				}
			}
		}
		s += "]"
	}
	return fmt.Sprint(s, p.Progress.CPU)
}

func TestPlan(t *testing.T) {
	const A, B = sst.OpIKA, simple.OpZScore // B has no kernel
	type task struct {
		op                 detectors.Op
		fresh, rows, after int
	}
	for _, c := range []struct {
		name  string
		tasks []task
		want  []string // of each round
	}{
		{"nothing", nil, nil},
		{"no kernel", []task{{B, 1, 5, 0}, {B, 1, 5, 1}}, []string{"[0 1]"}},
		{"falling cost", []task{{A, 1, 10, 0}, {A, 1, 90, 0}, {A, 1, 40, 0}}, []string{"[1 2 0][]"}},
		{"chains stay together", []task{{A, 1, 10, 0}, {A, 1, 30, 0}, {A, 1, 10, 1}, {A, 1, 30, 2}, {A, 1, 10, 3}}, []string{"[1>3 0>2>4][]"}},
		{"classes", []task{{A, 1, 9, 0}, {A, 2, 9, 0}, {A, 1, 9, 0}, {A, 2, 9, 0}}, []string{"[0 2][1 3][]"}},
		{"a chain of two classes", []task{{A, 1, 9, 0}, {A, 2, 9, 1}, {A, 2, 9, 2}, {A, 1, 9, 3}, {A, 2, 50, 0}}, []string{"[0][4 1'>2][3'][]"}},
		{"the CPU in a chain", []task{{A, 1, 9, 0}, {A, 13, 9, 1}, {A, 13, 9, 2}, {A, 1, 9, 3}, {A, 1, 9, 0}}, []string{"[0 4][1 2]", "[3'][]"}},
		{"the CPU first", []task{{A, 13, 9, 0}, {A, 1, 9, 1}}, []string{"[0]", "[1'][]"}},
	} {
		testPlan(t, A)
		b := &detectors.Batch{}
		for _, x := range c.tasks {
			addTask(b, x.op, x.fresh, x.rows, x.after)
		}
		var p Planner
		p.Start(b)
		for round := 0; p.Progress.Left > 0; round++ {
			got := planned(&p, b)
			if round >= len(c.want) || got != c.want[round] {
				t.Errorf("%s: round %d is %s, want %v", c.name, round, got, c.want)
				break
			}
			p.Progress.ReadStatus(b, &p, make([]uint32, len(p.order)))
			finishCPU(&p, b)
		}
	}
}

// finishCPU is fallback.score of package cuda without the scores.
func finishCPU(p *Planner, b *detectors.Batch) (ran []int32) {
	heads, next, _ := p.Progress.Runs(b)
	for _, h := range heads {
		for i := h; i >= 0; i = next[i] {
			ran = append(ran, i)
		}
	}
	for _, i := range p.Progress.CPU {
		if p.Progress.places[i] == onCPU {
			p.Progress.places[i] = done
			p.Progress.Left--
		}
	}
	return ran
}

// TestPlanRandom makes random batches, in which kernels decline random tasks: every task must run once,
// after the one that its carry comes from, on its own side, and the plan must be in the right order.
func TestPlanRandom(t *testing.T) {
	testPlan(t, sst.OpIKA, lof.Op)
	rng := seedtest.New(t)
	var p Planner
	for range 300 {
		b := &detectors.Batch{}
		var lasts []int
		for range rng.IntN(200) {
			after := 0
			if len(lasts) > 0 && rng.IntN(2) == 0 {
				k := rng.IntN(len(lasts))
				after = lasts[k]
				lasts = slices.Delete(lasts, k, k+1)
			}
			fresh := 1 + rng.IntN(3)
			if rng.IntN(10) == 0 {
				fresh = 13
			}
			addTask(b, []detectors.Op{sst.OpIKA, lof.Op, knn.Op}[rng.IntN(3)], fresh, 1+rng.IntN(5)*rng.IntN(100), after)
			if rng.IntN(5) == 0 {
				b.Tasks[len(b.Tasks)-1].Next.Len = 0
			}
			b.In.SetFloat32(int(b.Tasks[len(b.Tasks)-1].Params.Off), float32(rng.IntN(2)))
			lasts = append(lasts, len(b.Tasks))
		}
		decline := make([]bool, len(b.Tasks))
		for i := range decline {
			decline[i] = rng.IntN(8) == 0
		}
		ran := make([]bool, len(b.Tasks))
		run := func(i int32) {
			if ran[i] {
				t.Fatalf("task %d runs twice", i)
			}
			if from := Before(b, int(i)); from >= 0 && !ran[from] {
				t.Fatalf("task %d runs before task %d", i, from)
			}
			ran[i] = true
		}
		p.Start(b)
		for rounds := 0; p.Progress.Left > 0; rounds++ {
			if rounds > len(b.Tasks)+1 {
				t.Fatalf("%d tasks are left", p.Progress.Left)
			}
			p.Assign(b)
			tasks := make([]Task, p.Tasks)
			p.schedule(b, tasks)
			status := make([]uint32, len(tasks))
			seen := 0
			for _, l := range p.build.launches {
				for _, tile := range p.build.tiles[l.FirstTile : l.FirstTile+l.Tiles] {
					for n := tile.First; n < tile.First+tile.Count; n++ {
						if int(n) != seen {
							t.Fatalf("task %d of the plan, %d is due", n, seen)
						}
						seen++
						i := p.order[n]
						bt, pt := b.Tasks[i], tasks[n]
						if bt.Fresh == 13 || bt.Op == knn.Op {
							t.Fatalf("task %d is on the device", i)
						}
						from := Before(b, int(i))
						if pt.After == 1 != (from >= 0) || from >= 0 && pt.Carry != b.Tasks[from].Next || pt.X != bt.X || pt.Scores != bt.Scores {
							t.Fatalf("task %d is %+v in the plan, %+v in the batch", i, pt, bt)
						}
						switch {
						case n > tile.First && status[n-1] == 1:
							status[n] = 1
						case decline[i]:
							status[n] = 1
						case from < 0 || ran[from]:
							run(i)
						}
					}
				}
			}
			if seen != len(tasks) {
				t.Fatalf("%d tasks in tiles of %d", seen, len(tasks))
			}
			p.Progress.ReadStatus(b, &p, status)
			for _, i := range finishCPU(&p, b) {
				if tk := b.Tasks[i]; tk.Fresh != 13 && tk.Op != knn.Op && !decline[i] {
					t.Fatalf("task %d is on the CPU", i)
				}
				run(i)
			}
		}
		if i := slices.Index(ran, false); i >= 0 {
			t.Fatalf("task %d did not run", i)
		}
	}
}

// TestCostOrder requires that the sort is by falling cost, to an eighth, and stable.
func TestCostOrder(t *testing.T) {
	testPlan(t, lof.Op)
	rng := rand.New(rand.NewPCG(1, 2))
	b := &detectors.Batch{}
	for range 5000 {
		addTask(b, lof.Op, 1, 1+rng.IntN(1<<rng.IntN(12)), 0)
	}
	var p Planner
	p.Start(b)
	p.Assign(b)
	p.schedule(b, make([]Task, p.Tasks))
	for k := 1; k < len(p.order); k++ {
		x, y := b.Tasks[p.order[k-1]].X.Len, b.Tasks[p.order[k]].X.Len
		if x < y-y/8 {
			t.Fatalf("cost %d before %d", x, y)
		}
		if x == y && p.order[k-1] > p.order[k] {
			t.Fatal("not stable")
		}
	}
	for c := range 1 << 16 {
		if costStep(c+1) < costStep(c) {
			t.Fatalf("costStep(%d) is %d, of %d it is %d", c, costStep(c), c+1, costStep(c+1))
		}
	}
	if costStep(1<<62) > costSteps {
		t.Fatal("a step too large")
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1000, 65536} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			batch := ikasstBatch(b, seedtest.New(b), n)
			var p Planner
			tasks := make([]Task, n)
			b.ReportAllocs()
			for b.Loop() {
				p.Start(batch)
				p.Assign(batch)
				p.schedule(batch, tasks)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}

// ikasstBatch returns a batch of n tasks of four fresh rows, each of a separate key.
func ikasstBatch(t testing.TB, rng *rand.Rand, n int) *detectors.Batch {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 12})
	if err != nil {
		t.Fatal(err)
	}
	b := &detectors.Batch{}
	params := b.Put(d.Params())
	rows := d.Window() + 3
	for range n {
		task := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 4, Params: params}
		var f []float32
		task.X, f = b.GrowF32(rows)
		for i := range f {
			f[i] = float32(rng.NormFloat64())
		}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: rows, Fresh: 4})
		b.GrowOutputs(&task, size)
		b.Tasks = append(b.Tasks, task)
	}
	return b
}

// TestRounds requires that a task that requests another round has it, with its Next as carry, in the
// class that again returns, up to its largest number of rounds, and that the tasks after it wait.
func TestRounds(t *testing.T) {
	testPlan(t, sst.OpIKA)
	op := byOp[sst.OpIKA]
	op.rounds = 3
	op.again = func(t *detectors.Task, params detectors.Words, round int, next detectors.Words) (Class, int, bool) {
		return Class{Op: t.Op, A: uint32(10 * round), B: next[0]}, 1, true
	}
	b := &detectors.Batch{}
	addTask(b, sst.OpIKA, 1, 9, 0)
	addTask(b, sst.OpIKA, 1, 9, 1) // takes its carry from the first
	addTask(b, sst.OpIKA, 1, 5, 0)
	for i := range b.Out {
		b.Out[i] = uint32(70 + i)
	}
	var p Planner
	p.Start(b)
	for round, c := range []struct {
		plan   string
		status []uint32
	}{
		{"[0 2][]", []uint32{StatusMore, StatusDone}},
		{"[0'][]", []uint32{StatusMore}},
		{"[0'][]", []uint32{StatusMore}}, // one round too many: it goes to the CPU
		{"[1'][]", []uint32{StatusMore}},
	} {
		if got := planned(&p, b); got != c.plan {
			t.Fatalf("round %d is %s, want %s", round, got, c.plan)
		}
		if round == 1 {
			task := p.build.tasks[0]
			if task.Carry != b.Tasks[0].Next || p.later != 1 {
				t.Errorf("its carry is %+v, want what it has left at %+v", task.Carry, b.Tasks[0].Next)
			}
			if want := (Class{Op: sst.OpIKA, A: 20, B: b.Out[b.Tasks[0].Next.Off]}); p.classes.list[len(p.classes.list)-1] != want {
				t.Errorf("its class is %+v, want %+v", p.classes.list, want)
			}
		}
		p.Progress.ReadStatus(b, &p, c.status)
		finishCPU(&p, b)
	}
	if p.Progress.Declined != 1 || p.Progress.Left != 1 {
		t.Errorf("%d tasks declined, %d left; want 1, 1", p.Progress.Declined, p.Progress.Left)
	}
	// A lost device may have written half of their outputs.
	p.Assign(b)
	p.schedule(b, make([]Task, p.Tasks))
	p.Progress.Lost(&p)
	if got, want := planned(&p, b), "[1'][]"; got != want || p.later != 0 || p.build.tasks[0].Carry != b.Tasks[0].Next {
		t.Errorf("after a loss the plan is %s, %d in a later round, with the carry %+v", got, p.later, p.build.tasks[0].Carry)
	}
}

// TestRepeats requires that launches name the tasks for which the child repeats them, and the plan how
// often.
func TestRepeats(t *testing.T) {
	testPlan(t, sst.OpIKA, lof.Op)
	byOp[sst.OpIKA].rounds, byOp[sst.OpIKA].repeats = 7, true
	b := &detectors.Batch{}
	addTask(b, lof.Op, 1, 9, 0)
	addTask(b, sst.OpIKA, 1, 9, 0)
	addTask(b, sst.OpIKA, 1, 9, 0)
	addTask(b, lof.Op, 2, 9, 0)
	var p Planner
	p.Start(b)
	if got, want := planned(&p, b), "[0][1 2][3][]"; got != want {
		t.Fatalf("the plan is %s, want %s", got, want)
	}
	for i, want := range [][2]uint32{{0, 0}, {1, 2}, {0, 0}} {
		if l := p.build.launches[i]; l.FirstTask != want[0] || l.Tasks != want[1] {
			t.Errorf("launch %d is %+v, want tasks %v", i, l, want)
		}
	}
	if p.repeats != 7 {
		t.Errorf("%d repeats, want 7", p.repeats)
	}
}

// TestZeroed requires that ranges of zeroed scratch memory are the requested ones, and join where they
// touch.
func TestZeroed(t *testing.T) {
	var p Planner
	p.build.scratch(300)
	for _, c := range []struct {
		bytes int
		at    uint32
	}{{8, 2}, {600, 3}} {
		if at := p.build.zeroed(c.bytes); at != c.at {
			t.Errorf("%d zeroed bytes are at %d, want %d", c.bytes, at, c.at)
		}
	}
	p.build.scratch(1)
	p.build.zeroed(256)
	if want := []Zeroed{{2, 4}, {7, 1}}; !slices.Equal(p.build.zeroes, want) || p.build.scratchBytes != 8*Alignment {
		t.Errorf("zeroed are %v of %d bytes, want %v", p.build.zeroes, p.build.scratchBytes, want)
	}
}
