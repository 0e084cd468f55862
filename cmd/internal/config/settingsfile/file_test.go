package settingsfile_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"odradek/cmd/internal/config/settingsfile"
	"odradek/detectors/seedtest"
)

func parse(text string) *settingsfile.File {
	return settingsfile.Parse([]byte(text), "ODRADEK_", func(name string) string {
		return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	})
}

func TestParse(t *testing.T) {
	f := parse(`
group: plant          # a comment
ODRADEK_TOPICS: [sensors, "pumps"]
Start: 2026-01-01T00:00:00Z
kafka_tls: off
workers: 010
ttl:
keys_flat: a,b
base: &base
  threshold: mad:6
detectors:
  near-1: {op: knn, keys: [pump-*, "!pump-test*"]}
  level: &level
    threshold: "conformal:0.001"
  again: *level
  plain:
mappings:
  line-1: {topics: [a, b], key_field: id}
`)
	var got []string
	for _, e := range f.Settings {
		got = append(got, fmt.Sprintf("%d %s=%s %t %s", e.Line, e.Name, e.Value, e.List, e.Detector+e.Mapping))
	}
	want := []string{
		"2 GROUP=plant false ", "3 TOPICS=sensors,pumps true ", "4 START=2026-01-01T00:00:00Z false ", "5 KAFKA_TLS=off false ",
		"6 WORKERS=010 false ", "7 TTL= false ", "8 KEYS_FLAT=a,b false ",
		"12 DETECTOR_NEAR_1_OP=knn false near-1", "12 DETECTOR_NEAR_1_KEYS=pump-*,!pump-test* true near-1",
		"14 DETECTOR_LEVEL_THRESHOLD=conformal:0.001 false level", "14 DETECTOR_AGAIN_THRESHOLD=conformal:0.001 false again",
		"18 MAPPING_LINE_1_TOPICS=a,b true line-1", "18 MAPPING_LINE_1_KEY_FIELD=id false line-1",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d := strings.Join(f.Detectors, " "); d != "near-1 level again plain" || f.DetectorsLine != 11 {
		t.Errorf("detectors %s, line %d", d, f.DetectorsLine)
	}
	if len(f.Faults) != 1 || f.Faults[0].Line != 9 || !strings.Contains(f.Faults[0].Problem, "base is a mapping") {
		t.Errorf("faults %v, want one, of base", f.Faults)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "~\n"} {
		if f := parse(empty); len(f.Settings)+len(f.Faults) > 0 || f.Broken {
			t.Errorf("%q: %+v", empty, f)
		}
	}
}

func TestParseFaults(t *testing.T) {
	f := parse(`group: a
topics: [a, [b]]
group: b
fields: [a, ~]
keys: ["a,b"]
ttl: !!int 5
kafka: {brokers: [a]}
detectors:
  near: {k: 5}
  near: {k: 6}
  level: knn
detector_near_k: 7
`)
	want := map[int]string{2: "is a list", 3: "group is given twice, first in line 1", 4: "is empty", 5: "has a comma", 6: "has the tag !!int",
		7: "kafka is a mapping", 10: "detector near is given twice", 11: `detector level is the text "knn"`, 12: "given twice, first in line 9"}
	for _, fault := range f.Faults {
		if want[fault.Line] == "" || !strings.Contains(fault.Problem, want[fault.Line]) {
			t.Errorf("line %d: %s; want %q", fault.Line, fault.Problem, want[fault.Line])
		}
		delete(want, fault.Line)
	}
	if len(want) > 0 {
		t.Errorf("no fault of %v", want)
	}
	for text, line := range map[string]int{"a: 1\nb: c: d\n": 2, "a: [1\n": 1, "- a\n- b\n": 1, "word": 1, "\ta: 1": 0} {
		if f := parse(text); !f.Broken || len(f.Faults) != 1 || f.Faults[0].Line != line || len(f.Settings) > 0 {
			t.Errorf("%q: %+v, want one fault of line %d", text, f, line)
		}
	}
	if f := parse("a: 1\n---\nb: 2\n"); len(f.Faults) != 1 || f.Faults[0].Line == 0 {
		t.Errorf("two documents: %+v", f)
	}
}

// TestFormat: for any texts that a file is made of, reading it gives them back, and YAML's own reader takes it.
func TestFormat(t *testing.T) {
	rng := seedtest.New(t)
	for range 500 {
		var list []settingsfile.Setting
		var want []string
		for i := range 1 + rng.IntN(6) {
			s := settingsfile.Setting{Section: "S", Key: fmt.Sprintf("key_%d", i), Value: text(rng), List: rng.IntN(2) == 0, Off: rng.IntN(4) == 0,
				Comment: strings.Repeat("a comment: with #, ", rng.IntN(9))}
			if i > 3 {
				s.Detector = []string{"a-b", "true"}[i-4]
			} else if i > 1 {
				s.Mapping = []string{"null", "l"}[i-2]
			}
			if s.Value = strings.ReplaceAll(s.Value, ",", ""); s.List {
				s.Value = strings.Trim(s.Value+","+text(rng), ",")
			}
			list = append(list, s)
			if !s.Off {
				name := strings.ToUpper(s.Key)
				if s.Detector != "" {
					name = "DETECTOR_" + strings.ToUpper(strings.ReplaceAll(s.Detector, "-", "_")) + "_" + name
				} else if s.Mapping != "" {
					name = "MAPPING_" + strings.ToUpper(s.Mapping) + "_" + name
				}
				want = append(want, name+"="+s.Value)
			}
		}
		out := settingsfile.Format("Head.", list)
		f := parse(out)
		var got []string
		for _, e := range f.Settings {
			got = append(got, e.Name+"="+e.Value)
		}
		if !reflect.DeepEqual(got, want) || len(f.Faults) > 0 {
			t.Fatalf("%s\nread as %q (%v), want %q", out, got, f.Faults, want)
		}
		var m map[string]any
		if err := yaml.Unmarshal([]byte(out), &m); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
	}
}

func text(rng *rand.Rand) string {
	words := []string{"off", "null", "~", "5", "1e9", "a b", "#x", "x #y", ": ", "a: b", "[", "{}", "*", "!x", "&y", "'", `"`,
		"%", "@key", "-", "é\u2028", "<<", "0x1f", "| ", "\\", "\t"}
	var b strings.Builder
	for range 1 + rng.IntN(3) {
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}
