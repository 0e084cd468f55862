package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recordExamples are the settings that docs/records.md shows: what is in them, what they need besides, records, and what worker try
// prints of these.
var recordExamples = []struct {
	has, more, records string
	want               []string
	test               string // that runs the example in place of this one
}{
	{has: "sensors.temperature,sensors.vibration", want: []string{
		"  press-1/sensors.temperature  2023-11-14T22:13:20Z  sensors.temperature=71.4\n",
		"  press-1/sensors.vibration  2023-11-14T22:13:20Z  sensors.vibration=0.12\n",
		"  press-1/sensors.load  2023-11-14T22:13:20Z  sensors.load=missing"}},
	{has: "SERIES_FIELDS=metrics.*", want: []string{"  press-1/metrics.load  2023-11-14T22:13:20Z  metrics.load=0.3\n",
		"  press-1/metrics.motor.rpm  2023-11-14T22:13:20Z  metrics.motor.rpm=1480\n",
		"  press-1/metrics.motor.temp  2023-11-14T22:13:20Z  metrics.motor.temp=71.4\n"}},
	{has: "READINGS_FIELD=points", want: []string{"  press-1/temperature  2023-11-14T22:13:20Z  points.value=71.4\n",
		"  press-1/temperature  2023-11-14T22:13:21Z  points.value=71.6\n", "  press-1/load  2023-11-14T22:13:21Z  points.value=missing"}},
	{has: "glue.eu-west-1", test: "TestGlueOfTheDocs"},
	{has: "SCHEMA_FILE=reading.avsc", test: "TestGlueOfTheDocs"},
	{has: "ODRADEK_EVERY=1m", test: "TestIntervalsOfTheDocs"},
	{has: "ODRADEK_VALID", more: "MISSING=hold", records: `{"id":"a","at":1700000000000,"temperature":20.5,"pressure":1}
{"id":"a","at":1700000001000,"temperature":-9999,"pressure":-0.5}
{"id":"a","at":1700000002000,"temperature":6553.5,"pressure":2}
{"id":"a","at":1700000003000,"temperature":151,"pressure":3}`, want: []string{"temperature=20.5  pressure=1\n",
		"temperature=-9999 -> missing", "pressure=-0.5 -> missing", "temperature=6553.5 -> missing", "pressure=2\n",
		"temperature=151 -> missing", "pressure=3\n"}},
	{has: "ODRADEK_TRANSFORM", more: "MISSING=hold", records: `{"id":"a","at":1700000000000,"bytes_total":100,"temperature":20.5}
{"id":"a","at":1700000010000,"bytes_total":400,"temperature":21}
{"id":"a","at":1700000020000,"bytes_total":50,"temperature":22}`, want: []string{"bytes_total=100 -> missing", "temperature=20.5\n",
		"bytes_total=400 -> 30  temperature=21\n", "bytes_total=50 -> missing", "temperature=22\n"}},
	{has: "ODRADEK_ONLY_IF", more: "VALUE_FIELDS=v", records: `{"id":"a","at":1700000000000,"v":1,"quality":"GOOD","site":{"line":"L1"}}
{"id":"a","at":1700000001000,"v":2,"quality":"BAD","site":{"line":"L1"}}
{"id":"a","at":1700000002000,"v":3,"quality":"UNCERTAIN","site":{"line":null}}`, want: []string{"line 1: read\n", "line 2: filtered: ",
		"line 3: filtered: "}},
	{has: "ODRADEK_COMPUTE", records: `{"id":"a","at":1700000000000,"raw":212,"volts":230,"amps":2,"flow":7}
{"id":"a","at":1700000001000,"raw":32,"volts":-1,"amps":2,"flow":7}`, want: []string{"celsius=100  power=460  flow=7\n",
		"celsius=0  power=0  flow=7\n"}},
	{has: "ODRADEK_TIME_LAYOUT", more: "VALUE_FIELDS=v", records: `{"id":"a","at":"31.01.2026 08:00:00","v":1}
{"id":"a","at":"31.07.2026 08:00:00.25","v":2}`, want: []string{"  a  2026-01-31T07:00:00Z  v=1\n", "  a  2026-07-31T06:00:00.25Z  v=2\n"}},
	{has: "KEY_FIELD=@partition", more: "MAX_JUMP=0s", records: `{"at":1700000000000,"temperature":20.5,"pressure":1,"flow":7}`,
		want: []string{"  0  2023-11-14T22:13:20Z  temperature=20.5  pressure=1  flow=7\n"}},
}

// TestRecordsPage runs each example of docs/records.md: its record, or one as the text describes it, read with its settings.
func TestRecordsPage(t *testing.T) {
	snippets := docSnippets(t, filepath.Join("..", "..", "docs", "records.md"))
	for i, s := range snippets {
		if s.lang == "yaml" && strings.Contains(s.text, "mappings:") {
			dir := t.TempDir()
			config, record := filepath.Join(dir, "plant.yaml"), filepath.Join(dir, "record.json")
			must(t, os.WriteFile(config, []byte(s.text), 0o600))
			must(t, os.WriteFile(record, []byte(`{"site":"oslo","pump":7,"ts":1700000000,"pressure":2,"flow":3}`), 0o600))
			term, stdout, stderr := console("ODRADEK_CONFIG=" + config)
			if code := term.try(t.Context(), []string{"-in", record, "-topic", "pumps"}); code != exitOK ||
				!strings.Contains(stdout.String(), "  oslo/7  2023-11-14T22:13:20Z  pressure=2  flow=3\n") {
				t.Errorf("line %d: exit %d of\n%s%s", s.line, code, stdout, stderr)
			}
		}
		if s.lang != "sh" {
			continue
		}
		found := false
		for _, x := range recordExamples {
			if found || !strings.Contains(s.text, x.has) {
				continue
			}
			if found = true; x.test != "" {
				continue
			}
			out, err := exec.Command("env", "-i", "sh", "-c", s.text+"env").Output()
			must(t, err)
			environ := []string{"ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=at", "ODRADEK_FORMAT=json"}
			for _, set := range strings.Fields(x.more) {
				environ = append(environ, "ODRADEK_"+set)
			}
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "ODRADEK_") {
					environ = append(environ, strings.TrimSuffix(line, "\n"))
				}
			}
			file, records := "records.jsonl", x.records
			if records == "" { // the page has it above
				file, records = "record.json", snippets[i-1].text
			}
			path := filepath.Join(t.TempDir(), file)
			must(t, os.WriteFile(path, []byte(records), 0o600))
			term, stdout, stderr := console(environ...)
			code := term.try(t.Context(), []string{"-in", path, "-topic", "t"})
			rest := stdout.String()
			for _, want := range x.want {
				at := strings.Index(rest, want)
				if code != exitOK || at < 0 {
					t.Errorf("line %d: exit %d, want %q of\n%s%s", s.line, code, want, stdout, stderr)
					break
				}
				rest = rest[at+len(want):]
			}
		}
		if !found {
			t.Errorf("line %d: no test runs\n%s", s.line, s.text)
		}
	}
}
