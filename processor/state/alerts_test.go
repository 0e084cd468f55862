package state

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// level is a detector whose score is the sample itself.
type level struct{ plain }

func (level) Reach() (from, to int) { return 0, 0 }

func levels(b *detectors.Batch) {
	for i := range b.Tasks {
		r := b.Rows(i)
		for j := range r.Scores {
			r.Scores[j] = r.X[(r.Len()-r.Fresh+j)*r.Dim] - r.X[0]
		}
	}
}

// watched has one detector, "high", whose score is how far the sample is above the
// one before, with a bound of 10: two over open, two under close.
func watched() *Config {
	params := threshold.New(threshold.Fixed, 10)
	return &Config{
		Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{
			Name: "high", Detector: level{plain(2)}, Stride: 1, Fingerprint: 7, Threshold: &params,
			Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 2, Release: 1},
		}},
	}
}

// rig drives a State as a worker does, one sample a cycle.
type rig struct {
	t      *testing.T
	s      *State
	b      *detectors.Batch
	offset int64
	log    []record
	floor  Floor
	events []string
}

func newRig(t *testing.T, cfg *Config) *rig {
	x := &rig{t: t, s: New(cfg), b: &detectors.Batch{}}
	x.s.SetSource("in", 3)
	x.s.Mark(0)
	return x
}

// fold takes "key time value" samples, without a commit.
func (rg *rig) fold(samples string) {
	rg.t.Helper()
	for _, f := range strings.Split(samples, ",") {
		var (
			key   string
			time  int64
			value float64
		)
		if _, err := fmt.Sscan(f, &key, &time, &value); err != nil {
			rg.t.Fatal(err)
		}
		for !rg.s.Fits(rg.b) {
			rg.flush()
		}
		rg.s.Fold(&Sample{Key: []byte(key), Time: time, Offset: rg.offset, Values: []float64{value}}, rg.b)
		rg.offset++
	}
	rg.flush()
}

func (rg *rig) flush() {
	levels(rg.b)
	rg.s.Apply(rg.b)
	rg.b.Reset()
	for _, e := range rg.s.Events {
		c := &e.Change
		rg.events = append(rg.events, fmt.Sprintf("%s/%s(%d) %s %s@%d#%d r%d", e.Key.Name(), e.Name, e.Detector,
			[]string{"open", "update", "close"}[c.Kind], []string{"recovered", "evicted", "expired", "removed", "reset"}[c.Reason], c.Time,
			c.Offset, c.Anomaly.Revision))
	}
	rg.s.Events = rg.s.Events[:0]
}

// commit ends the cycle with no more of a snapshot than has to be.
func (rg *rig) commit() {
	rg.t.Helper()
	rg.s.Mark(rg.offset)
	if err := rg.s.Snapshot(math.MinInt64, -1, func(k, v []byte) error {
		rg.log = append(rg.log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		rg.t.Fatal(err)
	}
	rg.floor = rg.s.Floor()
	rg.s.Committed(rg.offset)
}

// all snapshots everything.
func (rg *rig) all() {
	rg.t.Helper()
	if err := rg.s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
		rg.log = append(rg.log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		rg.t.Fatal(err)
	}
	rg.floor = rg.s.Floor()
	rg.s.Committed(rg.offset)
}

// restart restores the state, which must be snapshotted in full, with cfg.
func (rg *rig) restart(cfg *Config) {
	rg.t.Helper()
	s := New(cfg)
	s.SetSource("in", 3)
	for _, r := range compact(rg.log, rg.log, false) {
		if err := s.Load(r.key, r.value); err != nil {
			rg.t.Fatal(err)
		}
	}
	if err := s.BeginReplay(rg.floor, rg.offset, false); err != nil {
		rg.t.Fatal(err)
	}
	s.EndReplay()
	s.Mark(rg.offset)
	s.Committed(rg.offset)
	rg.s = s
}

func (rg *rig) want(want ...string) {
	rg.t.Helper()
	if !slices.Equal(rg.events, want) {
		rg.t.Errorf("events\n  %s\nwant\n  %s", strings.Join(rg.events, "\n  "), strings.Join(want, "\n  "))
	}
	rg.events = nil
}

func TestAnomalyOfAKey(t *testing.T) {
	x := newRig(t, watched())
	x.fold("a 1 0,a 2 5,a 3 30")
	x.want("a/high(0) open recovered@3#2 r1")
	x.commit()
	if n := len(x.log); n != 3 || x.log[0].key[0] != changelog.Decision || x.log[1].key[0] != changelog.Decision ||
		x.log[2].key[0] != changelog.Head {
		t.Errorf("the cycle of a change has %d records %q", n, x.log)
	}
	before := x.s.Export(nil)
	x.fold("a 4 30,a 5 30,a 6 90") // closes and opens again
	x.want("a/high(0) close recovered@5#4 r2", "a/high(0) open recovered@6#5 r1")
	if err := x.s.Rollback(3); err != nil || !bytes.Equal(before, x.s.Export(nil)) {
		t.Errorf("rolled back to another state: %v", err)
	}
	if x.s.Mark(3); x.s.Snapshot(math.MinInt64, -1,
		func(k, v []byte) error { t.Errorf("%q is snapshotted for what was undone", k); return nil }) != nil {
		t.Fail()
	}
}

// TestDetectorGetsThreshold: a threshold that a detector gets judges the scores of a key that the changelog has without one.
func TestDetectorGetsThreshold(t *testing.T) {
	cfg := watched()
	cfg.Detectors[0].Threshold, cfg.Detectors[0].Events = nil, nil
	x := newRig(t, cfg)
	x.fold("a 1 0,a 2 5,a 3 30")
	x.commit()
	x.all()
	x.restart(watched())
	x.fold("a 4 60,a 5 60,a 6 60")
	x.want("a/high(0) open recovered@4#3 r1", "a/high(0) close recovered@6#5 r2")
}

// TestOpenWhenEvicted: an anomaly that is still open when its key is evicted closes, in the order of the
// samples although the opening score comes in after the eviction.
func TestOpenWhenEvicted(t *testing.T) {
	cfg := watched()
	cfg.MaxKeys = 1
	x := newRig(t, cfg)
	x.fold("a 1 0,a 2 50,b 3 0,b 4 1,a 5 0,a 6 1")
	x.want("a/high(0) open recovered@2#1 r1", "a/high(0) close evicted@3#2 r2")
	cfg = watched()
	cfg.TTL, cfg.Silence = 80, 30
	x = newRig(t, cfg)
	x.fold("a 1 0,a 2 50,b 20 0")
	x.fold("b 40 0")
	x.fold("b 70 0,b 99 0")
	x.want("a/high(0) open recovered@2#1 r1", "a/silence(-1) open recovered@40#3 r1",
		"a/high(0) close expired@99#5 r2", "a/silence(-1) close expired@99#5 r2")
	x.commit()
	if i := slices.IndexFunc(x.log, func(r record) bool { return r.key[0] == changelog.Eviction }); i < 0 {
		t.Error("the eviction is not in the cycle of its close")
	}
	if err := x.s.Rollback(x.offset); err != nil {
		t.Fatal(err)
	}
}

// removed opens an anomaly and restores it with another configuration.
func removed(t *testing.T, change func(*Config)) *rig {
	x := newRig(t, watched())
	x.fold("a 1 0,a 2 5,a 3 30,b 4 0")
	x.commit()
	x.all()
	x.events = nil
	cfg := watched()
	cfg.DropMismatched = true
	change(cfg)
	x.restart(cfg)
	return x
}

// What is open when its detector cannot go on with it is closed with the first
// live sample, once, also where that cycle is aborted, the state is written before,
// or the worker restarts.
func TestOpenWhenTheConfigurationChanges(t *testing.T) {
	other := func(c *Config) {
		c.Detectors[0].Name, c.Detectors[0].Fingerprint = "other", 8
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
		keys   int
	}{
		{"removed", other, "a/high(-2) close removed@5#4 r2", 2},
		{"removed for this key", func(c *Config) {
			d := c.Detectors[0]
			c.Detectors[0].Keys = func(k []byte) bool { return k[0] == 'b' }
			d.Name, d.Fingerprint = "other", 8
			c.Detectors = append(c.Detectors, d)
		}, "a/high(0) close removed@5#4 r2", 2},
		{"nothing looks at the key", func(c *Config) {
			c.Detectors[0].Keys = func(k []byte) bool { return k[0] == 'b' }
		}, "a/high(0) close removed@5#4 r2", 1},
		{"no events", func(c *Config) { c.Detectors[0].Events = nil }, "a/high(0) close removed@5#4 r2", 2},
		{"no threshold", func(c *Config) { c.Detectors[0].Threshold, c.Detectors[0].Events = nil, nil }, "a/high(0) close removed@5#4 r2", 2},
		{"other parameters", func(c *Config) { c.Detectors[0].Fingerprint = 9 }, "a/high(0) close reset@5#4 r2", 2},
		{"other fields", func(c *Config) { c.Windows[0].Fingerprint = 2 }, "a/high(0) close reset@5#4 r2", 2},
		{"another dimension", func(c *Config) { c.Windows[0].Columns, c.Windows[0].Fingerprint = []int{0, 0}, 2 },
			"a/high(0) close reset@5#4 r2", 2},
		{"another history", func(c *Config) { c.Detectors[0].Threshold.History = 100 }, "", 2},
		{"nothing", func(*Config) {}, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := removed(t, c.change)
			cfg := x.s.cfg
			x.all() // a cycle without records, before any sample
			x.restart(cfg)
			x.want()
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			before := x.s.Export(nil)
			x.fold("b 5 0") // a cycle that is aborted
			x.want(want...)
			x.offset--
			if err := x.s.Rollback(x.offset); err != nil || !bytes.Equal(before, x.s.Export(nil)) {
				t.Fatalf("rolled back to another state: %v", err)
			}
			x.fold("b 5 0")
			x.want(want...)
			x.commit()
			if x.s.Keys.Len() != c.keys {
				t.Errorf("%d keys", x.s.Keys.Len())
			}
			x.fold("b 6 0")
			x.commit()
			x.all()
			after := x.s.Export(nil)
			x.restart(cfg)
			if !bytes.Equal(after, x.s.Export(nil)) {
				t.Error("restored to another state")
			}
			x.fold("b 7 0,b 8 0")
			x.want()
			if c.want == "" {
				x.fold("a 9 30,a 10 30")
				x.want("a/high(0) close recovered@10#9 r2")
			}
		})
	}
}

// TestEvictedBeforeTheFirstSample: a key with an anomaly that nothing continues may be evicted before the first live sample has
// closed it. The eviction closes it, once, and no sample comes back to the key.
func TestEvictedBeforeTheFirstSample(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*Config)
	}{
		{"removed", "a/high(-2) close removed@4#4 r2", func(c *Config) { c.Detectors[0].Name, c.Detectors[0].Fingerprint = "other", 8 }},
		{"nothing looks at the key", "a/high(0) close removed@4#4 r2", func(c *Config) {
			c.Detectors[0].Keys = func(k []byte) bool { return k[0] == 'b' }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := removed(t, c.change)
			cfg, before := x.s.cfg, x.s.Export(nil)
			for range 2 {
				if err := x.s.Rollback(x.offset); err != nil || !bytes.Equal(before, x.s.Export(nil)) {
					t.Fatalf("rolled back to another state: %v", err)
				}
				x.s.Trim(x.s.Bytes()-1, x.offset)
				x.fold("b 5 0")
				x.want(c.want)
				x.offset--
			}
			x.offset++
			x.commit()
			x.all()
			if x.s.Keys.Get([]byte("a")) != nil || x.s.Keys.Len() != 1 {
				t.Errorf("%d keys", x.s.Keys.Len())
			}
			after := x.s.Export(nil)
			if x.restart(cfg); !bytes.Equal(after, x.s.Export(nil)) {
				t.Error("restored to another state")
			}
			x.fold("b 6 0")
			x.want()
		})
	}
}

func TestSilenceThatIsNotConfiguredAnyMore(t *testing.T) {
	cfg := watched()
	cfg.Silence = 10
	x := newRig(t, cfg)
	x.fold("a 1 0,b 2 0,b 20 0")
	x.want("a/silence(-1) open recovered@20#2 r1", "b/silence(-1) open recovered@20#2 r1", "b/silence(-1) close recovered@20#2 r2")
	x.commit()
	x.all()
	x.restart(watched())
	x.fold("b 21 0")
	x.want("a/silence(-1) close removed@21#3 r2")
	x.commit()
}

func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name, samples string
		lateness      int64
		want          []string
	}{
		{"the bound is not over", "a 0 0,b 10 0,a 10 0", 0, nil},
		{"one after it is", "a 0 0,b 11 0,b 12 0,a 15 0", 0, []string{"a/silence(-1) open recovered@11#1 r1",
			"a/silence(-1) close recovered@15#3 r2"}},
		{"alone, in retrospect", "a 0 0,a 30 0", 0, []string{"a/silence(-1) open recovered@30#1 r1", "a/silence(-1) close recovered@30#1 r2"}},
		{"a clock that lags", "a 0 0,b 100 0,a 50 0,a 60 0,a 95 0", 0, []string{"a/silence(-1) open recovered@100#1 r1",
			"a/silence(-1) close recovered@95#4 r2"}},
		{"late samples are no sign of life", "a 20 0,b 40 0,a 10 0,a 40 0", 0,
			[]string{"a/silence(-1) open recovered@40#1 r1", "a/silence(-1) close recovered@40#3 r2"}},
		{"held samples are", "a 0 0,b 10 0,a 9 0,b 24 0,b 25 0", 5, []string{"a/silence(-1) open recovered@20#4 r1"}},
		{"silent with a key that is new and old", "b 100 0,a 50 0,b 101 0", 0, []string{"a/silence(-1) open recovered@101#2 r1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := watched()
			cfg.Silence, cfg.Reading.Lateness = 10, c.lateness
			x := newRig(t, cfg)
			x.fold(c.samples)
			x.want(c.want...)
		})
	}
}

func TestSilenceCovers(t *testing.T) {
	cfg := watched()
	cfg.Silence = 1e6
	x := newRig(t, cfg)
	var got []anomaly.Change
	fold := func(f string) {
		x.fold(f)
		x.events = nil
	}
	fold("a 0 0,b 1000000 0")
	x.s.Fold(&Sample{Key: []byte("b"), Time: 1500000, Offset: x.offset, Values: []float64{0}}, x.b)
	x.s.Fold(&Sample{Key: []byte("a"), Time: 4000000, Offset: x.offset + 1, Values: []float64{0}}, x.b)
	levels(x.b)
	x.s.Apply(x.b)
	for _, e := range x.s.Events {
		if string(e.Key.Name()) == "a" {
			got = append(got, e.Change)
		}
	}
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	open, end := got[0].Anomaly, got[1].Anomaly
	if open.ID != anomaly.ID("silence", []byte("a"), []byte("in\x003"), 1500000, x.offset) || end.ID != open.ID {
		t.Error("the id is another")
	}
	if open.Start != 0 || open.End != 1500000 || open.PeakScore != 1.5 || open.Threshold != 1 || open.Severity != 50 {
		t.Errorf("opened as %+v", open)
	}
	if end.Start != 0 || end.End != 4000000 || end.PeakScore != 4 || end.Severity != 84 || end.OpenedAt != 1500000 || end.Revision != 2 {
		t.Errorf("closed as %+v", end)
	}
}

// TestExplanation: what was expected is on the scale of the samples, whether or not the rows were scaled.
func TestExplanation(t *testing.T) {
	z, err := simple.NewZScore(5)
	if err != nil {
		t.Fatal(err)
	}
	for _, scale := range []bool{false, true} {
		cfg := watched()
		cfg.Detectors[0].Scale = scale
		cfg.Dim, cfg.Windows[0].Columns = 2, []int{0, 1}
		cfg.Detectors[0].Detector, cfg.Detectors[0].Stride = z, 2
		s, b := New(cfg), &detectors.Batch{}
		for i, v := range []float64{1e6 + 1, 1e6 + 3, 1e6 + 1, 1e6 + 3, 1e6 + 2, 1e6 + 40, 1e6, 1e6, 1e6, 1e6} {
			s.Fold(&Sample{Key: []byte("a"), Time: int64(i), Offset: int64(i), Values: []float64{v, float64(i % 2)}}, b)
		}
		for i := range b.Tasks {
			r := b.Rows(i)
			z.Op().Spec().CPU(t.Context(), &r, detectors.Sequential)
		}
		s.Apply(b)
		if len(s.Events) != 2 || s.Events[1].Change.Kind != anomaly.Close {
			t.Fatalf("%+v", s.Events)
		}
		a := s.Events[0].Change.Anomaly
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-5 }
		if !slices.Equal(a.Actual, []float64{1e6 + 40, 1}) || !slices.EqualFunc(a.Expected, []float64{1e6 + 2.25, 0.5}, near) ||
			a.Contribution[0] < 0.9 {
			t.Errorf("scaled %v: expected %v, actual %v, contribution %v", scale, a.Expected, a.Actual, a.Contribution)
		}
	}
}

// TestScoreThatIsNotANumber is judged as nothing: the row says so, and an open
// anomaly stays as it is.
func TestScoreThatIsNotANumber(t *testing.T) {
	x := newRig(t, watched())
	x.fold("a 1 0,a 2 50")
	x.s.Rows = x.s.Rows[:0]
	for i := range int64(5) {
		x.s.Fold(&Sample{Key: []byte("a"), Time: 3 + i, Offset: 2 + i, Values: []float64{50}}, x.b)
	}
	for i := range x.b.Out {
		x.b.Out.SetFloat32(i, nan)
	}
	x.s.Apply(x.b)
	x.b.Reset()
	for _, r := range x.s.Rows {
		if r.Exceeds || r.Severity != 0 || r.Threshold == r.Threshold {
			t.Errorf("%+v", r)
		}
	}
	x.offset = 7
	x.fold("a 9 50,a 10 50")
	x.want("a/high(0) open recovered@2#1 r1", "a/high(0) close recovered@10#8 r2")
}

// TestReplayOnAnotherExecutor: where replay's scores differ from the first run's,
// what is published still is one life after another: an open first, revisions one
// after the other, at most one close.
func TestReplayOnAnotherExecutor(t *testing.T) {
	r := seedtest.New(t)
	lives, replays := 0, 0
	for range 40 {
		cfg := watched()
		*cfg.Detectors[0].Threshold = threshold.New(threshold.Quantile, 0.9)
		cfg.Detectors[0].Threshold.History, cfg.Detectors[0].Threshold.Warmup = 40, 10
		*cfg.Detectors[0].Events = anomaly.Policy{OpenAfter: 2, CloseAfter: 2, Release: 0.9, UpdateEvery: 3}
		cfg.Silence = 40
		x := newRig(t, cfg)
		var input []Sample
		seen := map[[16]byte]uint32{} // revision
		over := map[[16]byte]bool{}
		open := map[string][16]byte{}
		check := func() {
			for _, e := range x.s.Events {
				a, at := &e.Change.Anomaly, string(e.Key.Name())+e.Name
				id, isOpen := open[at]
				ok := a.Revision == seen[a.ID]+1 && !over[a.ID] && (e.Change.Kind == anomaly.Open) == (a.Revision == 1)
				if e.Change.Kind == anomaly.Open {
					ok = ok && !isOpen
					open[at] = a.ID
					lives++
				} else {
					ok = ok && isOpen && id == a.ID
				}
				if seen[a.ID] = a.Revision; e.Change.Kind == anomaly.Close {
					over[a.ID] = true
					delete(open, at)
				}
				if !ok {
					t.Fatalf("%+v of an anomaly with revision %d", e, seen[a.ID])
				}
			}
			x.s.Events = x.s.Events[:0]
		}
		noisy := func(b *detectors.Batch) {
			levels(b)
			for i := range b.Out {
				b.Out.F32()[i] += float32(r.NormFloat64())
			}
		}
		for range 60 {
			for range 1 + r.IntN(20) {
				sm := Sample{Key: []byte{byte('a' + r.IntN(3))}, Time: int64(5 * len(input)), Offset: x.offset, Values: []float64{r.NormFloat64() * 5}}
				x.offset++
				input = append(input, sm)
				x.s.Fold(&sm, x.b)
			}
			levels(x.b)
			x.s.Apply(x.b)
			x.b.Reset()
			check()
			x.s.Rows = x.s.Rows[:0]
			x.commit()
			if r.IntN(4) > 0 {
				continue
			}
			s := New(cfg)
			s.SetSource("in", 3)
			for _, rec := range compact(x.log, x.log, false) {
				if err := s.Load(rec.key, rec.value); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.BeginReplay(x.floor, x.offset, false); err != nil {
				t.Fatal(err)
			}
			for i := range input[x.floor.Offset:] {
				s.Fold(&input[x.floor.Offset+int64(i)], x.b)
				replays++
			}
			noisy(x.b)
			s.Apply(x.b)
			x.b.Reset()
			if s.EndReplay(); len(s.Events) > 0 || len(s.Rows) > 0 {
				t.Fatal("replay tells of something")
			}
			x.s = s
		}
	}
	t.Logf("%d anomalies, %d samples replayed with other scores", lives, replays)
}

// The floor rises although the keys of changes fill every cycle.
func TestChangesDoNotHoldTheFloor(t *testing.T) {
	cfg := watched()
	s, b := New(cfg), &detectors.Batch{}
	s.Mark(0)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range int64(400) {
		key := []byte{'k', byte(i % 40)}
		s.Fold(&Sample{Key: key, Time: i, Offset: i, Values: []float64{100 * r.NormFloat64()}}, b)
		levels(b)
		s.Apply(b)
		b.Reset()
		s.Mark(i + 1)
		if err := s.Snapshot(i-60, 1, func(k, v []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Committed(i + 1)
		if f := s.Floor(); f.Offset < i-120 {
			t.Fatalf("floor %d at %d", f.Offset, i)
		}
	}
}
