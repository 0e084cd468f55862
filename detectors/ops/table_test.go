package ops_test

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
)

func TestOpTable(t *testing.T) {
	for i, o := range detectors.Ops() {
		s := o.Spec()
		if int(o) != i {
			t.Errorf("op %s has number %d; the numbers leave none out, so use %d", s.Name, o, i)
		}
		if s.Name == "" || s.Score == nil || s.CPU == nil || s.Cost == nil || s.Compare == nil || s.Cases == nil {
			t.Errorf("op %d: an empty field in its row", o)
		}
		if got, ok := detectors.OpByName(o.String()); !ok || got != o {
			t.Errorf("OpByName(%q) = %d, %v; want %d", o, got, ok, o)
		}
	}
	if _, ok := detectors.OpByName("zsocre"); ok {
		t.Error("OpByName found a name that there is not")
	}
	if got := detectors.Op(1000).String(); got != "op(1000)" {
		t.Errorf("an unknown op is %q", got)
	}
}

// TestCompareNotices requires that no Compare accepts everything, which would make the conformance
// suite meaningless.
func TestCompareNotices(t *testing.T) {
	nan := float32(math.NaN())
	for _, op := range detectors.Ops() {
		s, rng := op.Spec(), rand.New(rand.NewPCG(1, uint64(op))) // of its own: no op's cases depend on another's
		c := s.Cases(rng)[0]                                      // noise, or what gives a score above 0
		fresh := c.Fresh[0]
		n := c.Detector.Window() + fresh - 1
		size, _ := c.Detector.Size(detectors.View{Dim: c.Dim, Rows: n, Fresh: fresh})
		carry := size.Carry
		r := detectors.Rows{Dim: c.Dim, Fresh: fresh, Params: c.Detector.Params(), Scores: make([]float32, fresh),
			Next:   make(detectors.Words, carry),
			Detail: make(detectors.Words, size.Detail)}
		for _, v := range c.Rows[:n*c.Dim] {
			switch op.Elem() {
			case detectors.F64:
				r.X64 = append(r.X64, v)
			case detectors.I64:
				r.XI = append(r.XI, detectors.Count(v))
			default:
				r.X = append(r.X, float32(v))
			}
		}
		s.Score(r)
		want := detectors.Result{Scores: r.Scores, Next: r.Next, Detail: r.Detail}
		f := func(name string, ok bool, change func(got *detectors.Result)) {
			t.Helper()
			got := detectors.Result{Scores: append([]float32(nil), r.Scores...), Next: append(detectors.Words(nil), r.Next...),
				Detail: append(detectors.Words(nil), r.Detail...)}
			change(&got)
			if err := s.Compare(&r, got, want); (err == nil) != ok {
				t.Errorf("%s: %s: Compare says %v", op, name, err)
			}
		}
		last, top := fresh-1, 0 // the largest score is above 0
		for i, score := range r.Scores {
			if score > r.Scores[top] || r.Scores[top] != r.Scores[top] {
				top = i
			}
		}
		f("the same", true, func(*detectors.Result) {})
		f("a rounding", true, func(g *detectors.Result) { g.Scores[top] *= 1 + 0x1p-22 })
		f("a score off by 1e-3 of it", false, func(g *detectors.Result) { g.Scores[top] *= 1.001 })
		f("a NaN", false, func(g *detectors.Result) { g.Scores[top] = nan })
		f("a score too few", false, func(g *detectors.Result) { g.Scores = g.Scores[:last] })
		if carry > 0 {
			f("a carry off by 1e-3", false, func(g *detectors.Result) { g.Next.F32()[carry-1] += 1e-3 })
			f("no carry", false, func(g *detectors.Result) { g.Next = nil })
		}
		if size.Detail > 0 {
			word := 0
			if op == discord.OpTop {
				word = 2 // the place: before it is a distance, of which 1 is a rounding
			}
			f("a word of detail that is another", false, func(g *detectors.Result) { g.Detail[word] ^= 1 << 22 })
			f("no detail", false, func(g *detectors.Result) { g.Detail = nil })
		}
	}
}

// list reports whether a parameter is a list, which ends the parameters of a task.
func list(p detectors.ParamType) bool { return p == detectors.Floats || p == detectors.Ints }

// TestParamTables requires what the readers of the tables rely on, and that the defaults make a
// detector.
func TestParamTables(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	for _, op := range detectors.Ops() {
		s := op.Spec()
		type row struct {
			name    string
			setting bool // a setting and a row of tasks alone may have one name: words in one, numbers in the other
		}
		seen := map[row]bool{}
		for i := range s.Params {
			p := &s.Params[i]
			fault := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s: %s: "+format, append([]any{s.Name, p.Name}, args...)...)
			}
			if !name.MatchString(p.Name) || seen[row{p.Name, p.Setting()}] {
				fault("the name is not one, or is there twice")
			}
			seen[row{p.Name, p.Setting()}] = true
			if !p.Setting() {
				if p.Word == 0 || p.Default != nil || p.Derive != nil || p.Stateless {
					fault("a row that is neither a setting nor in tasks alone")
				}
				if list(p.Type) && p.Word != len(s.Words()) {
					fault("more follows what goes to the end")
				}
				continue
			}
			if list(p.Type) || p.Name == detectors.TumblingParam && p.Type != detectors.Bool || p.Name == detectors.WindowParam &&
				(p.Type != detectors.Int || p.Derive != nil) {
				fault("a setting of type %d", p.Type)
			}
			if (p.Type == detectors.Text) != (p.Values != "") {
				fault("what a text may be is for texts, and needed")
			}
			if p.Type != detectors.Bool && p.Type != detectors.Choice && p.Type != detectors.Text && p.Min >= p.Max {
				fault("limits %v and %v", p.Min, p.Max)
			}
			if (p.Derive == nil) != (p.Derived == "") || (p.Derive == nil) != (p.Default != nil) {
				fault("a default, or one that is derived and its words")
			}
			if p.Derive == nil {
				if _, err := s.Build(detectors.Values{p.Name: p.Default}, 1); err != nil {
					fault("default: %v", err)
				}
			}
		}
		for i, w := range s.Words() {
			if w.Param.Word != i+1 {
				t.Errorf("%s: %s is word %d, and %d before it are there", s.Name, w.Name, w.Param.Word, i)
			}
		}
		for _, dim := range []int{1, 3, 100} {
			d, err := s.Build(nil, dim)
			if err != nil {
				t.Errorf("%s by its defaults: %v", s.Name, err)
				continue
			}
			words := s.Words()
			if len(words) == 0 { // an op without parameters
				continue
			}
			last := words[len(words)-1]
			end := last.Offset + 1
			if last.Type == detectors.Long {
				end++
			}
			if len(d.Params()) < end || !list(last.Type) && len(d.Params()) != end {
				t.Errorf("%s: %d parameters of a task, the table has them up to %s at %d", s.Name, len(d.Params()), last.Name, last.Offset)
			}
		}
		if _, err := s.Build(detectors.Values{"TOLERANC": 1.0}, 1); err == nil || !strings.Contains(err.Error(), "TOLERANC") {
			t.Errorf("%s: an unknown parameter: %v", s.Name, err)
		}
	}
}

func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		op   detectors.Op
		v    detectors.Values
		want string
	}{
		{lof.Op, detectors.Values{"K": 0}, "K is 0, use at least 1"},
		{lof.Op, detectors.Values{"K": 5000, "DECAY": 2.0}, "DECAY is 2, use at most 0.999999"},
		{lof.Op, detectors.Values{"K": 3.0}, "K has a value of type float64"},
		{lof.Op, detectors.Values{"ZNORM": 1}, "ZNORM has a value of type int"},
		{lof.Op, detectors.Values{"FLOOR": "strict"}, `FLOOR is "strict", use one of resolution, added, none`},
		{lof.Op, detectors.Values{"K": 40}, "use at least 2k = 80"},
		{lof.Op, detectors.Values{"POINTS": 3}, "no parameter POINTS"},
		{sst.OpSVD, detectors.Values{"NEGLIGIBLE": 1e-9}, "use at least 1e-7"},
		{knn.OpSolvingSet, detectors.Values{"MAX_AGE": detectors.Micros(-5e6)}, "MAX_AGE is -5s, use at least 0s"},
		{knn.OpSolvingSet, detectors.Values{"MINE_INTERVAL": detectors.Micros(1e15)}, "use at most 87600h"},
		{knn.OpSolvingSet, detectors.Values{"MINE_INTERVAL": int64(5)}, "MINE_INTERVAL has a value of type int64"},
		{discord.Op, detectors.Values{"LENGTH": 2}, "LENGTH is 2, use at least 3"},
		{discord.Op, detectors.Values{"K": 2, "EXACT_ABOVE": 0.9}, "use k = 1, or 0 for exact scores"},
		{discord.Op, detectors.Values{"WINDOW": 100, "LENGTH": 60}, "use at least twice as many, 120"},
		{discord.Op, detectors.Values{"WINDOW": 100, "LENGTH": 20, "MAX_LENGTH": 60}, "use at least twice as many, 120"},
		{discord.Op, detectors.Values{"LENGTH": 20, "MAX_LENGTH": 10},
			"the longest subsequence is of 10 samples, use the shortest's 20 to 32768"},
		{discord.Op, detectors.Values{"LENGTH": 20, "LENGTHS": 3}, "3 lengths from 20 to 20 samples"},
		{discord.Op, detectors.Values{"LENGTH": 20, "MIN_POINTS": 39}, "use twice the longest subsequence, 40, to the window"},
	} {
		if _, err := tt.op.Spec().Build(tt.v, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v: %v does not mention %q", tt.op, tt.v, err, tt.want)
		}
	}
}

// TestTaskParams requires that the parameters of a task hold the values of the settings at the places
// of the table.
func TestTaskParams(t *testing.T) {
	for op, v := range map[detectors.Op]detectors.Values{
		simple.OpZScore:   {"WINDOW": 17},
		simple.OpFlatline: {"TOLERANCE": 0.5},
		sst.OpIKA:         {"WINDOW": 40, "RANK": 4, "KRYLOV": 9, "GAMMA": 77, "POWER_STEPS": 5, "EPSILON": 0.25},
		lof.Op:            {"WINDOW": 99, "K": 7, "EMBED": 4, "ZNORM": true, "FLOOR": "none", "ALPHA": 0.75},
		knn.Op:            {"WINDOW": 99, "K": 7, "EMBED": 4, "INCLUDE_SELF": true, "ZNORM": true},
		knn.OpSolvingSet: {"WINDOW": 99, "K": 7, "EMBED": 4, "ZNORM": true, "TOP": 3, "MODEL_POINTS": 80, "MIN_POINTS": 20,
			"MAX_AGE": detectors.Micros(7e12)},
		sst.OpSVD:  {"WINDOW": 40, "RANK": 4, "GAMMA": 77, "NEGLIGIBLE": 0.25},
		discord.Op: {"WINDOW": 99, "LENGTH": 9, "K": 7, "EXCLUDE_FLAT": true},
	} {
		s := op.Spec()
		d, err := s.Build(v, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, seen := d.Params(), 0
		for _, w := range s.Words() {
			want, ok := v[w.Name]
			if !ok {
				continue
			}
			seen++
			var got any = float64(p.Float32(w.Offset))
			switch w.Type {
			case detectors.Int:
				got = p.Int(w.Offset)
			case detectors.Long:
				got = p.Int64(w.Offset)
			case detectors.Time:
				got = detectors.Micros(p.Int64(w.Offset))
			case detectors.Bool:
				got = p.Bool(w.Offset)
			case detectors.Choice:
				got = w.Choices[p.Int(w.Offset)]
			}
			if got != want {
				t.Errorf("%s: %s is %v in a task, want %v", s.Name, w.Name, got, want)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no setting is in a task", s.Name)
		}
	}
	lof, knn := lof.Op.Spec(), knn.Op.Spec()
	for _, tt := range []struct {
		s    *detectors.Spec
		v    detectors.Values
		want int
	}{
		{lof, detectors.Values{"WINDOW": 99}, 99}, {lof, detectors.Values{"WINDOW": 99, "TUMBLING": true}, 0},
		{knn, detectors.Values{"WINDOW": 99}, 99}, {knn, detectors.Values{"TUMBLING": true}, 0},
	} {
		d, err := tt.s.Build(tt.v, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Params().Int(tt.s.Word("POINTS")); got != tt.want {
			t.Errorf("%s: %v: POINTS is %v, want %v", tt.s.Name, tt.v, got, tt.want)
		}
	}
}
