package state

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// feed folds "key time value" samples, one an offset from 0 on, and returns the
// outcomes and the rows.
func feed(t *testing.T, cfg *Config, samples string) (*State, []Outcome, []Row) {
	t.Helper()
	s, b := New(cfg), &detectors.Batch{}
	var outs []Outcome
	for i, f := range strings.Split(samples, ",") {
		var (
			key   string
			time  int64
			value float64
		)
		if _, err := fmt.Sscan(f, &key, &time, &value); err != nil {
			t.Fatal(err)
		}
		outs = append(outs, s.Fold(&Sample{Key: []byte(key), Time: time, Offset: int64(i), Values: []float64{value}}, b))
	}
	execute(b)
	s.Apply(b)
	return s, outs, s.Rows
}

func one(f *fake, stride int) *Config {
	return &Config{
		Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "d", Detector: f, Stride: stride}},
	}
}

// brief is rows as offset, time and state.
func brief(rows []Row) string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s%d@%d%c", r.Key.Name(), r.Offset, r.Time, "swi"[r.State]))
	}
	return strings.Join(out, " ")
}

func TestOutcomesAndRows(t *testing.T) {
	for _, c := range []struct {
		name    string
		cfg     func(*Config)
		stride  int
		samples string
		outs    []Outcome
		rows    string
	}{
		{"warming up, then scored", nil, 1, "a 1 1,a 2 1,a 3 1",
			[]Outcome{WarmingUp, WarmingUp, Scored}, "a0@1w a1@2w a2@3s"},
		{"a stride of two", nil, 2, "a 1 1,a 2 1,a 3 1,a 4 1,a 5 1",
			[]Outcome{WarmingUp, WarmingUp, Scored, Scored, Scored}, "a0@1w a1@2w a2@3s a3@4s"},
		{"rows in the order of samples", nil, 2, "a 1 1,a 2 1,a 3 1,b 3 1,a 4 1,b 4 1",
			[]Outcome{WarmingUp, WarmingUp, Scored, WarmingUp, Scored, WarmingUp}, "a0@1w a1@2w b3@3w a2@3s a4@4s b5@4w"},
		{"late in order of arrival", nil, 1, "a 5 1,b 1 1,a 4 1,a 5 1",
			[]Outcome{WarmingUp, WarmingUp, Late, WarmingUp}, "a0@5w b1@1w a3@5w"},
		{"duplicates", func(c *Config) { c.Reading.DropDuplicates = true }, 1, "a 5 1,a 5 2,b 5 1,a 6 1",
			[]Outcome{WarmingUp, Duplicate, WarmingUp, WarmingUp}, "a0@5w b2@5w a3@6w"},
		{"missing", nil, 1, "a 1 1,a 2 NaN,a 3 +Inf,a 4 1,a 5 1",
			[]Outcome{WarmingUp, Missing, Missing, WarmingUp, Scored}, "a0@1w a3@4w a4@5s"},
		{"missing is repeated", func(c *Config) { c.Reading.Hold = true }, 1, "a 1 NaN,a 2 7,a 3 NaN,a 4 NaN,a 5 1",
			[]Outcome{Missing, WarmingUp, WarmingUp, Scored, Scored}, "a1@2w a2@3w a3@4i a4@5s"},
		{"imputed within a stride", func(c *Config) { c.Reading.Hold = true }, 2, "a 1 1,a 2 1,a 3 NaN,a 4 1",
			[]Outcome{WarmingUp, WarmingUp, Scored, Scored}, "a0@1w a1@2w a2@3i a3@4s"},
		{"filtered", func(c *Config) {
			c.Detectors[0].Keys = func(k []byte) bool { return k[0] == 'a' }
		}, 1, "b 1 1,a 2 1", []Outcome{Filtered, WarmingUp}, "a1@2w"},
		// At 20 the watermark is 10: 11 and 12 wait, 9 is late, 10 is not.
		{"held", func(c *Config) { c.Reading.Lateness = 10 }, 1, "a 12 1,a 20 1,b 11 1,b 9 1,a 10 1,a 22 1,c 40 1",
			[]Outcome{Held, Held, Held, Late, Held, Held, Held}, "a4@10w b2@11w a0@12w a1@20s a5@22s"},
		{"held ties by offset", func(c *Config) { c.Reading.Lateness = 10 }, 1, "a 5 1,b 5 1,a 5 1,c 15 1",
			[]Outcome{Held, Held, Held, Held}, "a0@5w b1@5w a2@5w"},
		{"held duplicates", func(c *Config) { c.Reading.Lateness, c.Reading.DropDuplicates = 10, true }, 1, "a 5 1,a 7 1,a 5 2,a 15 1,a 5 3,c 30 1",
			[]Outcome{Held, Held, Duplicate, Held, Duplicate, Held}, "a0@5w a1@7w a3@15s"},
		{"the least recently used key goes", func(c *Config) { c.MaxKeys = 2 }, 1, "a 1 1,b 2 1,a 3 1,c 4 1,b 5 1,a 6 1",
			[]Outcome{WarmingUp, WarmingUp, WarmingUp, WarmingUp, WarmingUp, WarmingUp}, "a0@1w b1@2w a2@3w c3@4w b4@5w a5@6w"},
		{"it counts as new", func(c *Config) { c.MaxKeys = 1 }, 1, "a 1 1,a 2 1,b 3 1,a 4 1,a 5 1,a 6 1",
			[]Outcome{WarmingUp, WarmingUp, WarmingUp, WarmingUp, WarmingUp, Scored}, "a0@1w a1@2w b2@3w a3@4w a4@5w a5@6s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := one(&fake{window: 4, least: 3}, c.stride)
			if c.cfg != nil {
				c.cfg(cfg)
			}
			_, outs, rows := feed(t, cfg, c.samples)
			if !slices.Equal(outs, c.outs) {
				t.Errorf("outcomes %v, want %v", outs, c.outs)
			}
			if got := brief(rows); got != c.rows {
				t.Errorf("rows %s\nwant %s", got, c.rows)
			}
		})
	}
}

func TestTimeToLive(t *testing.T) {
	cfg := one(&fake{window: 4, least: 3}, 1)
	cfg.TTL = 80 // looked at when the watermark passes a multiple of 10
	s, _, _ := feed(t, cfg, "a 1 1,b 80 1,b 89 1")
	if s.Keys.Get([]byte("a")) == nil {
		t.Error("keys were looked for between 80 and 90")
	}
	s, _, _ = feed(t, cfg, "a 1 1,b 80 1,b 89 1,b 90 1")
	if s.Keys.Get([]byte("a")) != nil || s.Keys.Get([]byte("b")) == nil || s.Tally.EvictedKeys != 1 {
		t.Error("a lives on at 90")
	}
	s, _, rows := feed(t, cfg, "a 1 1,a 2 1,a 3 1,a 100 1")
	if s.Tally.EvictedKeys != 1 || rows[3].State != RowWarmingUp || s.Keys.Get([]byte("a")).Born != 3 {
		t.Error("a key that comes back after its time to live is not new")
	}
	cfg.Reading.Lateness = 50
	s, outs, _ := feed(t, cfg, "a 1 1,b 140 1,b 141 1,a 100 1,b 200 1")
	if s.Tally.EvictedKeys != 1 || outs[3] != Held || s.Held() != 1 {
		t.Errorf("%d evicted, %d held, %v", s.Tally.EvictedKeys, s.Held(), outs)
	}
}

func TestHeldSamplesOfAnEvictedKeyAreCounted(t *testing.T) {
	cfg := one(&fake{window: 4, least: 3}, 1)
	cfg.Reading.Lateness, cfg.MaxKeys = 100, 1
	s, _, _ := feed(t, cfg, "a 1 1,a 2 1,b 3 1")
	if s.Tally.Counts[Evicted] != 2 || s.Held() != 1 || s.Keys.Len() != 1 {
		t.Errorf("counts %v, %d held", s.Tally.Counts, s.Held())
	}
}

// TestTwoStatesShareABatch: a task of one State leaves another's in the same batch alone.
func TestTwoStatesShareABatch(t *testing.T) {
	cfg := one(&fake{id: 3, window: 4, least: 2, carry: 2}, 2)
	a, c, alone := New(cfg), New(cfg), New(cfg)
	shared, own := &detectors.Batch{}, &detectors.Batch{}
	for i := range int64(40) {
		sm := Sample{Key: []byte("k"), Time: i, Offset: i, Values: []float64{float64(i * i % 7)}}
		a.Fold(&sm, shared)
		alone.Fold(&sm, own)
		sm.Values = []float64{-float64(i)}
		c.Fold(&sm, shared)
		if i%9 == 8 {
			execute(shared)
			c.Apply(shared)
			a.Apply(shared)
			shared.Reset()
		}
	}
	execute(shared)
	a.Apply(shared)
	execute(own)
	alone.Apply(own)
	compareRows(t, flatten(a.Rows), flatten(alone.Rows))
}

// TestSteady: rows of detectors that have Reach equal AppendFindings'.
func TestSteady(t *testing.T) {
	rows := func(d detectors.Detector) []flat {
		cfg := benchConfig(5, 3)
		cfg.Detectors[0].Detector = d
		s, b := New(cfg), &detectors.Batch{}
		for i := range int64(40) {
			s.Fold(&Sample{Key: []byte("k"), Time: 10 * i, Offset: i, Values: []float64{float64(i * i % 7)}}, b)
		}
		for i := range b.Out {
			b.Out.SetFloat32(i, float32(i))
		}
		s.Apply(b)
		return flatten(s.Rows)
	}
	compareRows(t, rows(steady{plain(5)}), rows(plain(5)))
	compareRows(t, rows(reaching{lagging{5}}), rows(lagging{5}))
}

// lagging has scores that cover the rows from 3 to 1 before the fresh one.
type lagging struct{ plain }

func (l lagging) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, detectors.Finding{Fresh: i, From: first + i - 3, To: first + i - 1, Score: float64(s)})
	}
	return dst
}

type reaching struct{ lagging }

func (reaching) Reach() (from, to int) { return 3, 1 }

func TestCheck(t *testing.T) {
	if err := twoWindows().Check(); err != nil {
		t.Fatal(err)
	}
	bad := &Config{
		Dim: 2, Reading: rules.Reading{Order: rules.Order{Lateness: -1}},
		Windows: []series.WindowConfig{{Columns: []int{2}, Fingerprint: 1}, {Fingerprint: 1}},
		Detectors: []series.DetectorConfig{
			{Name: "a", Detector: &fake{window: 3, least: 4}, Stride: 1},
			{Name: "a", Detector: &fake{window: 3, least: 1}, Stride: 0},
			{Name: "b", Detector: &fake{window: 3, least: 1}, Stride: 1, Window: 2},
			{Name: "c", Stride: 1},
		},
	}
	err := fmt.Sprint(bad.Check())
	for _, want := range []string{"negative", "column 2", "0 columns", "fingerprint", "scores no sample", "taken", "stride 0",
		"window 2 of 2", "is nil"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q is not in:\n%s", want, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("New takes what Check refuses")
		}
	}()
	New(bad)
}

// Misuse that would corrupt state is a panic that says what to do.
func TestMisusePanics(t *testing.T) {
	sample := func(s *State, b *detectors.Batch, o int64) {
		s.Fold(&Sample{Key: []byte("k"), Time: o, Offset: o, Values: []float64{1}}, b)
	}
	for name, f := range map[string]func(s *State, b *detectors.Batch){
		"offset goes back":           func(s *State, b *detectors.Batch) { sample(s, b, 7); sample(s, b, 7) },
		"mark goes back":             func(s *State, b *detectors.Batch) { s.Mark(5); sample(s, b, 7); s.Mark(6) },
		"mark before apply":          func(s *State, b *detectors.Batch) { sample(s, b, 1); sample(s, b, 2); s.Mark(3) },
		"snapshot, no mark":          func(s *State, b *detectors.Batch) { s.Mark(0); sample(s, b, 1); s.Snapshot(9, 0, nil) },
		"replay of too much":         func(s *State, b *detectors.Batch) { s.BeginReplay(Floor{}, 1, false); sample(s, b, 1) },
		"end without a begin":        func(s *State, b *detectors.Batch) { s.EndReplay() },
		"mark in replay":             func(s *State, b *detectors.Batch) { s.BeginReplay(Floor{}, 1, false); s.Mark(1) },
		"decision of what is folded": func(s *State, b *detectors.Batch) { sample(s, b, 7); s.Decide(MissingSchema, nil, nil, 7) },
		"mark at a decision":         func(s *State, b *detectors.Batch) { s.Mark(0); s.Decide(MissingSchema, nil, nil, 7); s.Mark(7) },
		"decision in replay": func(s *State, b *detectors.Batch) {
			s.BeginReplay(Floor{}, 1, false)
			s.Decide(MissingSchema, nil, nil, 0)
		},
		"unlogged evictions": func(s *State, b *detectors.Batch) {
			s.Mark(0)
			s.Fold(&Sample{Key: []byte("other"), Time: 1, Offset: 1, Values: []float64{1}}, b)
			sample(s, b, 2)
			s.Mark(3)
			s.Committed(3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := one(&fake{window: 4, least: 2}, 1)
			cfg.MaxKeys = 1
			defer func() {
				if v, ok := recover().(string); !ok || !strings.HasPrefix(v, "state: ") {
					t.Errorf("panic %v", v)
				}
			}()
			f(New(cfg), &detectors.Batch{})
		})
	}
}

func TestRollbackToUnknownMark(t *testing.T) {
	s, b := New(one(&fake{window: 4, least: 2}, 1)), &detectors.Batch{}
	s.Mark(10)
	s.Fold(&Sample{Key: []byte("k"), Offset: 12, Values: []float64{1}}, b)
	s.Mark(15)
	for _, to := range []int64{9, 11, 14, 16} {
		if err := s.Rollback(to); err == nil {
			t.Errorf("rolled back to %d", to)
		}
	}
	if err := s.Rollback(10); err != nil || s.Keys.Len() != 0 {
		t.Errorf("%v, %d keys", err, s.Keys.Len())
	}
}

func TestPackKeepsDigits(t *testing.T) {
	cfg := one(&fake{window: 4, least: 4}, 1)
	s, b := New(cfg), &detectors.Batch{}
	for i, v := range []float64{1e12, 1e9 + 0.001, 1e9 + 0.002, 1e9, 1e9 + 0.003} {
		s.Fold(&Sample{Key: []byte("k"), Offset: int64(i), Time: int64(i), Values: []float64{v}}, b)
	}
	x := b.Rows(len(b.Tasks) - 1).X
	if d := float64(x[3] - x[2]); math.Abs(d-0.003) > 1e-7 {
		t.Errorf("a difference of 0.003 at 1e9 became %v", d)
	}
	for v, want := range map[float64]int64{2.5: 2, 3.5: 4, -0.4: 0, 1e300: 1 << 62, -1e300: -1 << 62} {
		if got := detectors.Count(v); got != want {
			t.Errorf("detectors.Count(%v) = %d", v, got)
		}
	}
}

// Emitted slices are the caller's until emit returns, and an error stops.
func TestSnapshotStopsAtAnError(t *testing.T) {
	s, b := New(benchConfig(3, 1)), &detectors.Batch{}
	s.Mark(0)
	for i := range int64(10) {
		s.Fold(&Sample{Key: []byte{byte(i)}, Time: i, Offset: i, Values: []float64{1}}, b)
	}
	s.Mark(10)
	before := s.Export(nil)
	n, full := 0, errors.New("full")
	err := s.Snapshot(10, 0, func(k, v []byte) error {
		if n++; n == 4 {
			return full
		}
		return nil
	})
	if n != 4 || err == nil || !reflect.DeepEqual(before, s.Export(nil)) {
		t.Errorf("%d emitted, %v", n, err)
	}
	if err := s.Rollback(0); err != nil || s.Keys.Len() != 0 {
		t.Error(err)
	}
}

// Every limit of the batch is kept, however many held samples one sample
// releases.
func TestBatchLimitsAreKept(t *testing.T) {
	cfg := one(&fake{window: 4, least: 2, carry: 3}, 1)
	cfg.Reading.Lateness = 1000
	s, b := New(cfg), &detectors.Batch{MaxTasks: 7}
	r := rand.New(rand.NewPCG(1, 1))
	flushes := 0
	fold := func(o int64, time int64) {
		for !s.Fits(b) {
			flushes++
			execute(b)
			s.Apply(b)
			b.Reset()
		}
		s.Fold(&Sample{Key: []byte{byte(o % 5)}, Time: time, Offset: o, Values: []float64{1}}, b)
		if len(b.Tasks) > 7 {
			t.Fatalf("%d tasks", len(b.Tasks))
		}
	}
	for o := range int64(500) {
		fold(o, r.Int64N(900))
	}
	fold(500, 5000)
	fold(501, 5000)
	if flushes < 500/7-2 || s.Held() != 2 {
		t.Errorf("%d flushes, %d held", flushes, s.Held())
	}
	if !bytes.Equal([]byte{1}, s.Keys.Get([]byte{1}).Name()) {
		t.Error("name")
	}
}
