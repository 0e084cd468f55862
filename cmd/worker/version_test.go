package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersion holds what the version of a build is, that worker version prints it, and that CHANGELOG.md begins with the release.
func TestVersion(t *testing.T) {
	const sha = "cf1f81349abcd0123456789012345678901234ff"
	settings := func(pairs ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261127202827-cf1f81349abc"}}
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		name, commit string
		info         *debug.BuildInfo
		want         string
	}{
		{"no build information", "", nil, "0.1.0-dev"},
		{"no repository", "", settings("GOOS", "linux"), "0.1.0-dev"},
		{"a clean repository", "", settings("vcs.revision", sha, "vcs.modified", "false"), "0.1.0-dev+cf1f81349abc"},
		{"changed files", "", settings("vcs.modified", "true", "vcs.revision", sha), "0.1.0-dev+cf1f81349abc.changed"},
		{"a commit given to the linker", "9876543", settings("vcs.modified", "true", "vcs.revision", sha), "0.1.0-dev+9876543"},
	} {
		if got := versionOf(c.commit, c.info); got != c.want {
			t.Errorf("%s: version %q, want %q", c.name, got, c.want)
		}
	}
	var out, errs bytes.Buffer
	if code := (terminal{&out, &errs, nil}).version(t.Context(), nil); code != exitOK ||
		!strings.HasPrefix(out.String(), "odradek "+buildVersion()+" go") {
		t.Errorf("worker version ends with %d and prints %q %q", code, out.String(), errs.String())
	}
	out.Reset()
	var object map[string]string
	if code := (terminal{&out, &errs, nil}).version(t.Context(), []string{"-json"}); code != exitOK ||
		json.Unmarshal(out.Bytes(), &object) != nil || len(object) != 4 || object["version"] != buildVersion() ||
		object["arch"] != runtime.GOARCH {
		t.Errorf("worker version -json ends with %d and prints %q", code, out.String())
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	must(t, err)
	number, _, _ := strings.Cut(release, "-")
	if first := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(b); first == nil || strings.TrimSuffix(string(first[1]), ":") != number {
		t.Errorf("CHANGELOG.md begins with %q, the release is %s", first, number)
	}
}
