package main

import (
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
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
	numbers := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight"}
	if want := "`ODRADEK_PRESET=default`: " + numbers[len(c.Detectors)] + " detectors"; !strings.Contains(text, want) {
		t.Errorf("README does not say %q", want)
	}
	quality, err := os.ReadFile(filepath.Join("..", "..", "docs", "quality.md"))
	must(t, err)
	measured := regexp.MustCompile("full windows of 20,000 samples `default` takes (\\d+) us a sample").
		FindStringSubmatch(strings.Join(strings.Fields(string(quality)), " "))
	if measured == nil || !strings.Contains(text, "They take "+measured[1]+" us of one core per reading with full windows") {
		t.Errorf("README does not say what docs/quality.md has measured: %s", measured)
	}
	cfg, err := c.KeystateConfig()
	must(t, err)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	lane := backtest.NewLane(cfg, exec, "t", 0, 0, func([]state.Row, []state.EventRow) error { return nil })
	defer lane.Close()
	rng := seedtest.New(t)
	for i := range int64(17_000) {
		sample := state.Sample{Key: []byte("line-1/press-3"), Time: i * 1e6, Offset: i, Values: []float64{rng.NormFloat64()}}
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
