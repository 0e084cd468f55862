package state

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// changeRulings gives the next worker other thresholds, or keeps them.
func (rn *run) changeRulings() {
	cfg := *rn.cfg
	cfg.Detectors = slices.Clone(cfg.Detectors)
	for i := range cfg.Detectors {
		d := &cfg.Detectors[i]
		if d.Threshold == nil || rn.r.IntN(3) == 0 {
			continue
		}
		if d.Shadow = rn.r.IntN(2) == 0; rn.r.IntN(2) == 0 {
			continue
		}
		other := series.DetectorConfig{Threshold: d.Threshold}
		randomAlerts(rn.r, &other)
		if rn.r.IntN(2) == 0 {
			other.Threshold.History = d.Threshold.History
		}
		d.Threshold = other.Threshold
		if d.Events != nil && other.Events != nil && rn.r.IntN(2) == 0 {
			d.Events = other.Events
		}
		if d.Guard = nil; d.Ensemble == nil && cfg.Windows[d.Window].Grid == nil && rn.r.IntN(2) == 0 {
			d.Guard = randomGuard(rn.r, len(cfg.Windows[d.Window].Columns))
		}
	}
	rn.cfg = &cfg
}

// noteRulings notes what the worker has decided of thresholds at offset.
func (rn *run) noteRulings(offset int64) {
	for _, d := range rn.s.decisions.Unlogged() {
		if d.Kind == Thresholds && d.Offset == offset {
			rn.cycle.decided = append(rn.cycle.decided, decided{Thresholds, d.Subject, d.Content, offset})
		}
	}
}

// makeRuling has the state decide with the next sample, as if its configuration were
// another one.
func makeRuling(s *State, d *decided) {
	ruling, err := rules.DecodeRuling(d.content)
	if err != nil {
		panic(err)
	}
	list := make([]series.DetectorConfig, len(s.dets))
	for i, det := range s.dets {
		list[i] = det.DetectorConfig
		if det.Name == string(d.subject) {
			list[i].Threshold, list[i].MaxP = ruling.Threshold, ruling.Alarm.MaxP
			list[i].Guard, list[i].Events = ruling.Alarm.Guard, ruling.Alarm.Events
			list[i].Shadow = ruling.Alarm.Shadow
		}
	}
	s.Rulings.Reconfigure(list)
}

// TestThresholdsChange: workers with thresholds, guards and policies of anomalies of their own take over
// from each other, and change them while they run. After each crash and abort the state equals one of one
// undisturbed fold in which they change where they did.
func TestThresholdsChange(t *testing.T) {
	r := seedtest.New(t)
	aborts, crashes, made, reconfigured := 0, 0, 0, 0
	var modes [2]int // anomalies that a change of the mode has ended, live and in shadow
	all := func() bool {
		return made >= 40 && aborts > 0 && crashes > 0 && reconfigured > 0 && modes[0]+modes[1] > 0
	}
	for round := 0; round < 40 || round < 400 && !all(); round++ {
		w := newTrimmedWorld(t, r, 200+r.IntN(600))
		x := newRun(t, rand.New(rand.NewPCG(r.Uint64(), 6)), w)
		clear(w.state)
		x.changes = true
		x.mandatory = r.IntN(4) == 0
		x.all(8)
		x.check("end", x.s)
		s := w.fold(w.end)
		compareRows(t, x.rows, flatten(s.Rows))
		compareEvents(t, x.events, flattenEvents(s.Events))
		n := checkModes(t, x.events)
		modes[0], modes[1] = modes[0]+n[0], modes[1]+n[1]
		aborts, crashes, made, reconfigured = aborts+x.aborts, crashes+x.crashes, made+len(w.decided), reconfigured+x.reconfigured
	}
	t.Logf("%d decisions, %d aborts, %d crashes, %d changes of a worker's own settings, %d anomalies ended by demotion and promotion",
		made, aborts, crashes, reconfigured, modes)
	if !all() {
		t.Error("something did not happen")
	}
}

// chain is a log that workers with thresholds of their own take over from each other.
type chain struct {
	t         *testing.T
	s         *State
	b         *detectors.Batch
	log       []record
	floor     Floor
	next      int64
	committed int64
	quiet     bool // the detector makes no anomalies, which have their keys snapshotted
	other     bool // the next worker has another detector in its place
}

func thresholdOf(kind threshold.Kind, value float64, history, decluster int) *threshold.Params {
	return &threshold.Params{Kind: kind, Value: value, History: history, Warmup: 5, Decluster: decluster}
}

// worker is a state under a threshold: a new one, or one restored from what is committed.
func (c *chain) worker(params *threshold.Params, ahead bool) *State {
	c.t.Helper()
	cfg := watched()
	cfg.Detectors[0].Threshold = params
	if c.quiet {
		cfg.Detectors[0].Events = nil
	}
	if c.other {
		cfg.Detectors[0].Name = "other"
	}
	s := New(cfg)
	s.SetSource("in", 3)
	if c.committed == 0 && !ahead {
		s.Mark(0)
		return s
	}
	for _, r := range c.log {
		if err := s.Load(r.key, r.value); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := s.BeginReplay(c.floor, c.committed, ahead); err != nil {
		c.t.Fatal(err)
	}
	c.feed(s, c.floor.Offset, c.committed)
	s.EndInput(c.b)
	c.flush(s)
	s.EndReplay()
	return s
}

// feed folds the samples from one offset to another: three keys with bursts.
func (c *chain) feed(s *State, from, to int64) {
	for o := from; o < to; o++ {
		s.Fold(&Sample{Key: []byte{'a' + byte(o%3)}, Time: o, Offset: o, Values: []float64{c.value(o)}}, c.b)
		if o%5 == 0 {
			c.flush(s)
		}
	}
	c.flush(s)
}

func (c *chain) value(o int64) float64 { return float64(o*o%17) + 40*float64(o/7%4/3) }

func (c *chain) flush(s *State) {
	levels(c.b)
	s.Apply(c.b)
	c.b.Reset()
	s.Rows, s.Events = s.Rows[:0], s.Events[:0]
}

// cycle folds n samples and snapshots the keys that are dirty at want and below.
func (c *chain) cycle(n, want int64, lost bool) {
	c.t.Helper()
	c.feed(c.s, c.next, c.next+n)
	c.next += n
	c.s.Mark(c.next)
	if err := c.s.Snapshot(want, 0, func(k, v []byte) error {
		c.log = append(c.log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	if lost {
		return
	}
	c.floor, c.committed = c.s.Floor(), c.next
	c.s.Committed(c.next)
}

// check compares a state restored under any threshold, and the live one rolled back to the
// committed offset, with the live one.
func (c *chain) check(what string, list []*threshold.Params) {
	c.t.Helper()
	want := c.s.Export(nil)
	for i, params := range list {
		if got := c.worker(params, false).Export(nil); !bytes.Equal(got, want) {
			c.t.Fatalf("%s: restored at %d, floor %d, under threshold %d: another state than the live one", what, c.committed, c.floor.Offset, i)
		}
	}
	c.feed(c.s, c.next, c.next+20)
	if err := c.s.Rollback(c.committed); err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Equal(want, c.s.Export(nil)) {
		c.t.Fatalf("%s: rolled back to %d: another state", what, c.committed)
	}
}

// TestRestartWithAnotherThreshold: histories are equal to the byte after a restart with
// a changed threshold, regardless of which part of the log was snapshotted, and of the next
// restart has configured: a replay judges by what was in force.
func TestRestartWithAnotherThreshold(t *testing.T) {
	list := []*threshold.Params{
		thresholdOf(threshold.Fixed, 10, 40, 3),
		thresholdOf(threshold.Fixed, 30, 40, 3),
		thresholdOf(threshold.Fixed, 10, 40, 7), // spaced otherwise
		thresholdOf(threshold.Mean, 1.5, 40, 3),
		thresholdOf(threshold.Quantile, 0.8, 64, 2), // another number of scores
		thresholdOf(threshold.MAD, 2, 40, 1),
		thresholdOf(threshold.PerDay, 1e9, 40, 3),
		thresholdOf(threshold.Fixed, 10, 40, 3),
		thresholdOf(threshold.MAD, 2, 40, 3),
	}
	for _, late := range list[len(list)-2:] {
		late.Late = threshold.Late{Open: 1, Close: 4}
	}
	for i, first := range list {
		for j, second := range list {
			for _, behind := range []int64{0, 40, 75, 1000} {
				c := &chain{t: t, b: &detectors.Batch{}}
				c.s = c.worker(first, false)
				for range 4 {
					c.cycle(50, c.next+50-behind, false)
				}
				c.check("before", list)
				c.s = c.worker(second, false)
				c.check("not decided yet", list)
				for n := range 4 {
					c.cycle(37, c.next+37-behind, false)
					c.check("after", list)
					if n == 1 { // and back
						c.s = c.worker(first, false)
					}
				}
				if made, want := decidedIn(c.log), map[bool]int{true: 1, false: 3}[i == j]; made != want {
					t.Fatalf("%d decisions, want %d", made, want)
				}
			}
		}
	}
}

// decidedIn returns how many decisions on thresholds were written to a changelog.
func decidedIn(log []record) (n int) {
	for _, r := range log {
		if r.value != nil && r.key[0] == changelog.Decision && Kind(r.key[1]) == Thresholds {
			n++
		}
	}
	return n
}

// TestThresholdAhead: at least once, the changelog may have a decision of a cycle whose
// offset was not committed. It takes effect at its offset, and the worker that runs
// then decides for its own configuration.
func TestThresholdAhead(t *testing.T) {
	first, cut, own := thresholdOf(threshold.Fixed, 10, 40, 3), thresholdOf(threshold.Fixed, 20, 40, 2), thresholdOf(threshold.Mean, 2, 40, 5)
	for _, at := range []int64{40, 45} {
		c := &chain{t: t, b: &detectors.Batch{}}
		c.s = c.worker(first, false)
		c.cycle(40, 40, false)
		c.s = c.worker(cut, false)
		c.next = at // what is between are no samples
		c.cycle(20, 0, true)
		c.next = 40
		for _, params := range []*threshold.Params{own, cut, first} {
			d := &chain{t: t, b: &detectors.Batch{}, log: slices.Clone(c.log), floor: c.floor, committed: 40, next: 40}
			d.s = d.worker(params, true)
			for i := range 30 {
				d.cycle(1, 0, false)
				if got := *d.s.dets[0].Ruling.Threshold; got != *params {
					t.Fatalf("at %d the threshold is %v, not %v", 40+i, got, *params)
				}
			}
			if n := decidedIn(d.log[len(c.log):]); n > 2 || params == own && n != map[int64]int{40: 1, 45: 2}[at] {
				t.Errorf("decision at %d: %d more", at, n)
			}
			want := d.s.Export(nil)
			if got := d.worker(own, false).Export(nil); !bytes.Equal(got, want) {
				t.Errorf("decision at %d: restored to another state", at)
			}
		}
	}
}

// TestThresholdOfARemovedDetector: its decision stays. When it comes back, its keys go
// on where they were left, under it, until the first live sample decides otherwise.
func TestThresholdOfARemovedDetector(t *testing.T) {
	first, again := thresholdOf(threshold.Fixed, 10, 40, 3), thresholdOf(threshold.MAD, 2, 50, 2)
	c := &chain{t: t, b: &detectors.Batch{}, quiet: true}
	c.s = c.worker(first, false)
	c.cycle(61, 61, false)
	before := slices.Clone(c.s.Keys.Get([]byte("a")).Alerts.Detectors[0].History)
	c.other = true
	c.s = c.worker(first, false)
	c.cycle(2, 0, false) // of the other keys
	if c.s.dets[0].Name == "high" || c.s.Subjects(Thresholds) != 2 {
		t.Fatalf("%d decisions", c.s.Subjects(Thresholds))
	}
	c.other = false
	for _, params := range []*threshold.Params{first, again} {
		s := c.worker(params, false)
		if got := s.Keys.Get([]byte("a")).Alerts.Detectors[0].History; !slices.Equal(got, before) || *s.dets[0].Ruling.Threshold != *first {
			t.Errorf("under %v: another history, or another threshold in force: %v", params, s.dets[0].Ruling)
		}
		c.feed(s, 63, 70)
		if *s.dets[0].Ruling.Threshold != *params || len(s.Keys.Get([]byte("a")).Alerts.Detectors[0].History) != params.Size() {
			t.Errorf("the threshold in force is %v, want %v", s.dets[0].Ruling, params)
		}
	}
}

// TestContentOfAThreshold: what cannot be a threshold is damage, and a later format is a newer
// version's.
func TestContentOfAThreshold(t *testing.T) {
	params := thresholdOf(threshold.Quantile, 0.9, 40, 3)
	good := (&rules.Ruling{Threshold: params}).Encode()
	alarm := (&rules.Ruling{Threshold: params, Alarm: rules.RulingAlarm{
		Guard:  &rules.Guard{Direction: rules.Above, Gates: []rules.Gate{{Field: 1, Bound: 7}}},
		Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 2, Release: 1},
	}}).Encode()
	for _, c := range []struct {
		content []byte
		want    error
	}{
		{good, nil},
		{alarm, nil},
		{alarm[:len(alarm)-1], ErrCorrupt},
		{append(slices.Clone(alarm), 0), ErrCorrupt},
		{nil, ErrCorrupt},
		{good[:len(good)-1], ErrCorrupt},
		{append(slices.Clone(good), 0), ErrCorrupt},
		{append([]byte{alarm[0] | 2}, alarm[1:]...), nil},         // in shadow mode
		{append([]byte{alarm[0] &^ 8}, alarm[1:]...), ErrCorrupt}, // a policy of anomalies that it does not have
		{append([]byte{good[0] | 64}, good[1:]...), ErrNewer},     // a flag of a newer version
		{append([]byte{good[0], 99}, good[2:]...), ErrCorrupt},    // a kind
		{(&rules.Ruling{Threshold: &threshold.Params{}}).Encode(), ErrCorrupt},
		{(&rules.Ruling{Threshold: params, Alarm: rules.RulingAlarm{Guard: &rules.Guard{Direction: 9}}}).Encode(), ErrCorrupt},
		{(&rules.Ruling{Threshold: params, Alarm: rules.RulingAlarm{Events: &anomaly.Policy{}}}).Encode(), ErrCorrupt}, // events of no samples
		// Check is stricter than Sound.
		{(&rules.Ruling{Threshold: thresholdOf(threshold.Conformal, 1e-6, 40, 3)}).Encode(), nil},
	} {
		err := New(watched()).Load(changelog.AppendKey(nil, changelog.Decision, []byte("\x04high"), 5),
			append([]byte{changelog.Version, 1}, c.content...))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%q: %v, want %v", c.content, err, c.want)
		}
	}
}
