package state

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// gridConfig returns a grid of 4 x 3 cells over windows of 10 microseconds. Samples are x, y, count, baseline.
func gridConfig(t *testing.T, change func(g *series.Grid, p *scan.OpParams)) *Config {
	t.Helper()
	g := &series.Grid{Columns: 4, Rows: 3, X: 0, Y: 1, Count: 2, Baseline: 3, Fields: [4]string{"lon", "lat", "n", "risk"},
		Box: [4]float64{0, 0, 4, 3}, Span: 10}
	p := scan.OpParams{Cells: 12, Columns: 4}
	if change != nil {
		change(g, &p)
	}
	d, err := scan.New(p)
	if err != nil {
		t.Fatal(err)
	}
	fixed := threshold.New(threshold.Fixed, 0)
	cfg := &Config{Dim: 4, Windows: []series.WindowConfig{{Columns: []int{0, 1}, Fingerprint: 1, Grid: g}},
		Detectors: []series.DetectorConfig{{Name: "hot", Detector: d, Stride: 1, Threshold: &fixed, Events: &anomaly.Policy{OpenAfter: 1,
			CloseAfter: 1, Release: 1}}}}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// feedGrid folds "key time x y count baseline" samples, one an offset.
func feedGrid(t *testing.T, cfg *Config, samples string) (*State, []Outcome) {
	t.Helper()
	exec := detectors.NewCPU(1)
	defer exec.Close()
	s, b := New(cfg), &detectors.Batch{}
	flush := func() {
		if err := exec.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
	}
	var outs []Outcome
	for i, f := range strings.Split(samples, ",") {
		var (
			key  string
			time int64
		)
		v := make([]float64, 4)
		if _, err := fmt.Sscan(f, &key, &time, &v[0], &v[1], &v[2], &v[3]); err != nil {
			t.Fatal(err)
		}
		for !s.Fits(b) {
			flush()
		}
		outs = append(outs, s.Fold(&Sample{Key: []byte(key), Time: time, Offset: int64(i), Values: v}, b))
	}
	for !s.Fits(b) {
		flush()
	}
	flush()
	return s, outs
}

// changes returns the changes of anomalies: kind, when, cells, count and expected count.
func changes(s *State) string {
	var out []string
	for _, e := range s.Events {
		r := e.Change.Anomaly.Region
		out = append(out, fmt.Sprintf("%s@%d %d-%d,%d-%d %d/%.4g", [...]string{"open", "update", "close"}[e.Change.Kind], e.Change.Time,
			r.ColumnFrom, r.ColumnTo, r.RowFrom, r.RowTo, r.Observed, r.Expected))
	}
	return strings.Join(out, "; ")
}

// TestGridWindows holds windows to tables and regions worked out by hand. With a count c of cells with a baseline b of
// C and B of the whole grid, the expected count is e = C b/B, and the ratio c ln(c/e) + (C-c) ln((C-c)/(C-e)).
func TestGridWindows(t *testing.T) {
	// All cells but one have a count of 1, and that one 5: of 16 events, 16/12 are expected there.
	even := func(at, x, y int) (list []string) {
		for cell := range 12 {
			n := 1
			if cell == 4*y+x {
				n = 5
			}
			list = append(list, fmt.Sprintf("k %d %d.5 %d.5 %d 2", at, cell%4, cell/4, n))
		}
		return list
	}
	join := func(lists ...[]string) string { return strings.Join(slices.Concat(lists...), ",") }
	ratio := func(c, total, e float64) float32 {
		return float32(c*math.Log(c/e) + (total-c)*math.Log((total-c)/(total-e)))
	}
	end := []string{"other 99 0 0 1 1"}
	for _, c := range []struct {
		name    string
		change  func(g *series.Grid, p *scan.OpParams)
		cfg     func(*Config)
		samples string
		rows    string // of k
		scores  []float32
		changes string
	}{
		{name: "baselines of the samples", samples: join(even(3, 2, 1), end),
			rows: "k11@9s", scores: []float32{ratio(5, 16, 16.0/12)}, changes: "open@9 2-2,1-1 5/1.333"},
		{name: "no baselines", change: func(g *series.Grid, _ *scan.OpParams) { g.Baseline = -1 }, samples: join(even(3, 0, 2), end),
			rows: "k11@9s", scores: []float32{ratio(5, 16, 16.0/12)}, changes: "open@9 0-0,2-2 5/1.333"},
		{name: "counts are samples", change: func(g *series.Grid, _ *scan.OpParams) { g.Count, g.Baseline = -1, -1 },
			samples: join(even(3, 0, 2), []string{"k 4 1 1 0 0", "k 4 1 1 0 0"}, end),
			rows:    "k13@9s", scores: []float32{ratio(3, 14, 14.0/12)}, changes: "open@9 1-1,1-1 3/1.167"},
		// 5 of 16, where the windows before had 1 + 5 + 5 of 12 + 16 + 16 = 44; elsewhere 5, where they had 3: 16 * 3/44.
		{name: "learnt", change: func(g *series.Grid, _ *scan.OpParams) { g.Baseline, g.Learn = -1, 2 },
			samples: join(even(3, 2, 1), even(13, 2, 1), even(23, 2, 1), even(33, 0, 0), end),
			rows:    "k11@9w k23@19w k35@29s k47@39s", scores: []float32{float32(math.NaN()), float32(math.NaN()),
				ratio(11, 16, 16*33.0/44), ratio(5, 16, 16*4.0/60)}, changes: "open@29"},
		{name: "the spot moves on, then elsewhere", samples: join(even(3, 0, 0), even(13, 0, 0), even(43, 3, 2), end),
			rows: "k11@9s k23@19s k35@49s", scores: slices.Repeat([]float32{ratio(5, 16, 16.0/12)}, 3),
			changes: "open@9 0-0,0-0 5/1.333; close@49 0-0,0-0 5/1.333; open@49 3-3,2-2 5/1.333"},
		// The window from 0 to 10 has 22 of baselines of 26; that to 15 has only the last two samples, that to 45 the last.
		{name: "windows overlap", change: func(g *series.Grid, _ *scan.OpParams) { g.Stride = 5 },
			samples: join(even(3, 2, 1), []string{"k 7 0 0 6 2", "k 12 3 2 9 2", "k 41 0 0 1 1"}, end),
			rows:    "k11@4s k12@9s k13@14s k14@44s", scores: []float32{ratio(5, 16, 16.0/12), ratio(5, 22, 22*2/26.0), ratio(9, 15, 7.5), 0},
			changes: "open@4 2-2,1-1 5/1.333; close@14 2-2,1-1 5/1.692; open@14 3-3,2-2 9/7.5; close@44 3-3,2-2 9/7.5"},
		{name: "windows overlap, learnt", change: func(g *series.Grid, _ *scan.OpParams) { g.Baseline, g.Learn, g.Stride = -1, 1, 5 },
			samples: join(even(3, 2, 1), []string{"k 7 0 0 6 0", "k 12 0 0 4 0", "k 33 1 0 2 0"}, end),
			// First 10 of 10 in a cell that had 2 of 28 before, then 2 of 2 in one that had 2 of 38.
			rows: "k11@4w k12@9w k13@14s k14@34s", scores: []float32{float32(math.NaN()), float32(math.NaN()), float32(10 * math.Log(28.0/2)),
				float32(2 * math.Log(38.0/2))}, changes: "open@14 0-0,0-0 10/0.7143; close@34 0-0,0-0 10/0.7143; open@34 1-1,0-0 2/0.1053"},
		{name: "nothing stands out", samples: "k 3 0 0 2 4,k 3 1 0 3 6,other 99 0 0 1 1", rows: "k1@9s", scores: []float32{0}},
		{name: "a count without a baseline has no score", samples: "k 3 0 0 2 0,k 3 1 0 3 6,other 99 0 0 1 1",
			rows: "k1@9s", scores: []float32{float32(math.NaN())}},
		{name: "chance explains it", change: func(_ *series.Grid, p *scan.OpParams) { p.Replicates = 99 },
			cfg: func(c *Config) { c.Detectors[0].MaxP = 0.05 }, samples: "k 3 0 0 2 1,k 3 1 0 1 1,other 99 0 0 1 1",
			rows: "k1@9s", scores: []float32{ratio(2, 3, 1.5)}},
		{name: "and does not", change: func(_ *series.Grid, p *scan.OpParams) { p.Replicates = 99 },
			cfg: func(c *Config) { c.Detectors[0].MaxP = 0.05 }, samples: "k 3 0 0 40 1,k 3 1 0 1 1,other 99 0 0 1 1",
			rows: "k1@9s", scores: []float32{ratio(40, 41, 20.5)}, changes: "open@9 0-0,0-0 40/20.5"},
		{name: "before the epoch", samples: "k -13 0 0 40 1,k -11 1 0 1 1,k -10 1 0 1 1,other 99 0 0 1 1",
			rows: "k1@-11s k2@-1s", scores: []float32{ratio(40, 41, 20.5), 0}, changes: "open@-11 0-0,0-0 40/20.5; close@-1 0-0,0-0 40/20.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := gridConfig(t, c.change)
			if c.cfg != nil {
				c.cfg(cfg)
			}
			s, _ := feedGrid(t, cfg, c.samples)
			rows := slices.DeleteFunc(slices.Clone(s.Rows), func(r Row) bool { return string(r.Key.Name()) != "k" })
			if got := brief(rows); got != c.rows {
				t.Fatalf("rows %s, want %s", got, c.rows)
			}
			for i, r := range rows {
				if d := math.Abs(float64(r.Score - c.scores[i])); !(d < 1e-5) && (r.Score == r.Score || c.scores[i] == c.scores[i]) {
					t.Errorf("row %d: score %v, want %v", i, r.Score, c.scores[i])
				}
				if r.State == RowScored && (r.Until != r.Time || r.About != r.Time-9) {
					t.Errorf("row %d is about %d to %d", i, r.About, r.Until)
				}
			}
			if got := changes(s); got != c.changes && (c.name != "learnt" || !strings.HasPrefix(got, c.changes)) {
				t.Errorf("changes %s\nwant %s", got, c.changes)
			}
		})
	}
}

// TestGridOrder: a window closes where the watermark reaches its end, before a sample at that time, and what comes
// after it is late; without a lateness, too.
func TestGridOrder(t *testing.T) {
	for _, c := range []struct {
		name     string
		lateness int64
		samples  string
		outs     []Outcome
		rows     string
	}{
		{"a sample at the end is in the next window", 0, "k 9 0 0 1 1,k 10 0 0 1 1,k 20 0 0 1 1",
			[]Outcome{Scored, Scored, Scored}, "k0@9s k1@19s"},
		{"closed by another key", 0, "k 9 0 0 1 1,a 10 0 0 1 1,k 9 0 0 1 1,b 9 0 0 1 1,k 11 0 0 1 1,k 25 0 0 1 1",
			[]Outcome{Scored, Scored, Late, Late, Scored, Scored}, "k0@9s a1@19s k4@19s"},
		{"held", 5, "k 9 0 0 1 1,k 14 0 0 1 1,k 8 0 0 1 1,a 15 0 0 1 1,k 9 0 0 1 1,k 10 0 0 1 1,a 40 0 0 1 1",
			[]Outcome{Held, Held, Late, Held, Late, Held, Held}, "k0@9s a3@19s k1@19s"},
		{"missing", 0, "k 9 NaN 0 1 1,k 9 0 0 NaN 1,k 9 0 0 1 NaN,k 20 0 0 1 1", []Outcome{Missing, Missing, Missing, Scored}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := gridConfig(t, nil)
			cfg.Reading.Lateness = c.lateness
			s, outs := feedGrid(t, cfg, c.samples)
			if !slices.Equal(outs, c.outs) {
				t.Errorf("outcomes %v, want %v", outs, c.outs)
			}
			if got := brief(s.Rows); got != c.rows {
				t.Errorf("rows %s, want %s", got, c.rows)
			}
		})
	}
}

func TestMisplaced(t *testing.T) {
	s := New(gridConfig(t, func(g *series.Grid, _ *scan.OpParams) { g.Box = [4]float64{-180, -90, 180, 90} }))
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		class  string
		field  string
	}{
		{[]float64{-180, -90, 0, 0}, "", ""},
		{[]float64{math.Nextafter(180, 0), math.Nextafter(90, 0), 1 << 53, 1 << 53}, "", ""},
		{[]float64{180, 0, 1, 1}, "outside_grid", "lon"},
		{[]float64{0, 90, 1, 1}, "outside_grid", "lat"},
		{[]float64{0, -90.0001, 1, 1}, "outside_grid", "lat"},
		{[]float64{0, 0, -1, 1}, "bad_count", "n"},
		{[]float64{0, 0, 0.5, 1}, "bad_count", "n"},
		{[]float64{0, 0, 1 << 54, 1}, "bad_count", "n"},
		{[]float64{0, 0, 1, -1}, "bad_count", "risk"},
		{[]float64{0, 0, 1, 1.25}, "bad_count", "risk"},
		{[]float64{nan, 0, 1, 1}, "", ""},
		{[]float64{0, 0, nan, 1}, "", ""},
	} {
		err := s.Misplaced([]byte("k"), c.values)
		if (err == nil) != (c.class == "") || err != nil && (err.Class != c.class || err.Field != c.field) {
			t.Errorf("%v: %+v, want %s of %s", c.values, err, c.class, c.field)
		}
	}
	signed := New(gridConfig(t, func(g *series.Grid, p *scan.OpParams) {
		g.Signed, p.Model, p.Variance = true, scan.ModelNormal, 1
	}))
	if err := signed.Misplaced([]byte("k"), []float64{0, 0, -1, 1}); err != nil {
		t.Error(err)
	}
}
