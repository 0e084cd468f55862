package try

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"odradek/cmd/internal/config"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/schemas/registry"
)

// Suite is a file of a user's tests: each gives records, and what is expected of them.
type Suite struct {
	Config   string    `yaml:"config"`   // settings file, from the folder of the suite
	Settings yaml.Node `yaml:"settings"` // in the form of a settings file; they override the settings of Config
	Tests    []Test    `yaml:"tests"`

	dir string
}

// Test is a test of a suite.
type Test struct {
	Name  string `yaml:"name"`
	Topic string `yaml:"topic"` // that the records stand for; the first of the settings by default
	// One of these has the records.
	Records []RecordText `yaml:"records"`
	File    string       `yaml:"file"` // as File reads it, from the folder of the suite
	CSV     string       `yaml:"csv"`  // the content of such a file

	Samples   *[]WantSample `yaml:"samples"`   // in the order of the records; nil: any
	Intervals *[]WantSample `yaml:"intervals"` // that records close, in their order (EVERY); nil: any
	Anomalies []WantAnomaly `yaml:"anomalies"`
}

// RecordText is a record of a test.
type RecordText struct {
	Key       yaml.Node `yaml:"key"`       // a text as it is, anything else as JSON
	Timestamp string    `yaml:"timestamp"` // in Kafka
	Partition int32     `yaml:"partition"`
	Value     yaml.Node `yaml:"value"` // a text as it is, null for none, anything else as JSON
	Base64    string    `yaml:"base64"`
}

// WantSample is what is expected of a sample, or of a record without samples. What is not given is not compared.
type WantSample struct {
	Outcome Outcome             `yaml:"outcome"` // Read by default
	Reason  string              `yaml:"reason"`  // a part of it, or the class of a dead letter
	Key     *string             `yaml:"key"`
	Time    string              `yaml:"time"`
	Values  map[string]*float64 `yaml:"values"` // that enter windows; null: missing
}

// WantAnomaly is how many anomalies are expected.
type WantAnomaly struct {
	Detector string `yaml:"detector"` // "": any
	Key      string `yaml:"key"`      // "": any
	From     string `yaml:"from"`     // they overlap this interval
	To       string `yaml:"to"`
	AtLeast  *int   `yaml:"at_least"` // 1 by default, 0 with AtMost
	AtMost   *int   `yaml:"at_most"`
}

// most bounds the records of a test.
const most = 1_000_000

// OpenSuite reads a suite.
func OpenSuite(path string) (*Suite, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("try: %w", err)
	}
	s := &Suite{dir: filepath.Dir(path)}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("try: %s: %w", path, err)
	}
	if len(s.Tests) == 0 {
		return nil, fmt.Errorf("try: %s has no tests: write them below \"tests\"", path)
	}
	for i := range s.Tests {
		t := &s.Tests[i]
		t.Name = cmp.Or(t.Name, fmt.Sprintf("test %d", i+1))
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("try: %s: %s: %w", path, t.Name, err)
		}
	}
	return s, nil
}

// check returns why a test makes no sense.
func (t *Test) check() error {
	given := 0
	for _, there := range []bool{len(t.Records) > 0, t.File != "", t.CSV != ""} {
		if there {
			given++
		}
	}
	if given != 1 {
		return errors.New("give its records in one of records, file and csv")
	}
	if t.Samples == nil && t.Intervals == nil && len(t.Anomalies) == 0 {
		return errors.New("it expects nothing: give samples, intervals or anomalies")
	}
	for _, list := range []*[]WantSample{t.Samples, t.Intervals} {
		if list == nil {
			continue
		}
		for _, w := range *list {
			if w.Outcome != "" && !slices.Contains(Outcomes, w.Outcome) {
				return fmt.Errorf("no outcome %q: use one of %v", w.Outcome, Outcomes)
			}
			if _, err := moment(w.Time); err != nil {
				return err
			}
		}
	}
	for _, w := range t.Anomalies {
		if _, _, err := w.interval(); err != nil {
			return err
		}
	}
	return nil
}

// moment reads a time; "" is the zero time.
func moment(text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
		err = fmt.Errorf("%q is not a time like 2026-01-31T08:00:00Z", text)
	}
	return at, err
}

// Environ returns the variables of the suite's settings. environ is the environment, of which a suite takes only the registry.
func (s *Suite) Environ(environ []string) ([]string, []config.Fault) {
	own := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, config.Prefix) && !strings.HasPrefix(v, config.Prefix+"SCHEMA_REGISTRY_")
	})
	if s.Config != "" {
		own = append(own, config.Prefix+"CONFIG="+filepath.Join(s.dir, s.Config))
	}
	if s.Settings.Kind == 0 {
		return own, nil
	}
	text, err := yaml.Marshal(&s.Settings)
	if err != nil {
		return nil, []config.Fault{{Name: "settings", Problem: err.Error()}}
	}
	given, faults := config.Variables(text)
	return append(own, given...), faults
}

// RowsOnly reports whether all records of the suite are rows of tables.
func (s *Suite) RowsOnly() bool {
	return !slices.ContainsFunc(s.Tests, func(t Test) bool { return t.CSV == "" && !IsTable(t.File) })
}

// Run runs a test, and returns what is not as expected, in words, and what became of the records.
func (s *Suite) Run(ctx context.Context, t *Test, c *config.Config, reg *registry.Client) (wrong []string, results []*Result, err error) {
	topic := t.Topic
	if topic == "" {
		topic = cmp.Or(append(slices.Clone(c.Group.Topics), "test")...)
	}
	records, err := s.records(ctx, t, c, topic)
	if err != nil {
		return nil, nil, err
	}
	trial := New(c, reg)
	defer trial.Close()
	found := &anomalies{at: map[[16]byte]int{}}
	trial.Anomaly = found.note
	for _, rec := range records {
		if err := trial.Read(ctx, rec); err != nil {
			return nil, nil, err
		}
	}
	if results, err = trial.End(ctx); err != nil {
		return nil, nil, err
	}
	if t.Samples != nil {
		wrong = compare("sample", *t.Samples, flatten(results))
	}
	if t.Intervals != nil {
		var list []got
		for _, r := range results {
			for _, s := range r.Intervals {
				list = append(list, got{s, s.Outcome, "", "", r})
			}
		}
		wrong = append(wrong, compare("interval", *t.Intervals, list)...)
	}
	for i := range t.Anomalies {
		wrong = append(wrong, found.compare(&t.Anomalies[i])...)
	}
	return wrong, results, nil
}

// records returns the records of a test.
func (s *Suite) records(ctx context.Context, t *Test, c *config.Config, topic string) (list []*Record, err error) {
	switch {
	case t.CSV != "":
		dir, err := os.MkdirTemp("", "odradek-test-")
		if err != nil {
			return nil, fmt.Errorf("try: %w", err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, topic+".csv")
		if err := os.WriteFile(path, []byte(t.CSV), 0o600); err != nil {
			return nil, fmt.Errorf("try: %w", err)
		}
		return File(ctx, path, nil, c, topic, most)
	case t.File != "":
		return File(ctx, filepath.Join(s.dir, t.File), nil, c, topic, most)
	}
	for i := range t.Records {
		rec, err := t.Records[i].record()
		if err != nil {
			return nil, fmt.Errorf("try: record %d: %w", i+1, err)
		}
		rec.Topic, rec.Line = topic, int64(i+1)
		list = append(list, rec)
	}
	return list, nil
}

// record returns the record that a text describes.
func (r *RecordText) record() (*Record, error) {
	rec := &Record{Partition: r.Partition, Offset: -1, Timestamp: -1}
	at, err := moment(r.Timestamp)
	if err != nil {
		return nil, err
	}
	if r.Timestamp != "" {
		rec.Timestamp = at.UnixMilli()
	}
	if rec.Key, err = content(&r.Key); err != nil {
		return nil, err
	}
	switch {
	case r.Base64 != "":
		rec.Value, err = base64.StdEncoding.DecodeString(r.Base64)
	case r.Value.Kind == 0:
		err = errors.New("it has no value: give value or base64, and null for a tombstone")
	default:
		rec.Value, err = content(&r.Value)
	}
	return rec, err
}

// content returns the bytes of a key or a value: a text as it is, nil for null, anything else as JSON.
func content(n *yaml.Node) ([]byte, error) {
	switch {
	case n.Kind == 0 || n.Tag == "!!null":
		return nil, nil
	case n.Kind == yaml.ScalarNode:
		return []byte(n.Value), nil
	}
	return appendJSON(nil, n)
}

// appendJSON appends a node as JSON, with numbers as they are written.
func appendJSON(b []byte, n *yaml.Node) (_ []byte, err error) {
	switch n.Kind {
	case yaml.AliasNode:
		return appendJSON(b, n.Alias)
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			name, _ := json.Marshal(n.Content[i].Value) // a string
			if b, err = appendJSON(append(append(b, name...), ':'), n.Content[i+1]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case yaml.SequenceNode:
		b = append(b, '[')
		for i := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, n.Content[i]); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	switch n.Tag {
	case "!!null":
		return append(b, "null"...), nil
	case "!!int", "!!float", "!!bool":
		if json.Valid([]byte(n.Value)) {
			return append(b, n.Value...), nil
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is no number of JSON", n.Line, n.Value)
		}
		return append(b, text...), nil
	}
	text, _ := json.Marshal(n.Value) // a string
	return append(b, text...), nil
}

// got is a sample, or a record without samples.
type got struct {
	sample        *Sample
	outcome       Outcome
	class, reason string
	record        *Result
}

// flatten lists the samples of records, and the records without.
func flatten(results []*Result) (list []got) {
	for _, r := range results {
		if len(r.Samples) == 0 || r.Outcome == Dead {
			list = append(list, got{nil, r.Outcome, r.Class, r.Reason, r})
			continue
		}
		for _, s := range r.Samples {
			list = append(list, got{s, s.Outcome, "", s.Reason, r})
		}
	}
	return list
}

func (g *got) String() string {
	text := g.record.place() + ": " + string(g.outcome)
	if g.class != "" {
		text += " (" + g.class + ")"
	}
	if g.reason != "" {
		text += ": " + g.reason
	}
	if g.sample != nil {
		text += fmt.Sprintf("  %s  %s  %s", g.sample.Key, g.sample.Time.Format(time.RFC3339Nano), g.sample.values())
	}
	return text
}

func (w *WantSample) String() string {
	parts := []string{string(cmp.Or(w.Outcome, Read))}
	if w.Reason != "" {
		parts = append(parts, "reason "+w.Reason)
	}
	if w.Key != nil {
		parts = append(parts, "key "+*w.Key)
	}
	if w.Time != "" {
		parts = append(parts, "time "+w.Time)
	}
	for _, field := range sortedFields(w.Values) {
		parts = append(parts, field+"="+numberText(w.Values[field]))
	}
	return strings.Join(parts, ", ")
}

func sortedFields(values map[string]*float64) (list []string) {
	for field := range values {
		list = append(list, field)
	}
	slices.Sort(list)
	return list
}

// differs says in what a sample is not as expected.
func (w *WantSample) differs(g *got) (list []string) {
	if want := cmp.Or(w.Outcome, Read); g.outcome != want {
		return []string{fmt.Sprintf("want %s, got %s", w, g)}
	}
	if !strings.Contains(g.reason, w.Reason) && g.class != w.Reason {
		list = append(list, fmt.Sprintf("want the reason %q, got %s", w.Reason, g))
	}
	if g.sample == nil {
		if w.Key != nil || w.Time != "" || w.Values != nil {
			list = append(list, fmt.Sprintf("want %s, got %s, which has no sample", w, g))
		}
		return list
	}
	if w.Key != nil && g.sample.Key != *w.Key {
		list = append(list, fmt.Sprintf("want key %s, got %s", *w.Key, g.sample.Key))
	}
	if at, _ := moment(w.Time); w.Time != "" && !g.sample.Time.Equal(at) { // checked before
		list = append(list, fmt.Sprintf("want time %s, got %s", w.Time, g.sample.Time.Format(time.RFC3339Nano)))
	}
	for _, field := range sortedFields(w.Values) {
		want := w.Values[field]
		i := slices.IndexFunc(g.sample.Values, func(v Value) bool { return v.Field == field })
		if i < 0 {
			list = append(list, fmt.Sprintf("want %s=%s, but the sample has no value %s", field, numberText(want), field))
		} else if have := g.sample.Values[i].Value; !near(want, have) {
			list = append(list, fmt.Sprintf("want %s=%s, got %s", field, numberText(want), numberText(have)))
		}
	}
	return list
}

// near reports whether two numbers are equal but for rounding.
func near(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b || math.Abs(*a-*b) <= 1e-9*max(math.Abs(*a), math.Abs(*b))
}

// maxPairs bounds the pairs of samples that are compared to find which are too many.
const maxPairs = 4_000_000

// compare says in words what differs between the samples, or the intervals, that are expected and those that there are. Those that
// are equal, as many as can be in order, are no difference (a longest common subsequence); the others are compared one by one.
func compare(what string, want []WantSample, have []got) (wrong []string) {
	n, m := len(want), len(have)
	from := 0
	for from < n && from < m && len(want[from].differs(&have[from])) == 0 {
		from++
	}
	if from == n && n == m {
		return nil
	}
	want, have = want[from:], have[from:]
	n, m = len(want), len(have)
	var table [][]int32
	longest := func(i, j int) int32 { return 0 } // too many pairs: each is compared with the one at its place
	if n*m <= maxPairs {
		table = make([][]int32, n+1)
		for i := range table {
			table[i] = make([]int32, m+1)
		}
		longest = func(i, j int) int32 { return table[i][j] }
		for i := n - 1; i >= 0; i-- {
			for j := m - 1; j >= 0; j-- {
				if table[i][j] = max(table[i+1][j], table[i][j+1]); len(want[i].differs(&have[j])) == 0 {
					table[i][j] = table[i+1][j+1] + 1
				}
			}
		}
	}
	tell := func(i int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s %d: ", what, from+i+1)+fmt.Sprintf(format, args...))
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && len(want[i].differs(&have[j])) == 0:
			i, j = i+1, j+1
		case i < n && j < m && longest(i+1, j+1) == longest(i, j): // neither is missing
			for _, d := range want[i].differs(&have[j]) {
				tell(i, "%s", d)
			}
			i, j = i+1, j+1
		case j == m || i < n && longest(i+1, j) == longest(i, j):
			tell(i, "want %s, which is not there", &want[i])
			i++
		default:
			tell(i, "not expected here: %s", &have[j])
			j++
		}
	}
	return wrong
}

// anomalies are those that records have brought about.
type anomalies struct {
	list []found
	at   map[[16]byte]int // index by id
}

// found is an anomaly.
type found struct {
	detector, key string
	anomaly.Change
}

func (a *anomalies) note(e *state.EventRow) {
	id := e.Change.Anomaly.ID
	i, there := a.at[id]
	if !there {
		i = len(a.list)
		a.at[id], a.list = i, append(a.list, found{})
	}
	a.list[i] = found{e.Name, text(e.Key.Name()), e.Change}
}

func (f *found) String() string {
	at := func(t int64) string { return time.UnixMicro(t).UTC().Format(time.RFC3339Nano) }
	open := ""
	if f.Kind != anomaly.Close {
		open = ", open"
	}
	return fmt.Sprintf("%s of %s from %s to %s, severity %d%s", f.detector, f.key, at(f.Anomaly.Start), at(f.Anomaly.End), f.Anomaly.Severity,
		open)
}

// interval returns the bounds of an interval; zero: none.
func (w *WantAnomaly) interval() (from, to time.Time, err error) {
	if from, err = moment(w.From); err != nil {
		return from, to, err
	}
	to, err = moment(w.To)
	return from, to, err
}

func (w *WantAnomaly) takes(f *found) bool {
	from, to, _ := w.interval() // checked before
	return (w.Detector == "" || w.Detector == f.detector) && (w.Key == "" || w.Key == f.key) &&
		(from.IsZero() || f.Anomaly.End >= from.UnixMicro()) && (to.IsZero() || f.Anomaly.Start <= to.UnixMicro())
}

// compare says in words what differs between the anomalies that are expected and those that there are.
func (a *anomalies) compare(w *WantAnomaly) []string {
	n := 0
	for i := range a.list {
		if w.takes(&a.list[i]) {
			n++
		}
	}
	least := 1
	if w.AtMost != nil {
		least = 0
	}
	if w.AtLeast != nil {
		least = *w.AtLeast
	}
	var text string
	switch {
	case n < least:
		text = fmt.Sprintf("want at least %d anomalies", least)
	case w.AtMost != nil && n > *w.AtMost:
		text = fmt.Sprintf("want at most %d anomalies", *w.AtMost)
	default:
		return nil
	}
	for _, part := range []struct{ word, value string }{{"of detector", w.Detector}, {"of key", w.Key}, {"from", w.From}, {"to", w.To}} {
		if part.value != "" {
			text += " " + part.word + " " + part.value
		}
	}
	wrong := []string{fmt.Sprintf("%s, got %d; there are %d in all", text, n, len(a.list))}
	for i := range a.list[:min(len(a.list), 10)] {
		wrong = append(wrong, "  "+a.list[i].String())
	}
	return wrong
}
