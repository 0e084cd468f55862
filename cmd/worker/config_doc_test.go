package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated docs anew")

func TestConfigurationDoc(t *testing.T) {
	const file = "../../docs/configuration.md"
	want := configurationDoc()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the tags say: run go generate ./cmd/worker", file)
	}
	c, _, _ := ParseConfig(minimal())
	for _, s := range c.settings {
		if s.tag.Get("doc") == "" {
			t.Errorf("%s has no doc", s.name)
		}
		if !strings.Contains(want, "`"+s.name+"`") && !strings.Contains(s.name, "_DETECTOR_CHANGE_") {
			t.Errorf("%s is not in the docs", s.name)
		}
	}
}
