package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBounds: every setting with a limit, of the worker and of each op, refuses the next value beyond it, under its
// name, and is not refused at it for being out of range.
func TestBounds(t *testing.T) {
	tried := map[string]int{}
	for _, op := range opNames() {
		base := []string{"ODRADEK_DETECTORS=d", "ODRADEK_DETECTOR_D_OP=" + op, "ODRADEK_GROUP_BY=^a"}
		if op == ensembleSpec.Name {
			base = []string{"ODRADEK_DETECTORS=a,b,d", "ODRADEK_DETECTOR_D_OP=" + op, "ODRADEK_DETECTOR_D_MEMBERS=a,b"}
		}
		c, _, _ := Parse(minimal(base...))
		ends := map[string]int{}
		for _, s := range c.settings {
			field := s.field
			if field.Kind() == reflect.Pointer {
				field = reflect.New(field.Type().Elem()).Elem()
			}
			if _, ok := number(field); !ok || tried[s.name] > 0 && !strings.HasPrefix(s.name, DetectorPrefix("d")) {
				continue
			}
			for _, bound := range []struct {
				tag  string
				step int
			}{{"min", -1}, {"max", 1}} {
				text := s.tag.Get(bound.tag)
				if text == "" {
					continue
				}
				beyond := strconv.FormatFloat(limit(field, text)+float64(bound.step), 'f', -1, 64)
				switch {
				case field.Type() == reflect.TypeFor[time.Duration]():
					beyond = time.Duration(limit(field, text) + float64(bound.step)*float64(time.Millisecond)).String()
				case field.CanFloat():
					v := limit(field, text)
					beyond = strconv.FormatFloat(v+float64(bound.step)*(1e-9*math.Abs(v)+1e-12), 'g', -1, 64)
				}
				ends[s.name]++
				overflow := s.name + `: "` + beyond + `" is not a whole number` // of 32 bits
				if _, faults, _ := Parse(minimal(append(base, s.name+"="+beyond)...)); !outOfRange(faults, s.name) &&
					!strings.Contains(fmt.Sprint(faults), overflow) {
					t.Errorf("op %s, %s=%s, beyond %s=%s: faults are %v", op, s.name, beyond, bound.tag, text, faults)
				}
				if _, faults, _ := Parse(minimal(append(base, s.name+"="+text)...)); outOfRange(faults, s.name) {
					t.Errorf("op %s, %s=%s, its %s: faults are %v", op, s.name, text, bound.tag, faults)
				}
			}
		}
		for name, n := range ends {
			tried[name] += n
		}
	}
	for _, name := range []string{"WARMUP_FROM", "GROUP_WINDOW", "DETECTOR_D_SMOOTH", "DETECTOR_D_MEMORY", "DETECTOR_D_MIN_POINTS",
		"DETECTOR_D_ORDER", "DETECTOR_D_BINS", "DETECTOR_D_EMBED", "DETECTOR_D_ALARMS_PER_DAY", "DETECTOR_D_STRIDE"} {
		if tried[Prefix+name] == 0 {
			t.Errorf("%s has no limit that was tried", name)
		}
	}
	t.Logf("%d settings", len(tried))
}

func outOfRange(faults []Fault, name string) bool {
	for _, f := range faults {
		if f.Name == name && (strings.HasSuffix(f.Problem, "is too small") || strings.HasSuffix(f.Problem, "is too large")) {
			return true
		}
	}
	return false
}
