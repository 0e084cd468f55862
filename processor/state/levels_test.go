package state

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/discord"
	"odradek/detectors/joint"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/scan"
	"odradek/detectors/season"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/detectors/vec"
	"odradek/processor/state/series"
)

// leveled is a detector, and its definition: the scores of the last fresh rows of a series in float64. carry is the carry of the
// task, and loose says how far float32 may take each score from the definition, beyond the error of others, on one
// level and on two that are less than 1,000 deviations apart.
type leveled struct {
	name     string
	detector detectors.Detector
	stride   int
	define   func(x []float64, fresh int, carry detectors.Words) []float64
	loose    func(x []float64, fresh int, carry detectors.Words) []float64 // nil: no farther than other scores
	unit     float64                                                       // errors of scores below it are shares of it
}

// leveledDetectors are detectors of each op on windows of n points, with scores of each row and of whole windows. Errors are
// compared with the score itself; with 1 for scores of 0 to 1, and for a zscore, which is a number of deviations; and for a share of
// the largest weight that is ordinary, with that.
func leveledDetectors(t *testing.T, n int, reference []float64) []leveled {
	const k = 10
	var list []leveled
	add := func(what string, d detectors.Detector, stride int, define func(x []float64, fresh int) []float64) *leveled {
		ignore := func(x []float64, fresh int, _ detectors.Words) []float64 { return define(x, fresh) }
		list = append(list, leveled{name: fmt.Sprintf("%v %s by %d", d.Op(), what, stride), detector: d, stride: stride, define: ignore})
		return &list[len(list)-1]
	}
	table := map[detectors.Op]func(){
		knn.Op: func() {
			for _, p := range []knn.Params{{}, {Embed: 4}, {Embed: 6, ZNorm: true}} {
				p.Window, p.K = n, k
				for _, stride := range []int{1, 7, n} {
					p, m := p, max(1, p.Embed)
					p.Tumbling = stride == n
					define := func(x []float64, fresh int) (want []float64) {
						x = x[max(0, len(x)-n-fresh-m+1):]
						points := vec.Embed(nil, x, 1, m, p.ZNorm)
						var s knn.WideScorer
						for f := range fresh {
							at := len(points)/m - fresh + f
							q := knn.Query{At: at, From: max(0, at+1-n), To: at}
							if p.Tumbling {
								q.From, q.To = len(points)/m-n, len(points)/m
							}
							w, _ := s.Weight(points, m, 1, k, false, q)
							want = append(want, w)
						}
						return want
					}
					made := add(fmt.Sprintf("of %d", p.Embed), detectors.Must(knn.New(p)), stride, define)
					if m == 1 && n > 500 {
						made.loose = rounding(n, 0, define)
					}
				}
			}
			oneLevel := make([]float64, n+5)
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range oneLevel {
				oneLevel[i] = 3 + rng.NormFloat64()
			}
			for what, rows := range map[string][]float64{"a reference set": oneLevel, "a reference set of both levels": reference} {
				for _, m := range []int{1, 4, 6} {
					d, err := knn.Op.Spec().BuildReferred(detectors.Values{"K": k, "EMBED": m, "ZNORM": m == 6}, 1, rows)
					if err != nil {
						t.Fatal(err)
					}
					points := vec.Embed(nil, rows, 1, m, m == 6)
					define := func(x []float64, fresh int) (want []float64) {
						var s knn.WideScorer
						for f := range fresh {
							to := len(x) - fresh + f + 1
							all := vec.Embed(slices.Clone(points), x[to-m:to], 1, m, m == 6)
							w, _ := s.Weight(all, m, 1, k, false, knn.Query{At: len(points) / m, To: len(points) / m})
							want = append(want, w)
						}
						return want
					}
					made := add(fmt.Sprintf("of %d in %s", m, what), d, 1, define)
					if m == 1 && n > 500 && d.Wide() == detectors.NotWide {
						made.loose = rounding(n, 0, define)
					}
				}
			}
		},
		lof.Op: func() {
			for _, p := range []lof.OpParams{{}, {Embed: 4}, {Embed: 6, ZNorm: true}} {
				p.Window, p.K = n, k
				for _, stride := range []int{1, 7, n} {
					p, m := p, max(1, p.Embed)
					p.Tumbling = stride == n
					define := func(x []float64, fresh int) []float64 {
						x = x[max(0, len(x)-max(n, fresh)-m+1):]
						return lof.Define(&lof.Params{K: k}, vec.Embed(nil, x, 1, m, p.ZNorm), m, fresh, nil, nil)
					}
					add(fmt.Sprintf("of %d", p.Embed), detectors.Must(lof.New(p)), stride, define).loose = rounding(n, 0, define)
				}
			}
			for _, stride := range []int{1, 7} {
				d := detectors.Must(lof.New(lof.OpParams{Window: n, K: k, Cells: 8}))
				summary := d.(detectors.Summarizer).Summary(1)
				var state []float64
				left := 0
				define := func(x []float64, fresh int) []float64 {
					for ; left < len(x)-n; left++ { // tasks come in the order of the series
						state = summary.Add(state, x[left:left+1])
					}
					packed := make([]float64, 2*summary.Count(state))
					summary.PackF64(packed, state)
					virtuals := len(packed) / 2
					return lof.Define(&lof.Params{K: k}, x[max(0, len(x)-n):], 1, fresh, packed[:virtuals], packed[virtuals:])
				}
				add("with bins", d, stride, define).loose = rounding(n, 0, define)
			}
		},
		knn.OpTopN: func() {
			for _, stride := range []int{5, n} {
				d := detectors.Must(knn.NewTopN(knn.TopNParams{Window: n, K: k, Top: n / 2, Tumbling: stride == n}))
				add("", d, stride, func(x []float64, fresh int) []float64 {
					x = x[max(0, len(x)-max(n, fresh)):]
					top, err := knn.Algorithms[0].Find(x, 1, knn.TopParams{N: n / 2, K: k})
					want := make([]float64, len(x))
					for _, o := range top.Outliers {
						want[o.At] = o.Weight
					}
					if err != nil {
						panic(err)
					}
					return want[len(x)-fresh:]
				})
			}
		},
		knn.OpSolvingSet: func() {
			for _, m := range []int{1, 4} {
				p := knn.SolvingSetParams{Window: n, K: k, Embed: m, MineEvery: n / 4}
				var set []float64
				cut := 0.0
				mine := func(x []float64) {
					points := vec.Embed(nil, x[max(0, len(x)-n-m+1):], 1, m, false)
					places, last, err := knn.Model(points, m, n, knn.TopParams{N: 5, K: k, Candidates: 16}, detectors.Sequential)
					if err != nil {
						t.Fatal(err)
					}
					set, cut = set[:0], last
					for _, i := range places {
						set = append(set, points[i*m:(i+1)*m]...)
					}
				}
				mined := 0
				add(fmt.Sprintf("of %d", m), detectors.Must(knn.NewSolvingSet(p)), 1, func(x []float64, fresh int) []float64 {
					if at := len(x) - 1; mined == 0 || at-at%p.MineEvery > mined { // tasks come in the order of the series
						mined = at
						if len(set) > 0 {
							mined = at - at%p.MineEvery
						}
						mine(x[:mined])
					}
					var s knn.WideScorer
					w, _ := s.Weight(slices.Concat(set, x[len(x)-m:]), m, 1, k, false, knn.Query{At: len(set) / m, To: len(set) / m})
					return []float64{w / cut}
				}).unit = 1
			}
		},
		simple.OpZScore: func() {
			add("", detectors.Must(simple.NewZScore(n/4)), 1, func(x []float64, fresh int) (want []float64) {
				for at := len(x) - fresh; at < len(x); at++ {
					mean, sd := vec.Moments(x[at-n/4+1:at], 0, 1)
					want = append(want, min(math.Abs(x[at]-mean)/sd, 1e6))
				}
				return want
			}).unit = 1
		},
		sst.OpSVD: func() {
			for _, w := range []int{n / 16, n / 4} {
				p := sst.SVDParams{Window: w}
				if err := p.Defaults(); err != nil {
					t.Fatal(err)
				}
				define := func(x []float64, fresh int) []float64 {
					want, _ := sst.DefineSVD(&p, x, fresh)
					return want
				}
				made := add(fmt.Sprintf("of %d", w), detectors.Must(sst.NewSVD(sst.SVDOpParams{Window: w})), 3, define)
				made.unit, made.loose = 1, rounding(n, 1, define) // rounding turns directions that are almost equally strong
			}
		},
		sst.OpIKA: func() {
			for _, w := range []int{n / 16, n / 4} {
				p := sst.Params{Window: w, A0: sst.Start(0, w)}
				if err := p.Defaults(); err != nil {
					t.Fatal(err)
				}
				feedback := func(carry detectors.Words) (a []float64) {
					from := p.A0
					if len(carry) > 0 {
						from = carry.F32()
					}
					for _, v := range from {
						a = append(a, float64(v))
					}
					return a
				}
				for _, stride := range []int{1, 8} {
					d := add(fmt.Sprintf("of %d", w), detectors.Must(sst.NewIKA(sst.IKAOpParams{Window: w})), stride, nil)
					d.unit = 1
					d.define = func(x []float64, fresh int, carry detectors.Words) []float64 {
						want, _ := sst.Define(&p, x, fresh, feedback(carry))
						return want
					}
					d.loose = func(x []float64, fresh int, carry detectors.Words) []float64 {
						apart, _ := sst.Spread(&p, x, fresh, feedback(carry), sst.ManyErrors, rand.New(rand.NewPCG(1, 1)))
						return apart
					}
				}
			}
		},
	}
	// The rows of other ops are not rounded: float64, or whole numbers. Their fast forms have the scores of their
	// definitions on the same rows.
	exact := func(d detectors.Detector, stride int, unit float64) {
		table[d.Op()] = func() {
			add("", d, stride, nil)
			made := &list[len(list)-1]
			made.unit, made.define = unit, func(x []float64, fresh int, carry detectors.Words) []float64 {
				return definedScores(d, x, fresh, carry)
			}
		}
	}
	exact(detectors.Must(ar.New(ar.OpParams{Order: 4, Memory: 200})), 1, 0)
	exact(detectors.Must(discord.New(discord.Params{Window: n, Length: 8})), 4, 1)
	exact(detectors.Must(discord.NewTop(discord.TopParams{Window: n, MinLength: 8})), n/4, 1)
	exact(detectors.Must(simple.NewFlatline(0)), 1, 0)
	exact(detectors.Must(joint.New(joint.OpParams{Window: 8, Guard: 16, Memory: 200})), 1, 1)
	exact(detectors.Must(scan.New(scan.OpParams{Cells: n, Columns: 8, Model: scan.ModelNormal, Variance: 1})), n, 0)
	exact(detectors.Must(season.New(season.OpParams{Bins: 4, Memory: 50})), 1, 0)
	exact(detectors.Must(season.NewBand(season.BandParams{})), 1, 0)
	exact(detectors.Must(simple.NewValue(1, false)), 1, 0)
	for _, op := range detectors.Ops() {
		if table[op] == nil {
			t.Errorf("op %v: say by which definition its scores are judged", op)
			continue
		}
		table[op]()
	}
	return list
}

// rounding returns how far scores of windows of n rows move where rows are rounded to float32: little, unless it decides which of two
// points is the nearer, or where the nearest are less than a thousandth of the span of the window away.
func rounding(n int, unit float64, define func(x []float64, fresh int) []float64) func([]float64, int, detectors.Words) []float64 {
	return func(x []float64, fresh int, _ detectors.Words) []float64 {
		rng := rand.New(rand.NewPCG(1, 1))
		want := define(x, fresh)
		apart := make([]float64, fresh)
		for range 64 {
			rounded := slices.Clone(x)
			level := x[max(0, len(x)-n/4):]
			span := slices.Max(level) - slices.Min(level)
			for i := range rounded {
				rounded[i] += 0x1p-24 * span * rng.NormFloat64()
			}
			for i, v := range define(rounded, fresh) {
				apart[i] = max(apart[i], math.Abs(v-want[i])/max(want[i], unit))
			}
		}
		return apart
	}
}

// isOnOneLevel reports whether a task that ends before a sample, in a series whose level changes at one, is scored in float32: where
// all rows are at one level, or the rows of its points and perhaps the center.
func (l *leveled) isOnOneLevel(end, change int) bool {
	rows := detectors.TaskRows(l.detector, l.stride)
	if l.detector.Op().Spec().Wide(l.detector.Params()) == detectors.WideFresh {
		rows /= 4 // the center follows when at least so many rows are at the new level
	}
	return end <= change || end-rows >= change
}

// definedScores are the scores of a task by its op's definition.
func definedScores(d detectors.Detector, x []float64, fresh int, carry detectors.Words) []float64 {
	dim := 1
	_, timed := d.(detectors.Timed)
	if timed {
		dim++
	}
	rows := min(len(x), detectors.TaskRows(d, fresh))
	size, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	if !ok {
		return nil
	}
	if s, ok := d.(detectors.Sparing); ok {
		rows = min(rows, s.Reads(detectors.Position{Count: int64(len(x)), Fresh: fresh, Carried: len(carry) > 0}))
	}
	r := detectors.Rows{Dim: dim, Fresh: fresh, Params: d.Params(), Carry: carry,
		Scores: make([]float32, size.Scores), Next: make(detectors.Words, size.Carry), Detail: make(detectors.Words, size.Detail)}
	for i := len(x) - rows; i < len(x); i++ {
		if timed {
			r.X64 = append(r.X64, float64(i))
		}
		if d.Op().Elem() == detectors.I64 {
			r.XI = append(r.XI, detectors.Count(x[i]))
		} else {
			r.X64 = append(r.X64, x[i])
		}
	}
	d.Op().Spec().Score(r)
	want := slices.Repeat([]float64{math.NaN()}, fresh)
	for i, s := range r.Scores {
		want[fresh-len(r.Scores)+i] = float64(s)
	}
	return want
}

// levelSeries is a series of n values with a change of level.
func levelSeries(rng *rand.Rand, n int, from, to, fromNoise, toNoise float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		if x[i] = from + fromNoise*rng.NormFloat64(); i >= n/2 {
			x[i] = to + toNoise*rng.NormFloat64()
		}
	}
	return x
}

// TestScoresAfterAChangeOfLevel compares scores, from the first sample of another level on, with the definition in float64: for a random
// half of the changes, or with ODRADEK_LONG for all.
func TestScoresAfterAChangeOfLevel(t *testing.T) {
	rng := seedtest.New(t)
	testLevels(t, rng, 64)
	testLevels(t, rng, 1024)
}

// testLevels tests windows of n points: all ops on small ones; on large ones the weights that are
// smaller the more points there are.
func testLevels(t *testing.T, rng *rand.Rand, n int) {
	length := 5 * n
	if n > 500 {
		length = 3 * n
	}
	type leveledCase struct {
		x, reference []float64
		step         float64 // in deviations
	}
	newCase := func(step, from, to, fromNoise, toNoise float64) leveledCase {
		return leveledCase{levelSeries(rng, length, from, to, fromNoise, toNoise), levelSeries(rng, n, from, to, fromNoise, toNoise), step}
	}
	cases := map[string]leveledCase{
		"pump down":     newCase(1e10, 101325, 1e-3, 20, 1e-5),
		"start":         newCase(3e4, 0, 1500, 0.05, 0.05),
		"stop":          newCase(3e4, 1500, 0, 0.05, 0.05),
		"another range": newCase(2e6, 20, 2020, 1e-3, 1e-3),
	}
	for exponent := range 10 {
		if n > 500 && exponent%3 != 0 {
			continue
		}
		step := math.Pow(10, float64(exponent))
		cases[fmt.Sprintf("1e%d deviations", exponent)] = newCase(step, 3, 3+step, 1, 1)
	}
	names := slices.Sorted(maps.Keys(cases))
	if os.Getenv("ODRADEK_LONG") == "" {
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:len(names)/2]
	}
	for _, name := range names {
		c := cases[name]
		x := c.x
		for _, d := range leveledDetectors(t, n, c.reference) {
			op := d.detector.Op()
			if n > 500 && (op != knn.Op && op != simple.OpZScore || d.stride == 7 || strings.Contains(d.name, "of 6")) {
				continue
			}
			scores, most, worst := 0, 0.0, 0
			tasks := levelScores(t, d, x)
			for _, task := range tasks {
				var loose []float64
				for i, want := range d.define(x[:task.end], d.stride, task.carry) {
					got := task.scores[i]
					if got != got && want != want {
						continue
					}
					scores++
					e := math.Abs(got-want) / max(want, d.unit)
					if e > 1e-5 && d.loose != nil && (c.step < 1000 || d.isOnOneLevel(task.end, len(x)/2)) {
						if loose == nil {
							loose = d.loose(x[:task.end], d.stride, task.carry)
						}
						e = max(0, e-3*loose[i])
					}
					if !(e <= most) && got != want {
						most, worst = e, task.end-d.stride+i
					}
				}
			}
			if scores == 0 || !(most <= 1e-5) {
				t.Errorf("%d points, %s, %s: %d scores, sample %d of %d has an error of %.2g of a score", n, name, d.name, scores, worst, len(x), most)
			}
		}
	}
}

// leveledTask is a task of a series: the number of samples before its end, the carry that it began with, and the scores of its
// fresh rows, NaN where there is none.
type leveledTask struct {
	end    int
	carry  detectors.Words
	scores []float64
}

// levelScores returns the tasks of a series.
func levelScores(t *testing.T, d leveled, x []float64) (tasks []leveledTask) {
	t.Helper()
	cfg := &Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "d", Detector: d.detector, Stride: d.stride, Fingerprint: 1}}}
	s, e := New(cfg), detectors.NewCPU(1)
	b := e.Batch()
	key := []byte("a")
	for i, v := range x {
		var carry detectors.Words
		if k := s.Keys.Get(key); k != nil {
			carry = slices.Clone(k.Progress[0].Carry)
		}
		s.Rows = s.Rows[:0]
		s.Fold(&Sample{Key: key, Time: int64(i), Offset: int64(i), Values: []float64{v}}, b)
		if len(b.Tasks) == 0 && (len(s.Rows) == 0 || s.Rows[0].State != RowScored) { // nor has it scored one
			continue
		}
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
		task := leveledTask{i + 1, carry, slices.Repeat([]float64{math.NaN()}, d.stride)}
		for _, r := range s.Rows {
			if r.State == RowScored {
				task.scores[int(r.Offset)-(i+1-d.stride)] = float64(r.Score)
			}
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// TestLevelsOfTasks requires that a task is wide by the rows of its window alone: also where a rollback has taken rows back and others
// came in their place.
func TestLevelsOfTasks(t *testing.T) {
	rng := seedtest.New(t)
	const n = 40
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 10})
	if err != nil {
		t.Fatal(err)
	}
	wide, tasks := 0, 0
	for range 60 {
		s := New(&Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
			Detectors: []series.DetectorConfig{{Name: "d", Detector: d, Stride: 1, Fingerprint: 1}}})
		setup := s.dets[0]
		var b detectors.Batch
		key, offset, level, x := []byte("a"), int64(0), 0.0, []float64(nil)
		fold := func() {
			if rng.IntN(2*n) == 0 {
				level = math.Pow(10, 6*rng.Float64())
			}
			v := level + rng.NormFloat64()
			x = append(x, v)
			s.Fold(&Sample{Key: key, Time: offset, Offset: offset, Values: []float64{v}}, &b)
			offset++
			if len(b.Tasks) > 0 {
				rows := int(setup.Full)
				if rows > len(x) {
					t.Fatalf("a task of %d samples", len(x))
				}
				bits := make([]uint64, rows)
				for i, v := range x[len(x)-rows:] {
					bits[i] = math.Float64bits(v)
				}
				from, count := detectors.CenterRows(detectors.CenterRun(rows), rows, offset)
				centers, _ := detectors.Centers(nil, bits, nil, 1, from, count)
				want := detectors.ChangesLevel(setup.Wide, bits, nil, 1, 1, centers)
				if tasks++; want {
					wide++
				}
				if got := b.Tasks[0].Wide(); got != want {
					t.Fatalf("task of sample %d: wide %v, want %v", offset, got, want)
				}
			}
			s.Apply(&b)
			b.Reset()
			s.Rows = s.Rows[:0]
		}
		for range 30 {
			for range 1 + rng.IntN(n) {
				fold()
			}
			s.Mark(offset)
			if err := s.Snapshot(math.MaxInt64, 0, func(_, _ []byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
			s.Committed(offset)
			if rng.IntN(2) == 0 {
				continue
			}
			base, before := offset, level
			for range 1 + rng.IntN(n) {
				fold()
			}
			s.Mark(offset)
			if err := s.Rollback(base); err != nil {
				t.Fatal(err)
			}
			offset, level, x = base, before, x[:base]
		}
	}
	if wide == 0 || wide == tasks {
		t.Errorf("%d of %d tasks are wide", wide, tasks)
	}
}
