package config

import (
	"strings"
	"testing"
)

func TestChangelogNames(t *testing.T) {
	seen := map[string][2]string{}
	for _, c := range [][2]string{{"plant", "eu-in"}, {"plant-eu", "in"}, {"plant", "in"}, {"plant-eu-in", "x"}, {"plant-eu", "in-x"},
		{"plant", "eu-in-x"}} {
		cfg, faults, _ := Parse(append(minimal(), "ODRADEK_GROUP="+c[0], "ODRADEK_TOPICS="+c[1]))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		name := cfg.ChangelogTopic(c[1])
		if other, taken := seen[name]; taken || !strings.HasPrefix(name, c[0]+"-") {
			t.Errorf("%q has the changelog %s, as %q", c, name, other)
		}
		seen[name] = c
	}
	if cfg, _, _ := Parse(append(minimal(), "ODRADEK_GROUP=plant-eu",
		"ODRADEK_CHANGELOG_PREFIX=p")); cfg.ChangelogTopic("in") != "p-in-changelog" {
		t.Errorf("with a prefix of its own the changelog is %s", cfg.ChangelogTopic("in"))
	}
}
