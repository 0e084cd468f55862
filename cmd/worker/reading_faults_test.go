package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadingFaults: a command that reads records or rows refuses a fault in each setting that says how they are read.
func TestReadingFaults(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := file("r.jsonl", `{"id":"a","temp":20.5}`)
	rows := file("r.csv", "id,temp\na,20.5\n")
	for _, setting := range []string{"AGGREGATE=bogus", "EVERY=1us", "EMPTY=none", "MAX_GAP=soon", "LATENESS_BY=topic", "TRANSFORM=temp=bogus",
		"VALID=temp=5..1", "MISSING_IF=temp=x", "COMPUTE=c=(", "ONLY_IF=temp >", "TIME_ZONE=Nowhere", "DUPLICATES=some", "MISSING=none"} {
		name, value, _ := strings.Cut(setting, "=")
		term, _, bad := console("ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id", "ODRADEK_VALUE_FIELDS=temp",
			"ODRADEK_"+name+"="+value)
		suite := file("s.yaml", "settings: {group: g, topics: [t], format: json, key_field: id, value_fields: [temp], "+
			strings.ToLower(name)+": '"+value+"'}\ntests: [{csv: \"id,temp\\na,1\\n\", samples: []}]\n")
		for command, code := range map[string]int{
			"try of lines": term.try(t.Context(), []string{"-in", lines}),
			"try of rows":  term.try(t.Context(), []string{"-in", rows}),
			"test":         term.test(t.Context(), []string{suite}),
			"backtest":     term.backtest(t.Context(), []string{"-in", rows, "-report", "", "-anomalies", filepath.Join(dir, "a.csv"), "-quiet"}),
		} {
			if code != exitUsage {
				t.Errorf("%s with %s: exit code %d, want %d: %s", command, setting, code, exitUsage, bad)
			}
		}
		if n := strings.Count(bad.String(), "ODRADEK_"+name+":"); n != 4 {
			t.Errorf("%s is named %d times, want 4: %s", setting, n, bad)
		}
	}
}
