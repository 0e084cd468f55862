package detectors

import (
	"regexp"
	"strings"
	"testing"
)

// TestParamTables: rows are what those who read the tables rely on, and the defaults
// make a detector.
func TestParamTables(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	for _, op := range Ops() {
		s := op.Spec()
		seen := map[string]bool{}
		for i := range s.Params {
			p := &s.Params[i]
			fault := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s: %s: "+format, append([]any{s.Name, p.Name}, args...)...)
			}
			if !name.MatchString(p.Name) || seen[p.Name] {
				fault("the name is not one, or is there twice")
			}
			seen[p.Name] = true
			if !p.Setting() {
				if p.Word == 0 || p.Default != nil || p.Derive != nil || p.Stateless {
					fault("a row that is neither a setting nor in tasks alone")
				}
				if p.Type.list() && p.Word != len(s.Words()) {
					fault("more follows what goes to the end")
				}
				continue
			}
			if p.Type.list() || p.Name == TumblingParam && p.Type != Bool || p.Name == WindowParam && (p.Type != Int || p.Derive != nil) {
				fault("a setting of type %d", p.Type)
			}
			if p.Type != Bool && p.Min >= p.Max {
				fault("limits %v and %v", p.Min, p.Max)
			}
			if (p.Derive == nil) != (p.Derived == "") || (p.Derive == nil) != (p.Default != nil) {
				fault("a default, or one that is derived and its words")
			}
			if p.Derive == nil {
				if err := p.check(p.Default); err != nil {
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
			if last := words[len(words)-1]; len(d.Params()) <= last.Offset || !last.Type.list() && len(d.Params()) != last.Offset+1 {
				t.Errorf("%s: %d parameters of a task, the table has them up to %s at %d", s.Name, len(d.Params()), last.Name, last.Offset)
			}
		}
		if _, err := s.Build(Values{"TOLERANC": 1.0}, 1); err == nil || !strings.Contains(err.Error(), "TOLERANC") {
			t.Errorf("%s: an unknown parameter: %v", s.Name, err)
		}
	}
}

func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		op   Op
		v    Values
		want string
	}{
		{LOF, Values{"K": 0}, "K is 0, use at least 1"},
		{LOF, Values{"K": 5000, "DECAY": 2.0}, "DECAY is 2, use at most 0.999999"},
		{LOF, Values{"K": 3.0}, "K has a value of type float64"},
		{LOF, Values{"STRICT": 1}, "STRICT has a value of type int"},
		{LOF, Values{"K": 40}, "use at least 2k = 80"},
		{LOF, Values{"POINTS": 3}, "no parameter POINTS"},
		{SVDSST, Values{"NEGLIGIBLE": 1e-9}, "use at least 1e-7"},
		{Discord, Values{"LENGTH": 2}, "LENGTH is 2, use at least 3"},
		{Discord, Values{"WINDOW": 100, "LENGTH": 60}, "use at least twice as many, 120"},
		{Discord, Values{"WINDOW": 100, "LENGTH": 20, "MAX_LENGTH": 60}, "use at least twice as many, 120"},
		{Discord, Values{"LENGTH": 20, "MAX_LENGTH": 10}, "the longest subsequence is of 10 samples, use the shortest's 20 to 32768"},
		{Discord, Values{"LENGTH": 20, "LENGTHS": 3}, "3 lengths from 20 to 20 samples"},
		{Discord, Values{"LENGTH": 20, "MIN_POINTS": 39}, "use twice the longest subsequence, 40, to the window"},
	} {
		if _, err := tt.op.Spec().Build(tt.v, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v: %v does not mention %q", tt.op, tt.v, err, tt.want)
		}
	}
	d, err := KNN.Spec().Build(Values{WindowParam: 100, "K": 7}, 9)
	if err != nil {
		t.Fatal(err)
	}
	if p := d.(*knnDetector).p; p.Window != 100 || p.K != 7 || p.Embed != 7 || p.MinPoints != 100 {
		t.Errorf("%+v", p)
	}
}

func TestWords(t *testing.T) {
	s := Spec{Params: []Param{{Name: "A", Help: "a"}, {Name: "F", Type: Floats, Word: 5}, {Name: "B", Word: 1},
		{Name: "C", Type: Long, Word: 2}, {Name: "D", Type: Long, Word: 3}, {Name: "E", Type: Bool, Word: 4}}}
	var got []string
	for _, w := range s.Words() {
		got = append(got, w.Name+FormatNumber(float64(w.Offset)))
	}
	if want := "B0 C2 D4 E6 F7"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if s.Word("D") != 4 {
		t.Errorf("D lies at %d", s.Word("D"))
	}
}

// TestTaskParams: the parameters of a task hold the values of the settings, where the
// table says.
func TestTaskParams(t *testing.T) {
	for op, v := range map[Op]Values{
		ZScore:   {"WINDOW": 17},
		Flatline: {"TOLERANCE": 0.5},
		IKASST:   {"WINDOW": 40, "RANK": 4, "KRYLOV": 9, "GAMMA": 77, "POWER_STEPS": 5, "EPSILON": 0.25},
		LOF:      {"WINDOW": 99, "K": 7, "EMBED": 4, "ZNORM": true, "STRICT": true, "ALPHA": 0.75},
		KNN:      {"WINDOW": 99, "K": 7, "EMBED": 4, "INCLUDE_SELF": true},
		SVDSST:   {"WINDOW": 40, "RANK": 4, "GAMMA": 77, "NEGLIGIBLE": 0.25},
		Discord:  {"WINDOW": 99, "LENGTH": 9, "K": 7, "EXCLUDE_FLAT": true},
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
			case Int:
				got = p.Int(w.Offset)
			case Long:
				got = p.Int64(w.Offset)
			case Bool:
				got = p.Bool(w.Offset)
			}
			if got != want {
				t.Errorf("%s: %s is %v in a task, want %v", s.Name, w.Name, got, want)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no setting is in a task", s.Name)
		}
	}
	lof, knn := LOF.Spec(), KNN.Spec()
	for _, tt := range []struct {
		s    *Spec
		v    Values
		want int
	}{
		{lof, Values{"WINDOW": 99}, 99}, {lof, Values{"WINDOW": 99, "TUMBLING": true}, 0},
		{knn, Values{"WINDOW": 99}, 99}, {knn, Values{"TUMBLING": true}, 0},
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

func TestFormatNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 16777216: "16777216", 0.001: "0.001", 1e-9: "1e-9", 1e30: "1e30", 1.5e-12: "1.5e-12",
		-3: "-3", 0.999999: "0.999999"} {
		if got := FormatNumber(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}
