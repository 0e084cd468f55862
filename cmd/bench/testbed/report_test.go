package testbed

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestBenchReport(t *testing.T) {
	rows := []Row{
		NewRow("", 350, "ns/record").Against("goavro", 7000, true).Want("<= 350 ns", true).Noted("a").Noted("b"),
		NewRow("x", 1, "s").Against("y", 0, false),
		{Skipped: "no Java"},
	}
	if *rows[0].Ratio != 20 || rows[0].Note != "a; b" {
		t.Errorf("%+v", rows[0])
	}
	var out bytes.Buffer
	p := Report{Out: &out, JSON: true, Command: "bench", CPU: "one"}
	p.Add(rows)
	p.End()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(rows) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for _, l := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Errorf("%v: %s", err, l)
		}
		for _, field := range []string{"name", "value", "unit", "baseline", "ratio", "cpu", "command"} {
			if _, ok := m[field]; !ok {
				t.Errorf("no %s in %s", field, l)
			}
		}
	}
	out.Reset()
	p = Report{Out: &out, CPU: "one"}
	p.Add(rows)
	p.End()
	for _, want := range []string{"7,000 goavro", "20.0", "met", "skipped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for v, want := range map[float64]string{1234567.4: "1,234,567", 999.6: "1000", -1234: "-1,234", 35.16: "35.2", 0.01234: "0.0123"} {
		if got := Figure(v); got != want {
			t.Errorf("figure(%v) = %s, want %s", v, got, want)
		}
	}
}
