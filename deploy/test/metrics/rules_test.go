package metrics

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// This file tests what deploy makes of the worker's metrics: the alerts with promtool,
// and the dashboards against a running worker. It is a module of its own, so that
// Prometheus is no dependency of the worker.

const repository = "../../.."

// documentedMetrics returns the labels by metric of docs/metrics.md, which a test of the worker holds equal to a scrape.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(repository + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(odradek_[a-z_]+)` \\| ([a-z, ]*) ?\\|").FindAllStringSubmatch(string(page), -1) {
		list[row[1]] = append([]string{"__name__"}, strings.FieldsFunc(strings.Replace(row[2], "partition", "topic, partition", 1), func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	if len(list) < 50 {
		t.Fatalf("only %d metrics read from the page", len(list))
	}
	return list
}

// promtool runs Prometheus's own tool, without its service discovery, which takes most of the time to build.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	tool := exec.Command("go", append([]string{"run", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool"}, args...)...)
	out, err := tool.CombinedOutput()
	return string(out), err
}

// TestAlerts runs promtool's unit tests and holds that every alert has one in which it fires and one in which it does not.
func TestAlerts(t *testing.T) {
	if out, err := promtool(t, "test", "rules", "alerts_test.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, "check", "rules", "--lint-fatal", repository+"/deploy/prometheus/alerts.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	read(t, repository+"/deploy/prometheus/alerts.yml", &rules)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name string      `yaml:"alertname"`
				Want []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, "alerts_test.yml", &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range tests.Tests {
		for _, a := range c.Alerts {
			if len(a.Want) > 0 {
				fires[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: alerts_test.yml has a test in which it fires: %v; in which it does not: %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
		}
	}
	// A rule that never fires fails the tests.
	text, err := os.ReadFile(repository + "/deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "odradek_fetch_age_seconds > 60", "odradek_fetch_age_seconds > 6000", 1)
	dir := t.TempDir()
	write(t, dir+"/alerts.yml", broken)
	cases, err := os.ReadFile("alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/tests.yml", strings.Replace(string(cases), "../../prometheus/alerts.yml", "alerts.yml", 1))
	if out, err := promtool(t, "test", "rules", dir+"/tests.yml"); err == nil || !strings.Contains(out, "OdradekBrokersLost") {
		t.Errorf("a rule that never fires is not found: %v\n%s", err, out)
	}
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
