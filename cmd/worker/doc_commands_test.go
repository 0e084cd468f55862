package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/replay"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
	"odradek/processor/keystate"
)

// docCommands returns the lines of the code blocks of a page, without comments; a line that ends with \ goes on in the next.
func docCommands(t *testing.T, page string) (commands []string) {
	t.Helper()
	b, err := os.ReadFile(page)
	must(t, err)
	fenced, going := false, ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if rest, ok := strings.CutPrefix(line, "    "); ok {
			line = rest
		} else if !fenced {
			continue
		}
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			going += rest
			continue
		}
		commands = append(commands, going+line)
		going = ""
	}
	return commands
}

// shellWords splits a command as a shell would, up to a comment, a pipe, a redirection or another command.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case !in && r == '#', strings.ContainsRune("|;&>", r):
			if in {
				words = append(words, word.String())
			}
			return words
		case r == ' ' || r == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

var assignment = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// TestDocCommands runs each command line of the worker that README and the pages of docs show, with the settings that its
// page exports or that stand before it: the command, its flags and its settings are right, as far as that is known without a
// broker. Each runs in a context that has ended, so none waits for one.
func TestDocCommands(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	must(t, err)
	ran := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	os.Stdin, err = os.Open(os.DevNull)
	must(t, err)
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("presses.yaml", []byte("group: odradek-presses\n"), 0o600)) // of first-hour.md, as suggest writes it
	more := map[string][]string{"operations.md": {"ODRADEK_DETECTORS=spikes"}}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		var exported []string
		for _, line := range docCommands(t, page) {
			words := shellWords(line)
			if len(words) > 1 && words[0] == "export" {
				for _, word := range words[1:] {
					exported = append(exported, strings.ReplaceAll(word, "$PWD/", "")) // the folder of the test
				}
				continue
			}
			// The least that a command needs, before what the page says.
			environ := append([]string{"ODRADEK_KAFKA_BROKERS=127.0.0.1:1", "ODRADEK_GROUP=plant", "ODRADEK_TOPICS=sensors,presses,machines",
				"ODRADEK_SCHEMA_REGISTRY_URL=http://127.0.0.1:1"}, more[filepath.Base(page)]...)
			environ = append(environ, exported...)
			for len(words) > 0 && assignment.MatchString(words[0]) {
				environ, words = append(environ, words[0]), words[1:]
			}
			if len(words) < 2 || strings.TrimPrefix(words[0], "bin/") != "worker" || words[1] == "run" {
				continue
			}
			ran[words[1]]++
			var out, errs bytes.Buffer
			code := dispatch(ctx, words[1:], &out, &errs, terminal{&out, &errs, environ}.commands())
			if code == exitUsage {
				t.Errorf("%s: %s\nends with %d: %s", filepath.Base(page), line, code, errs.String())
			}
		}
	}
	for _, name := range []string{"generate", "suggest", "check", "backtest", "why", "mute", "feedback", "dlq", "state"} {
		if ran[name] == 0 {
			t.Errorf("no page shows worker %s", name)
		}
	}
	t.Log(ran)
}

var (
	curlPath = regexp.MustCompile(`"\$url(/[^"]*)"`)
	curlBody = regexp.MustCompile(` -d '([^']*)'`)
)

// TestDocRequests sends the requests that docs/api.md shows for curl to the page of a running worker.
func TestDocRequests(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	const token = "0123456789abcdef"
	topic, environ := stateFixture(t, c)
	addr := freeAddr(t)
	environ = append(environ, "ODRADEK_PAGE_ADDR="+addr, "ODRADEK_PAGE_TOKEN="+token)
	if _, faults, _ := config.Parse(environ); len(faults) > 0 {
		t.Fatal(faults)
	}
	runUntil(t, c, environ, topic, func() {
		sent := 0
		for _, line := range docCommands(t, filepath.Join("..", "..", "docs", "api.md")) {
			if !strings.HasPrefix(line, "curl ") {
				continue
			}
			path := curlPath.FindStringSubmatch(line)
			if path == nil {
				t.Errorf("no path in %s", line)
				continue
			}
			method, body := http.MethodGet, ""
			if m := curlBody.FindStringSubmatch(line); m != nil {
				method, body = http.MethodPost, m[1]
			}
			r, err := http.NewRequestWithContext(
				t.Context(),
				method,
				"http://"+addr+strings.ReplaceAll(path[1], "key=pump-17", "key=sensor-00003"),
				strings.NewReader(body),
			)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d
			res, err := client.Do(r)
			must(t, err)
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			sent++
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", line, res.StatusCode, text)
			}
		}
		if sent < 3 {
			t.Errorf("%d requests", sent)
		}
	})
}

// TestReadmePreset holds README's number of the default preset's detectors, and the memory of a series with them.
func TestReadmePreset(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	must(t, err)
	text := strings.Join(strings.Fields(string(b)), " ")
	c, faults, _ := config.Parse(minimal())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	numbers := []string{"no", "one", "two", "three", "four", "five", "six", "seven"}
	if want := "`ODRADEK_PRESET=default`: " + numbers[len(c.Detectors)] + " detectors"; !strings.Contains(text, want) {
		t.Errorf("README does not say %q", want)
	}
	quality, err := os.ReadFile(filepath.Join("..", "..", "docs", "quality.md"))
	must(t, err)
	measured := regexp.MustCompile("full windows of 20,000 samples `default` takes (\\d+) us a sample").FindSubmatch(quality)
	if measured == nil || !strings.Contains(text, "They take "+string(measured[1])+" us of one core per reading with full windows") {
		t.Errorf("README does not say what docs/quality.md has measured: %s", measured)
	}
	cfg, err := c.KeystateConfig()
	must(t, err)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	lane := replay.NewLane(cfg, exec, "t", 0, 0, func([]keystate.Row, []keystate.EventRow) error { return nil })
	defer lane.Close()
	rng := seedtest.New(t)
	for i := range int64(17_000) {
		sample := keystate.Sample{Key: []byte("line-1/press-3"), Time: i * 1e6, Offset: i, Values: []float64{rng.NormFloat64()}}
		if _, err := lane.Fold(t.Context(), &sample); err != nil {
			t.Fatal(err)
		}
		if n := i + 1; n == 4000 || n == 17_000 {
			must(t, lane.Finish(t.Context()))
			digits := map[int64]string{4000: "4,000 readings", 17_000: "17,000"}[n]
			m := regexp.MustCompile(`(\d+) KiB after ` + digits).FindStringSubmatch(text)
			if m == nil {
				t.Errorf("README does not say what a series takes after %s", digits)
				continue
			}
			says, _ := strconv.ParseFloat(m[1], 64)
			if kib := float64(lane.Bytes()) / 1024; math.Abs(kib-says) > 0.05*kib {
				t.Errorf("a series takes %.0f KiB after %s, README says %v", kib, digits, says)
			}
		}
	}
}
