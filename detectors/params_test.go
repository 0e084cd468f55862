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
				if !p.Task || p.Default != nil || p.Derive != nil || p.Stateless {
					fault("a row that is neither a setting nor in tasks alone")
				}
				if p.Type == Floats && i < len(s.Params)-1 {
					fault("more follows what goes to the end")
				}
				continue
			}
			if p.Type == Floats || p.Name == TumblingParam && p.Type != Bool || p.Name == WindowParam && (p.Type != Int || p.Derive != nil) {
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
		for _, dim := range []int{1, 3, 100} {
			d, err := s.Build(nil, dim)
			if err != nil {
				t.Errorf("%s by its defaults: %v", s.Name, err)
				continue
			}
			words := s.Words()
			if last := words[len(words)-1]; len(d.Params()) <= last.Offset || last.Type != Floats && len(d.Params()) != last.Offset+1 {
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
	} {
		if _, err := tt.op.Spec().Build(tt.v, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v: %v does not speak of %q", tt.op, tt.v, err, tt.want)
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
	s := Spec{Params: []Param{{Name: "A", Help: "a"}, {Name: "B", Task: true}, {Name: "C", Type: Long, Task: true}, {Name: "D", Type: Long, Task: true},
		{Name: "E", Type: Bool, Task: true}, {Name: "F", Type: Floats, Task: true}}}
	var got []string
	for _, w := range s.Words() {
		got = append(got, w.Name+FormatNumber(float64(w.Offset)))
	}
	if want := "B0 C2 D4 E6 F7"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
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
