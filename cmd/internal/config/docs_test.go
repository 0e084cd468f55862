package config

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

func TestConfigurationDoc(t *testing.T) {
	const file = "../../../docs/configuration.md"
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
		t.Errorf("%s is not what the tags say: run go generate ./cmd/internal/config", file)
	}
	c, _, _ := Parse(minimal("ODRADEK_DETECTORS=change"))
	for _, s := range c.settings {
		if s.tag.Get("doc") == "" {
			t.Errorf("%s has no doc", s.name)
		}
		if !strings.Contains(want, "`"+s.name+"`") && !strings.Contains(s.name, "_DETECTOR_CHANGE_") {
			t.Errorf("%s is not in the docs", s.name)
		}
	}
}

// Every setting that a message, a comment or a page names is one that there is.
func TestNamedSettingsExist(t *testing.T) {
	known := map[string]bool{}
	for _, s := range collect(reflect.ValueOf(new(Config)).Elem(), Prefix, "") {
		known[s.name] = true
		known[s.name+fileSuffix] = s.secret || known[s.name+fileSuffix]
	}
	mapped := (&Config{settings: collect(reflect.ValueOf(new(Config)).Elem(), Prefix, "")}).mappingNames()
	name := regexp.MustCompile(Prefix + `[A-Z0-9_]*[A-Z0-9]\b`)
	files := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := filepath.Base(path)
		if d.IsDir() && (strings.HasPrefix(base, ".") && base != ".." || base == "testdata") {
			return filepath.SkipDir
		}
		switch ext := filepath.Ext(base); {
		case strings.HasSuffix(base, "_test.go"), ext != ".go" && ext != ".md" && ext != ".yml" && ext != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, at := range name.FindAllIndex(text, -1) {
			n := string(text[at[0]:at[1]])
			isTests := slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(n, p) })
			if mappings, _ := mapped.Find(map[string]string{n: "x"}); len(mappings) > 0 {
				continue
			}
			if !known[n] && !isTests && n != Prefix+"NAME" && !strings.HasPrefix(n, Prefix+"DETECTOR_") &&
				!bytes.HasPrefix(text[at[1]:], []byte("_")) {
				t.Errorf("%s names %s, which is no setting", path, n)
			}
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestWithVariables: messages of libraries, which name settings as a settings file does, name variables for the user.
func TestWithVariables(t *testing.T) {
	for message, want := range map[string]string{
		"set state_lost=reset, or worker state reset": "set ODRADEK_STATE_LOST=reset, or worker state reset",
		"left out by missing=skip":                    "left out by ODRADEK_MISSING=skip",
		"(kafka_tls_ca_file)":                         "(ODRADEK_KAFKA_TLS_CA_FILE)",
		"field \"state\" of format=unknown, lateness": "field \"state\" of format=unknown, lateness",
		"/run/kafka_brokers, no_such_setting=reset":   "/run/kafka_brokers, no_such_setting=reset",
		"topic \"x\" (scores_topic)":                  "topic \"x\" (ODRADEK_SCORES_TOPIC)",
		"create_topics is false; blocks=false":        "ODRADEK_CREATE_TOPICS is false; ODRADEK_BLOCKS=false",
	} {
		if got := WithVariables(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	fault := Fault{Name: "ODRADEK_KAFKA_PASSWORD", Problem: "set", Fix: "set kafka_username"}
	if got := fault.String(); got != "ODRADEK_KAFKA_PASSWORD: set; set ODRADEK_KAFKA_USERNAME" {
		t.Error(got)
	}
}
