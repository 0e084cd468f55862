package backtest

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// writeSeries writes sensors with a spike each, and the labels of these.
func writeSeries(t testing.TB, dir string, rnd *rand.Rand, sensors, rows int) (file, labels string) {
	t.Helper()
	var b, l bytes.Buffer
	b.WriteString("key,time,value\n")
	l.WriteString("series,from,to\n")
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	spikes := make([]int, sensors)
	for s := range spikes {
		spikes[s] = rows/2 + rnd.IntN(rows/3)
		at := start.Add(time.Duration(spikes[s]) * time.Minute)
		fmt.Fprintf(&l, "sensor <%d>,%s,%s\n", s, at.Add(-5*time.Minute).Format(time.RFC3339), at.Add(5*time.Minute).Format(time.DateTime))
	}
	for i := range rows {
		for s := range sensors {
			v := 1e9 + math.Sin(float64(i)/9) + 0.1*rnd.NormFloat64()
			if i == spikes[s] {
				v += 50
			}
			fmt.Fprintf(&b, "sensor <%d>,%s,%v\n", s, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), v)
		}
	}
	file, labels = filepath.Join(dir, "rows.csv"), filepath.Join(dir, "labels.csv")
	for path, text := range map[string][]byte{file: b.Bytes(), labels: l.Bytes()} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file, labels
}

func settings(t testing.TB, more ...string) *config.Config {
	t.Helper()
	env := []string{"ODRADEK_DETECTORS=level", "ODRADEK_DETECTOR_LEVEL_OP=zscore", "ODRADEK_DETECTOR_LEVEL_WINDOW=64",
		"ODRADEK_DETECTOR_LEVEL_THRESHOLD=fixed:8", "ODRADEK_DETECTOR_LEVEL_CLOSE_AFTER=3"}
	c, faults, _ := config.Parse(append(env, more...))
	if faults = config.FaultsOf(faults, []string{"DETECTOR"}); len(faults) > 0 {
		t.Fatal(faults)
	}
	return c
}

func configOf(t testing.TB, c *config.Config, src Source) *Config {
	t.Helper()
	state, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	exec := detectors.NewCPU(1)
	t.Cleanup(func() { exec.Close() })
	return &Config{State: state, Executor: exec, Source: src, Plots: 5}
}

// TestReport finds a spike in each series, says so in figures, and draws it: a page of
// well-formed drawings that asks nothing of a network.
func TestReport(t *testing.T) {
	file, labels := writeSeries(t, t.TempDir(), seedtest.New(t), 4, 3000)
	c := settings(t)
	src, err := NewFiles([]string{file}, table.Options{Mapping: c.SchemaMapping()}, nil, nil, "t", 3)
	if err != nil {
		t.Fatal(err)
	}
	run := configOf(t, c, src)
	if run.Labels, err = ReadLabels(labels); err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Detectors[0]
	if s.Rows != 12_000 || s.Series != 4 || d.Found != 4 || d.Labelled != 4 || d.Recall() != 1 || d.Wrong != d.Anomalies-d.Right ||
		d.Right < 4 ||
		d.DelayMedian != 300 || math.Abs(s.Days-4*(2999.0-63)/1440) > 1e-9 {
		t.Errorf("%+v, %+v, %v days", d, d.Agreement, s.Days)
	}
	var page bytes.Buffer
	if err := s.WriteReport(&page, []string{"value"}, Report{Title: "Backtest of <rows>", Took: time.Second}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"sensor &lt;3&gt;", "Backtest of &lt;rows&gt;", "4 of 4", `class="anomaly"`, `class="label"`,
		`class="bound"`,
		"prefers-color-scheme: dark", "width=device-width"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, not := range []string{"http:", "https:", "src=", "url(", "<script", "NaN", "ZgotmplZ", "Inf"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %s", not)
		}
	}
	drawings := 0
	for _, part := range strings.Split(text, "<svg")[1:] {
		svg, _, ok := strings.Cut("<svg"+part, "</svg>")
		if !ok {
			t.Fatal("a drawing without an end")
		}
		drawings++
		for x := xml.NewDecoder(strings.NewReader(svg + "</svg>")); ; {
			if _, err := x.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("drawing %d: %v", drawings, err)
			}
		}
	}
	if drawings != 8 {
		t.Errorf("%d drawings, want values and scores of 4 series", drawings)
	}
}

// stopping is a Source that ends ctx after some shares.
type stopping struct {
	Source
	after int
	stop  func()
}

func (s *stopping) Read(ctx context.Context, send func(int, *Share) error) error {
	return s.Source.Read(ctx, func(p int, sh *Share) error {
		if s.after--; s.after == 0 {
			s.stop()
		}
		return send(p, sh)
	})
}

// TestInterrupted ends a run in its middle: what was read is scored and in the tables, and
// the report says that it is partial.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	file, _ := writeSeries(t, dir, seedtest.New(t), 10, 20_000) // 13 batches
	c := settings(t)
	src, err := NewFiles([]string{file}, table.Options{Mapping: c.SchemaMapping()}, nil, nil, "t", 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	run := configOf(t, c, &stopping{src, 9, stop})
	scores := filepath.Join(dir, "scores.csv")
	if run.Out, err = NewOutputs(scores, "", 2, nil, false); err != nil {
		t.Fatal(err)
	}
	s, err := Run(ctx, run)
	if err != nil || s.Partial == "" || s.Rows == 0 || s.Rows >= 200_000 {
		t.Fatalf("%d rows, %q, %v", s.Rows, s.Partial, err)
	}
	b, err := os.ReadFile(scores)
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(bytes.Count(b, []byte("\n"))); n != s.Rows+1 {
		t.Errorf("%d lines of scores for %d rows", n, s.Rows)
	}
	var page bytes.Buffer
	if err := s.WriteReport(&page, []string{"value"}, Report{Title: "T"}); err != nil || !strings.Contains(page.String(),
		"This report is partial: interrupted") {
		t.Errorf("%v; the page does not say that it is partial", err)
	}
}

// TestPartitionsAndCores holds that what is found depends on neither, but for the names
// of the anomalies.
func TestPartitionsAndCores(t *testing.T) {
	file, _ := writeSeries(t, t.TempDir(), seedtest.New(t), 9, 2500)
	c := settings(t, "ODRADEK_DETECTOR_LEVEL_THRESHOLD=conformal:0.01")
	var want string
	for _, n := range []int{1, 7, 64} {
		src, err := NewFiles([]string{file}, table.Options{Mapping: c.SchemaMapping()}, nil, nil, "t", n)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Run(t.Context(), configOf(t, c, src))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%+v", s.Detectors)
		for _, series := range s.plots {
			got += fmt.Sprintf("\n%s %+v", series.name, series.dets)
		}
		if want == "" {
			want = got
		} else if got != want {
			t.Errorf("%d partitions: %s, with one %s", n, got, want)
		}
	}
}

func TestReadLabels(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "labels")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, text := range []string{
		"key,start,end\na,2024-01-01 00:00:00,2024-01-01T00:01:00Z\nb,1,2\n",
		"\ufeff\"key\",start,end\na,2024-01-01 00:00:00,2024-01-01T00:01:00Z\nb,1,2\n",
		`{"sensor":"a","fault":"spike","from":"2024-01-01T00:00:00Z","to":"2024-01-01T00:01:00Z"}` + "\n" +
			`{"sensor":"b","from":"1970-01-01T00:00:00.000001Z","to":"1970-01-01T00:00:00.000002Z"}`,
		`{"folder/a.csv":[["2024-01-01 00:00:00.000000","2024-01-01 00:01:00.000000"]],"b":[["1","2"]],"c.csv":[]}`,
	} {
		l, err := ReadLabels(write(text))
		if err != nil || len(l["a"]) != 1 || l["a"][0] != (Span{1704067200e6, 1704067260e6}) || len(l["b"]) != 1 || l["b"][0] != (Span{1, 2}) {
			t.Errorf("%s: %v, %v", text, l, err)
		}
	}
	for text, want := range map[string]string{
		"":                          "empty",
		"key,start\n":               "no column to or end",
		"k\x00e\x00y\x00":           "UTF-16",
		"key,from,to\na,5,4\n":      "line 2",
		"key,from,to\na,monday,4\n": "is not a time",
		`{"sensor":3}`:              "must be texts",
		`{"a":[["x","y"]]}`:         "is not a time",
	} {
		if _, err := ReadLabels(write(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPlot holds that halving keeps the lowest and the highest of each stretch.
func TestPlot(t *testing.T) {
	rnd := seedtest.New(t)
	p := newPlot(8, 1, 1)
	low, top := math.Inf(1), math.Inf(-1)
	for at := int64(0); at < 1e6; at += rnd.Int64N(2000) {
		v := rnd.NormFloat64()
		low, top = min(low, v), max(top, v)
		p.values(5e15+at, []float64{v})
	}
	l, h, ok := extent(p.lo, p.hi)
	if !ok || math.Abs(l+p.base[0]-low) > 1e-6 || math.Abs(h+p.base[0]-top) > 1e-6 {
		t.Errorf("%v to %v, want %v to %v", l+p.base[0], h+p.base[0], low, top)
	}
	p.values(5e15+int64(1e6), []float64{math.NaN()})
	p.values(0, []float64{1}) // far before the begin: into the first bucket
}

// TestHeatmaps finds a planted shape in the heatmap of its series, which is in the report, at its time and its lengths, and
// nothing where no discord is.
func TestHeatmaps(t *testing.T) {
	rng, dir := seedtest.New(t), t.TempDir()
	const n, fault = 5000, 3300
	text := "key,time,value\n"
	for i := range n {
		v := math.Sin(float64(i)*0.2) + 0.02*rng.NormFloat64()
		if i >= fault && i < fault+20 {
			v = rng.NormFloat64()
		}
		text += fmt.Sprintf("a/b,%d,%v\n", int64(i)*1000, v)
	}
	file := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := settings(t, "ODRADEK_DETECTORS=shapes", "ODRADEK_DETECTOR_SHAPES_OP=discords", "ODRADEK_DETECTOR_SHAPES_WINDOW=800",
		"ODRADEK_DETECTOR_SHAPES_MIN_LENGTH=30", "ODRADEK_DETECTOR_SHAPES_MAX_LENGTH=60", "ODRADEK_DETECTOR_SHAPES_LENGTH_STEP=15",
		"ODRADEK_DETECTOR_SHAPES_STRIDE=100")
	src, err := NewFiles([]string{file}, table.Options{Mapping: c.SchemaMapping()}, nil, nil, "t", 1)
	if err != nil {
		t.Fatal(err)
	}
	run := configOf(t, c, src)
	run.State.Blocks = true
	s, err := Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	series := s.plots[0]
	h := series.plot.heat[0]
	if h == nil || h.rows != 3 || h.last() != 60 {
		t.Fatalf("%+v", h)
	}
	wide := int(1 << series.plot.width / 1_000_000) // samples of a bucket
	for row := range h.rows {
		best, at := -1.0, 0
		for i := range series.buckets() {
			if d := h.distance(row, i); d > best {
				best, at = d, i
			}
		}
		length := 30 + 15*row
		if from := int(float64(at) * float64(int64(1)<<series.plot.width) / 1e6); from < fault-length-2*wide || from > fault+20+2*wide {
			t.Errorf("length %d: the highest cell is of second %d, the fault is at %d", length, from, fault)
		}
	}
	var page bytes.Buffer
	if err := s.WriteReport(&page, []string{"value"}, Report{Title: "t"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"discords of shapes: lengths 30 (below) to 60", `<path d="M`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestLine: a score that stands alone has a dot, since a line of one place is not seen, and no
// zero has a sign.
func TestLine(t *testing.T) {
	n := nan32
	var b strings.Builder
	line(&b, "score", []float32{1, n, 2, 2, 2, 2, n, n, 0, 1}, 0, 2, 10)
	text := b.String()
	if _, dots, ok := strings.Cut(text, `class="score dot"`); !ok || strings.Count(dots, "h0") != 3 {
		t.Errorf("%s: want dots at the first and the last two", text)
	}
	b.Reset()
	line(&b, "score", []float32{1, 2, 1, 2, n}, 0, 2, 10)
	if strings.Contains(b.String(), "dot") {
		t.Errorf("%s: dots on a line", b.String())
	}
	if s := edge(math.Copysign(1e-12, -1), 1); s != "0" {
		t.Errorf("zero is %s", s)
	}
}
