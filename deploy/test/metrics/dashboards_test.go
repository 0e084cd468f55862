package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

// panel is what the tests read of a panel of Grafana.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct{ RefID, Expr string }
}

type dashboard struct {
	UID, Title string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

const folder = repository + "/deploy/grafana/dashboards"

func readDashboard(t *testing.T, name string) dashboard {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// variables are Grafana's, as they are with everything selected.
var variables = strings.NewReplacer("$__rate_interval", "10s", "$job", "odradek", "$instance", ".*", "$topic", ".*", "$partition", ".*", "$detector", ".*")

// layoutFaults lists what Grafana would not show as it is meant.
func layoutFaults(d dashboard) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var cells [][24]bool
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			add("%s: the id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		if !slices.Contains([]string{"row", "stat", "timeseries", "table"}, p.Type) {
			add("%s: type %q", p.Title, p.Type)
		}
		if p.Type != "row" && (p.Title == "" || p.Description == "" || len(p.Targets) == 0) {
			add("panel %d %s: a title, a description or a query is missing", p.ID, p.Title)
		}
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			add("%s: lies outside of the 24 columns", p.Title)
			continue
		}
		for y := g.Y; y < g.Y+g.H; y++ {
			for len(cells) <= y {
				cells = append(cells, [24]bool{})
			}
			for x := g.X; x < g.X+g.W; x++ {
				if cells[y][x] {
					add("%s: covers another panel", p.Title)
					y = g.Y + g.H
					break
				}
				cells[y][x] = true
			}
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] {
				add("%s: two queries are %s", p.Title, q.RefID)
			}
			refs[q.RefID] = true
		}
	}
	return faults
}

// query is an expression of a dashboard, or of the rules.
type query struct{ where, expr string }

func (d dashboard) queries() (list []query) {
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			list = append(list, query{d.Title + ", " + p.Title + ", " + q.RefID, q.Expr})
		}
	}
	for _, a := range d.Annotations.List {
		list = append(list, query{d.Title + ", annotation " + a.Name, a.Expr})
	}
	labelValues := regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)
	for _, v := range d.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			m := labelValues.FindStringSubmatch(fmt.Sprint(q["query"]))
			if m == nil {
				m = []string{"", "the variable is no label_values(metric, label)", ""}
			}
			list = append(list, query{d.Title + ", variable " + v.Name, "group by (" + m[2] + ") (" + m[1] + ")"})
		}
	}
	return list
}

// onlyWith names the metrics of which a short run on a CPU has no series, and what there would have to be.
var onlyWith = map[string]string{
	"odradek_commit_errors_total":         "a commit that failed",
	"odradek_decode_errors_total":         "a dead letter",
	"odradek_executor_fallback":           "a GPU",
	"odradek_executor_scored_tasks_total": "a GPU",
	"odradek_gpu_busy_seconds_total":      "a GPU",
	"odradek_gpu_declined_tasks_total":    "a GPU",
	"odradek_gpu_faults_total":            "a GPU",
	"odradek_gpu_lost_batches_total":      "a GPU",
	"odradek_gpu_refused_batches_total":   "a GPU",
	"odradek_gpu_restarts_total":          "a GPU",
	"odradek_gpu_shared_bytes":            "a GPU",
	"odradek_gpu_up":                      "a GPU",
	"odradek_partition_quarantined":       "a partition in quarantine",
	"odradek_restore_remaining_records":   "a restore",
}

// samples is a database of the series that a worker exports while it runs.
type samples struct {
	storage.Storage
	engine *promql.Engine
	last   time.Time
	names  map[string][]string // labels by metric, of the last scrape
}

// scrape appends what the worker at url exports.
func (s *samples) scrape(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s answers %s", url, resp.Status), err)
	}
	now := time.Now()
	add := s.Appender(context.Background())
	p, err := textparse.New(text, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	list := []labels.Labels{labels.FromStrings("__name__", "up", "job", "odradek", "instance", "worker")}
	values := []float64{1}
	for {
		entry, err := p.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		p.Labels(&l)
		list = append(list, labels.NewBuilder(l).Set("job", "odradek").Set("instance", "worker").Labels())
		values = append(values, v)
	}
	s.names = map[string][]string{}
	for i, l := range list {
		if _, err := add.Append(0, l, now.UnixMilli(), values[i]); err != nil {
			return err
		}
		name := l.Get("__name__")
		l.Range(func(l labels.Label) {
			if !slices.Contains(s.names[name], l.Name) {
				s.names[name] = append(s.names[name], l.Name)
			}
		})
	}
	s.last = now
	return add.Commit()
}

// faults lists what of a query finds nothing in the samples, and why. documented has the labels of every metric.
func (s *samples) faults(q query, documented map[string][]string) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, q.where+": "+fmt.Sprintf(format, args...)) }
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(q.expr))
	if err != nil {
		add("%v", err)
		return faults
	}
	missing := false
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		known, exported := s.names[v.Name]
		if !exported {
			known, exported = documented[v.Name], onlyWith[v.Name] != "" && documented[v.Name] != nil
			missing = true
		}
		if !exported {
			add("no worker exports %s", v.Name)
		}
		for _, m := range v.LabelMatchers {
			if !slices.Contains(known, m.Name) && !slices.Contains([]string{"__name__", "job", "instance"}, m.Name) {
				add("%s has no label %s", v.Name, m.Name)
			}
		}
		return nil
	})
	if missing || len(faults) > 0 {
		return faults
	}
	run, err := s.engine.NewInstantQuery(context.Background(), s, nil, variables.Replace(q.expr), s.last)
	if err != nil {
		add("%v", err)
		return faults
	}
	defer run.Close()
	result := run.Exec(context.Background())
	vector, err := result.Vector()
	if err != nil {
		add("%v", errors.Join(err, result.Err))
	} else if len(vector) == 0 && !strings.Contains(q.expr, "changes(") { // of those only what changes is found
		add("finds nothing")
	}
	return faults
}

// TestDashboards holds every query of the dashboards to what a worker exports while the
// demo runs: its metrics and labels exist, and it finds series.
func TestDashboards(t *testing.T) {
	names, err := filepath.Glob(folder + "/*.json")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d dashboards: %v", len(names), err)
	}
	documented := documentedMetrics(t)
	s := runDemo(t)
	uids := map[string]bool{}
	for _, name := range names {
		d := readDashboard(t, filepath.Base(name))
		if uids[d.UID] || d.UID == "" {
			t.Errorf("%s: the uid %q is not its own", name, d.UID)
		}
		uids[d.UID] = true
		for _, f := range layoutFaults(d) {
			t.Errorf("%s: %s", d.Title, f)
		}
		for _, q := range d.queries() {
			for _, f := range s.faults(q, documented) {
				t.Error(f)
			}
		}
	}
	for _, c := range []struct{ expr, want string }{
		{`sum(odradek_anomalies_opened{job="$job"})`, "no worker exports odradek_anomalies_opened"},
		{`sum(odradek_anomalies_open{job="$job",series="x"})`, "no label series"},
		{`sum(odradek_gpu_up{gpu="0"})`, "no label gpu"},
		{`sum(odradek_anomalies_open{job="worker"})`, "finds nothing"},
		{`sum(odradek_ready`, "unclosed"},
	} {
		if f := s.faults(query{"a broken query", c.expr}, documented); len(f) != 1 || !strings.Contains(f[0], c.want) {
			t.Errorf("%s: want one fault with %q, got %q", c.expr, c.want, f)
		}
	}
	d := readDashboard(t, "overview.json")
	d.Panels[1].GridPos = d.Panels[0].GridPos
	d.Panels[2].ID = d.Panels[0].ID
	d.Panels[3].GridPos.X = 23
	if f := layoutFaults(d); len(f) != 3 {
		t.Errorf("three faults of layout: %q", f)
	}
}

// runDemo scrapes the first worker of the demo once a second and returns the samples.
func runDemo(t *testing.T) *samples {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "./cmd/worker", "./cmd/demo")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	demo := exec.CommandContext(ctx, filepath.Join(dir, "demo"), "-for", "5m", "-plain", "-http", addr)
	demo.Cancel = func() error { return demo.Process.Signal(os.Interrupt) }
	demo.WaitDelay = time.Minute
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	demo.Stdout, demo.Stderr = log, log
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = demo.Wait()
		log.Close()
	}()
	s := &samples{Storage: teststorage.New(t), engine: promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)}
	scored := 0
	for end := time.Now().Add(2 * time.Minute); scored < 15; time.Sleep(time.Second) {
		err := s.scrape("http://" + addr + "/metrics")
		if s.names["odradek_anomalies_total"] != nil {
			scored++ // the last 10 s are all after the first anomaly
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("after 2 minutes no worker has found an anomaly: %v\n%s", err, text)
		}
	}
	return s
}
