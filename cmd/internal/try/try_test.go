package try

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
)

// TestContent: a value of a suite is the bytes that a producer would write: a text as it is, anything else as JSON with its fields in
// order and its numbers as they are written.
func TestContent(t *testing.T) {
	for text, want := range map[string]string{
		`line of text`:                       `line of text`,
		`'{"b": 1.50}'`:                      `{"b": 1.50}`,
		`{b: 1.50, a: [1e3, -0, x, true]}`:   `{"b":1.50,"a":[1e3,-0,"x",true]}`,
		`{big: 123456789012345678901}`:       `{"big":123456789012345678901}`,
		`{hex: 0x10, plus: +5, half: .5}`:    `{"hex":16,"plus":5,"half":0.5}`,
		`{none: null, "quoted": "12"}`:       `{"none":null,"quoted":"12"}`,
		`{time: 2026-03-01T00:00:00Z}`:       `{"time":"2026-03-01T00:00:00Z"}`,
		"{first: &one {v: 1}, second: *one}": `{"first":{"v":1},"second":{"v":1}}`,
	} {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		got, err := content(n.Content[0])
		if err != nil || string(got) != want || want[0] == '{' && !json.Valid(got) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(`{v: .nan}`), &n); err != nil {
		t.Fatal(err)
	}
	if got, err := content(n.Content[0]); err == nil {
		t.Errorf("not a number is %s", got)
	}
}

// TestMerge: the records of several partitions are shown by their timestamps, each partition in its own order.
func TestMerge(t *testing.T) {
	r := seedtest.New(t)
	for range 500 {
		parts := make([][]*Record, 1+r.IntN(4))
		total := 0
		for p := range parts {
			for i := range r.IntN(6) {
				parts[p] = append(parts[p], &Record{Partition: int32(p), Offset: int64(i), Timestamp: int64(10*i + r.IntN(10))})
				total++
			}
		}
		n, first := r.IntN(12), r.IntN(2) == 0
		all := slices.Concat(parts...)
		list := merge(slices.Clone(parts), n, first)
		if len(list) != min(n, total) {
			t.Fatalf("%d records of %d, want %d", len(list), total, min(n, total))
		}
		if !slices.IsSortedFunc(list, func(a, b *Record) int { return int(a.Timestamp - b.Timestamp) }) {
			t.Fatal("not by their timestamps")
		}
		next := map[int32]int64{}
		for _, rec := range list {
			if at, ok := next[rec.Partition]; ok && rec.Offset != at {
				t.Fatalf("partition %d: offset %d, want %d", rec.Partition, rec.Offset, at)
			}
			next[rec.Partition] = rec.Offset + 1
		}
		for _, rec := range all { // what is left out is older than what is shown, or newer
			if len(list) > 0 && !slices.Contains(list, rec) &&
				(first && rec.Timestamp < list[len(list)-1].Timestamp || !first && rec.Timestamp > list[0].Timestamp) {
				t.Fatalf("a record of %d is left out of %d to %d", rec.Timestamp, list[0].Timestamp, list[len(list)-1].Timestamp)
			}
		}
	}
}

// TestCompare: of what differs, a suite says which sample is missing, which one is too many, and which value is another one; what is equal
// and stands in another place is no difference of its own.
func TestCompare(t *testing.T) {
	sample := func(key string, v float64) got {
		return got{sample: &Sample{Key: key, Values: []Value{{Field: "v", Value: &v}}}, outcome: Read, record: &Result{Line: 1}}
	}
	want := func(key string, v float64) WantSample {
		return WantSample{Key: &key, Values: map[string]*float64{"v": &v}}
	}
	abc := []WantSample{want("a", 1), want("b", 2), want("c", 3)}
	for _, x := range []struct {
		name string
		have []got
		want []string // words of each difference
	}{
		{"equal", []got{sample("a", 1), sample("b", 2), sample("c", 3)}, nil},
		{"equal but for rounding", []got{sample("a", 1+1e-12), sample("b", 2), sample("c", 3)}, nil},
		{"another value", []got{sample("a", 1), sample("b", 2.5), sample("c", 3)}, []string{"sample 2: "}},
		{"one too many", []got{sample("a", 1), sample("x", 9), sample("b", 2), sample("c", 3)}, []string{"sample 2: not expected here: "}},
		{"one is missing", []got{sample("a", 1), sample("c", 3)}, []string{"which is not there"}},
		{"none", nil, []string{"which is not there", "which is not there", "which is not there"}},
	} {
		wrong := compare("sample", abc, x.have)
		if len(wrong) != len(x.want) {
			t.Errorf("%s: %q, want %d differences", x.name, wrong, len(x.want))
			continue
		}
		for i, words := range x.want {
			if !strings.Contains(wrong[i], words) {
				t.Errorf("%s: %q, want %q", x.name, wrong[i], words)
			}
		}
	}
}

// TestComputedNulls: a record whose values are all computed as null is no sample where each value is a series, and is not read.
func TestComputedNulls(t *testing.T) {
	c, faults, _ := config.Parse([]string{"ODRADEK_FORMAT=json", "ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KEY_FIELD=id",
		"ODRADEK_SERIES_FIELDS=gauge,counter", "ODRADEK_DETECTORS=z", "ODRADEK_DETECTOR_Z_OP=zscore",
		"ODRADEK_COMPUTE=gauge=kind == 1.0 ? v : dyn(null), counter=kind == 2.0 ? v : dyn(null)"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	trial := New(c, nil)
	defer trial.Close()
	for i := range 3 {
		if err := trial.Read(t.Context(), &Record{Topic: "t", Offset: int64(i), Timestamp: int64(i),
			Value: fmt.Appendf(nil, `{"id":"a","kind":%d,"v":5}`, 1+i)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := trial.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Summary(list), "3 records: 2 read, 1 unmapped"; got != want || list[2].Outcome != Unmapped {
		t.Errorf("%s, want %s; the last is %s: %s", got, want, list[2].Outcome, list[2].Reason)
	}
}

// runSuite runs the tests of a text, and returns what is not as expected, and the lines of what became of their records.
func runSuite(t *testing.T, text string) (wrong, lines []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plant_test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSuite(path)
	if err != nil {
		t.Fatal(err)
	}
	environ, faults := s.Environ(nil)
	c, more, _ := config.Parse(environ)
	if faults = append(faults, more...); len(faults) > 0 {
		t.Fatal(faults)
	}
	for i := range s.Tests {
		differs, results, err := s.Run(t.Context(), &s.Tests[i], c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			lines = append(lines, r.Lines()...)
		}
		wrong = append(wrong, differs...)
	}
	return wrong, lines
}

// TestHeldAtTheEnd: what LATENESS holds is taken at the end, also where intervals have ended before that no later record has closed.
func TestHeldAtTheEnd(t *testing.T) {
	wrong, _ := runSuite(t, `
settings: {group: g, topics: [t], format: json, key_field: id, time_field: at, time_unit: s, value_fields: [c], transform: [c=rate],
  every: 1m, lateness: 5s, detectors: {z: {op: zscore}}}
tests:
- records:
  - value: {id: a, at: 100, c: 100}
  - value: {id: a, at: 300, c: 300}
  - value: {id: a, at: 301, c: 310}
  samples: [{outcome: missing, values: {c: null}}, {values: {c: 1}}, {values: {c: 10}}]
`)
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// TestIntervals: of a record the intervals are shown that it closes, and a test says what they should be.
func TestIntervals(t *testing.T) {
	suite := `
settings: {group: g, topics: [t], format: json, key_field: id, time_field: at, time_unit: s, series_fields: [m.*], every: 1m,
  aggregate: [median, m.y=count], lateness: 5s, detectors: {z: {op: zscore}}}
tests:
- records:
  - value: {id: a, at: 60, m: {x: 1, y: 10}}
  - value: {id: a, at: 70, m: {x: 3, y: null}}
  - value: {id: a, at: 80, m: {x: 8}}
  - value: {id: a, at: 121, m: {x: 5}}
  - value: {id: a, at: 400, m: {x: 7, y: 9}}
  intervals:
  - {key: a/m.x, time: "1970-01-01T00:01:00Z", values: {m.x: 3}}
  - {key: a/m.y, time: "1970-01-01T00:01:00Z", values: {m.y: 1}}
  - {key: a/m.x, time: "1970-01-01T00:02:00Z", values: {m.x: 5}}
`
	wrong, lines := runSuite(t, suite)
	if line := "  closes the interval  a/m.x  1970-01-01T00:01:00Z  m.x=3"; len(wrong) > 0 || !slices.Contains(lines, line) {
		t.Errorf("%q\n%s\nwant %s", wrong, strings.Join(lines, "\n"), line)
	}
	wrong, _ = runSuite(t, strings.Replace(suite, "{m.x: 3}", "{m.x: 4}", 1))
	if !slices.Equal(wrong, []string{"interval 1: want m.x=4, got 3"}) {
		t.Errorf("%q", wrong)
	}
}
