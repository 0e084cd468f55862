package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"

	"odradek/cmd/internal/config"
	"odradek/processor/metrics"
)

var (
	selectRE  = regexp.MustCompile(`\b(odradek_[a-z_]+|up)(?:\{([^}]*)\})?`)
	matcherRE = regexp.MustCompile(`^\s*([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"\s*$`)
)

// documentedMetrics returns the table of docs/metrics.md, which another test holds
// equal to a scrape: type and labels by name.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := metrics.Documented(string(page))
	if len(list) < 20 {
		t.Fatalf("only %d metrics read from the page", len(list))
	}
	return list
}

type alertFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// alertFaults lists what names no metric and no label that there is.
func alertFaults(text string, metrics map[string]string, jobs []string) (faults []string, alerts int) {
	var f alertFile
	if err := yaml.Unmarshal([]byte(text), &f); err != nil {
		return []string{err.Error()}, 0
	}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			alerts++
			add := func(format string, args ...any) {
				faults = append(faults, r.Alert+": "+fmt.Sprintf(format, args...))
			}
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				add("a name, a severity or a summary is missing")
			}
			labels := []string{"job", "instance", "le"}
			used := 0
			for _, m := range selectRE.FindAllStringSubmatch(r.Expr, -1) {
				used++
				name := m[1]
				typ, own, _ := strings.Cut(metrics[name], " ")
				if name == "up" {
					typ = "gauge"
				}
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					base, cut := strings.CutSuffix(name, suffix)
					if t, l, _ := strings.Cut(metrics[base], " "); cut && t == "histogram" {
						typ, own = "counter", l
					}
				}
				switch {
				case typ == "":
					add("there is no metric %s", name)
				case typ == "histogram":
					add("%s is a histogram: use its _bucket, _sum or _count", name)
				case typ == "counter" && !regexp.MustCompile(`(rate|increase)\(`+name).MatchString(r.Expr):
					add("%s is a counter: use its rate", name)
				case typ == "gauge" && regexp.MustCompile(`(rate|increase)\(`+name).MatchString(r.Expr):
					add("%s is a gauge: it has no rate", name)
				}
				mine := append([]string{"job", "instance", "le"}, strings.FieldsFunc(own, func(r rune) bool { return r == ',' || r == ' ' })...)
				labels = append(labels, mine...)
				for _, matcher := range strings.Split(m[2], ",") {
					if matcher == "" {
						continue
					}
					l := matcherRE.FindStringSubmatch(matcher)
					if l == nil || !slices.Contains(mine, l[1]) {
						add("%s has no label for %q", name, matcher)
					} else if l[1] == "job" && !slices.Contains(jobs, l[2]) {
						add("there is no job %q", l[2])
					}
				}
			}
			if used == 0 {
				add("no metric of ours in %q", r.Expr)
			}
			for _, by := range regexp.MustCompile(`\b(?:by|on|without|ignoring) ?\(([^)]*)\)`).FindAllStringSubmatch(r.Expr, -1) {
				for _, l := range strings.Split(by[1], ",") {
					if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
						add("no metric in it has the label %q", l)
					}
				}
			}
			for _, l := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if !slices.Contains(labels, l[1]) {
					add("the summary has a label %q that no metric in it has", l[1])
				}
			}
		}
	}
	return faults, alerts
}

// TestPrometheus holds the files of deploy/prometheus to the metrics that there
// are and to the services of docker-compose.yml.
func TestPrometheus(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repository, "deploy/prometheus/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var scrape struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			Job string `yaml:"job_name"`
			DNS []struct {
				Names []string
				Type  string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(b, &scrape); err != nil {
		t.Fatal(err)
	}
	p := loadCompose(t)
	mounted := slices.ContainsFunc(p.Services["prometheus"].Volumes, func(v types.ServiceVolumeConfig) bool {
		return filepath.Base(v.Source) == "prometheus" && v.Target == "/etc/prometheus"
	})
	if !mounted || !slices.Contains(p.Services["prometheus"].Command, "--config.file=/etc/prometheus/prometheus.yml") {
		t.Error("the service prometheus does not use deploy/prometheus")
	}
	var jobs []string
	found := map[string]bool{} // services that are scraped
	for _, s := range scrape.ScrapeConfigs {
		jobs = append(jobs, s.Job)
		for _, d := range s.DNS {
			for _, s := range p.Services {
				aliases := []string{s.Name}
				if n := s.Networks["default"]; n != nil {
					aliases = append(aliases, n.Aliases...)
				}
				c, _, _ := config.Parse(environOf(s))
				if d.Type == "A" && strings.HasSuffix(c.Program.HTTPAddr, fmt.Sprintf(":%d", d.Port)) &&
					slices.ContainsFunc(d.Names, func(n string) bool { return slices.Contains(aliases, n) }) {
					found[s.Name] = true
				}
			}
		}
	}
	if !found["page"] || !found["worker"] || !found["worker-gpu"] || len(found) != 3 {
		t.Errorf("scraped by name are %v, want page, worker and worker-gpu", found)
	}
	documented := documentedMetrics(t)
	for _, name := range scrape.RuleFiles {
		b, err := os.ReadFile(filepath.Join(repository, "deploy/prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		faults, alerts := alertFaults(text, documented, jobs)
		for _, f := range faults {
			t.Error(f)
		}
		if alerts < 6 {
			t.Errorf("%s has %d alerts", name, alerts)
		}
		for _, c := range []struct{ old, new, want string }{
			{"odradek_lost_offsets_total", "odradek_offsets_lost_total", "no metric odradek_offsets_lost_total"},
			{"odradek_event_to_score_seconds_bucket", "odradek_event_to_score_seconds", "is a histogram"},
			{"increase(odradek_lost_offsets_total[1h])", "odradek_lost_offsets_total", "is a counter"},
			{"min_over_time(odradek_restoring", "rate(odradek_restoring", "is a gauge"},
			{`{outcome="aborted"}`, `{result="aborted"}`, "no label"},
			{`job="odradek"`, `job="worker"`, "no job"},
			{"sum by (topic)", "sum by (group)", `the label "group"`},
			{"{{ $labels.topic }}", "{{ $labels.series }}", `label "series"`},
			{"severity:", "severe:", "is missing"},
		} {
			faults, _ := alertFaults(strings.ReplaceAll(text, c.old, c.new), documented, jobs)
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("%q for %q: want a fault with %q, got %q", c.new, c.old, c.want, faults)
			}
		}
	}
}
