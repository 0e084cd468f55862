package config

import (
	"strings"
	"testing"
)

// TestGroupBy: the part of a key that the expression, or its parenthesis, matches is the group.
func TestGroupBy(t *testing.T) {
	for _, c := range []struct{ by, key, want string }{
		{"^[^/]+", "site-1/pump/3", "site-1"},
		{"^[^/]+", "/x", "none"},
		{"^[^/]+/[^/]+", "site-1/pump/3", "site-1/pump"},
		{"-(\\w+)$", "7-press", "press"},
		{"-(\\w+)$", "7-", "none"},
		{"^(?:a|b)(\\d)?", "a", "none"},
		{"^(?:a|b)(\\d)?", "b4x", "4"},
		{"^", "any", ""},
		{"^.{2}", "\xff\x00z", "\xff\x00"},
	} {
		cfg, faults, _ := Parse(minimal("ODRADEK_GROUP_BY="+c.by, "ODRADEK_GROUP_WINDOW=90s"))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := cfg.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if g := ks.Grouping.By([]byte(c.key)); g != nil {
			got = string(g)
		}
		if got != c.want || ks.Grouping.Window != 90e6 {
			t.Errorf("%s of %q is in group %q within %d us, want %q", c.by, c.key, got, ks.Grouping.Window, c.want)
		}
	}
	c, _, _ := Parse(minimal())
	if ks, err := c.KeystateConfig(); err != nil || ks.Grouping != nil {
		t.Errorf("without the setting: %v, %v", ks.Grouping, err)
	}
	for _, c := range []struct{ settings, name, problem string }{
		{"ODRADEK_GROUP_BY=a(b", "ODRADEK_GROUP_BY", "missing closing )"},
		{"ODRADEK_GROUP_BY=(a)(b)", "ODRADEK_GROUP_BY", "2 parts"},
		{"ODRADEK_GROUP_BY=^a ODRADEK_ANOMALIES=false", "ODRADEK_GROUP_BY", "ANOMALIES is false"},
		{"ODRADEK_GROUP_BY=^a ODRADEK_GROUP_WINDOW=-1s", "ODRADEK_GROUP_WINDOW", "too small"},
		{"ODRADEK_GROUP_BY=^a ODRADEK_GROUP_WINDOW=9000h", "ODRADEK_GROUP_WINDOW", "too large"},
	} {
		_, faults, _ := Parse(minimal(strings.Fields(c.settings)...))
		if len(faults) != 1 || faults[0].Name != c.name || !strings.Contains(faults[0].Problem, c.problem) {
			t.Errorf("%s: faults %v", c.settings, faults)
		}
	}
}
