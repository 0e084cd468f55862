package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// phases drives states through a log, in phases with settings of their own and a restart before each.
type phases struct {
	t *testing.T
	r *rand.Rand
	w *world

	// What the brokers have.
	committed int64
	floor     string
	changelog []record
	rows      []string
	events    []flatEvent
	refused   []string
	counts    Counts
	replayed  int // samples
}

// sample returns the i-th sample of the log with the values that a reading has, as ones of cfg. All fields of the log are f0, f1, ...
func (p *phases) sample(cfg *Config, s *State, i int, b *detectors.Batch) Sample {
	sm := p.w.log[i]
	in := s.ReadingOf(cfg.Record(sm.Offset), b)
	read := make([]float64, in.Dim())
	all := p.w.cfg.Reading
	if t, _ := in.Translate(&all); t != nil {
		t.Apply(read, sm.Values)
	} else {
		copy(read, sm.Values)
	}
	sm.Values = read
	if t, ok := cfg.Reading.Translate(in); !ok {
		p.t.Fatal("samples of other series")
	} else if t != nil {
		sm.Values = make([]float64, cfg.Dim)
		t.Apply(sm.Values, read)
	}
	return sm
}

// restore returns the state of what is committed, under cfg.
func (p *phases) restore(cfg *Config) *State {
	s, b := New(cfg), &detectors.Batch{MaxTasks: 20}
	s.SetSource("in", 0)
	if p.floor == "" {
		s.Mark(p.committed)
		return s
	}
	for _, rec := range p.changelog {
		if err := s.Restore.Load(rec.key, rec.value); err != nil {
			p.t.Fatal(err)
		}
	}
	f, err := ParseFloor(p.floor)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := s.BeginReplay(f, p.committed, false); err != nil {
		p.t.Fatal(err)
	}
	flush := func() { execute(b); s.Apply(b); b.Reset() }
	for i := p.w.from(f.From()); i < len(p.w.log) && p.w.log[i].Offset < p.committed; i++ {
		if o := p.w.log[i].Offset; o < f.Offset {
			if sm := p.sample(cfg, s, i, b); f.Suspect(o) {
				s.Suspects.Recall(&sm)
			}
		} else {
			for !s.Fits(b) {
				flush()
			}
			sm := p.sample(cfg, s, i, b)
			s.Fold(&sm, b)
			p.replayed++
		}
		if o := p.w.log[i].Offset; s.Suspects.Has(o) {
			s.Suspects.Attach(o, o)
		}
	}
	s.Restore.EndInput(b)
	for !s.Fits(b) {
		flush()
	}
	flush()
	s.EndReplay()
	return s
}

// run folds the log up to its sample end under cfg. A killed worker leaves its state as it is; a drained one has written all of
// it, so that the next replays nothing.
func (p *phases) run(cfg *Config, end int, drains bool) []byte {
	s, b := p.restore(cfg), &detectors.Batch{MaxTasks: 1 + p.r.IntN(40)}
	flush := func() { execute(b); s.Apply(b); b.Reset() }
	before, maxBytes := s.Counts, []int{-1, 1, 500, 5000}[p.r.IntN(4)]
	snapshot := func(want int64, most int) {
		if err := s.Snapshot(want, most, func(k, v []byte) error {
			p.changelog = append(p.changelog, record{bytes.Clone(k), bytes.Clone(v)})
			return nil
		}); err != nil {
			p.t.Fatal(err)
		}
	}
	for i := p.w.from(p.committed); i < end; {
		from := i
		for n := min(i+1+p.r.IntN(60), end); i < n; i++ {
			for !s.Fits(b) {
				flush()
			}
			sm := p.sample(cfg, s, i, b)
			for !s.Fits(b) {
				flush()
			}
			s.Fold(&sm, b)
			if s.Suspects.Has(sm.Offset) {
				s.Suspects.Attach(sm.Offset, sm.Offset)
			}
		}
		for !s.Fits(b) {
			flush()
		}
		flush()
		next := p.w.log[i-1].Offset + 1
		rows, changes, refused := flatten(s.Rows), flattenEvents(s.Events), slices.Clone(s.Suspects.Refused)
		s.Rows, s.Events, s.Suspects.Refused = s.Rows[:0], s.Events[:0], s.Suspects.Refused[:0]
		s.Mark(next)
		kept := len(p.changelog)
		snapshot(next-p.r.Int64N(300), maxBytes)
		if p.r.IntN(6) == 0 { // the cycle fails
			p.changelog = p.changelog[:kept]
			if err := s.Rollback(p.committed); err != nil {
				p.t.Fatal(err)
			}
			b.Reset()
			i = from
			continue
		}
		p.floor, p.committed = s.Floor().String(), next
		s.Committed(next)
		for _, row := range rows {
			name := cfg.Detectors[row.det].Name
			row.det, row.behind = 0, 0
			p.rows = append(p.rows, fmt.Sprint(name, " ", row))
		}
		for _, e := range changes {
			if e.reason == anomaly.DetectorRemoved || e.reason == anomaly.Reset {
				e.anomaly = "" // as its key's last head has it: nothing has scored for it in the replay
			}
			e.det, e.behind = 0, 0
			p.events = append(p.events, e)
		}
		for _, u := range refused {
			p.refused = append(p.refused, fmt.Sprint(u.Offset, u.Time, u.Max, u.Outcome, string(u.Key), u.Record))
		}
		if p.r.IntN(6) == 0 {
			p.changelog = compact(slices.Clone(p.changelog), p.changelog, p.r.IntN(2) == 0)
		}
	}
	for o := range s.Counts {
		p.counts[o] += s.Counts[o] - before[o]
	}
	for f := s.Floor(); drains && f.Offset < p.committed; f = s.Floor() {
		snapshot(p.committed, 0)
		p.floor = s.Floor().String()
		s.Committed(p.committed)
	}
	return s.Export(nil)
}

// otherSettings returns cfg with other settings, and their names. A setting of a detector gets values that it has not had before:
// state of a detector that is configured again is used again as far as it is still in the changelog.
func otherSettings(r *rand.Rand, cfg, first *Config, try int) (*Config, string) {
	c := *cfg
	c.Detectors, c.Windows = slices.Clone(cfg.Detectors), slices.Clone(cfg.Windows)
	var what []string
	do := func(name string, odds int, change func()) {
		if r.IntN(odds) == 0 {
			change()
			what = append(what, name)
		}
	}
	ensembles := slices.ContainsFunc(c.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble != nil })
	grids := slices.ContainsFunc(c.Windows, func(w series.WindowConfig) bool { return w.Grid != nil })
	do("lateness", 4, func() {
		c.Reading.Lateness = []int64{0, r.Int64N(300), cfg.Reading.Lateness + 50, first.Reading.Lateness}[r.IntN(4)]
	})
	do("max_held", 4, func() { c.Reading.MaxHeld = []int{0, r.IntN(150), first.Reading.MaxHeld}[r.IntN(3)] })
	do("max_jump", 4, func() { c.Reading.MaxJump = []int64{0, r.Int64N(5000), first.Reading.MaxJump}[r.IntN(3)] })
	do("duplicates", 4, func() { c.Reading.DropDuplicates = !c.Reading.DropDuplicates })
	if c.Check() == nil {
		do("missing", 4, func() { c.Reading.Hold = !c.Reading.Hold })
		if c.Check() != nil {
			c.Reading.Hold = cfg.Reading.Hold // a window with rows that lack values
		}
	}
	if !grids {
		do("value_fields", 4, func() { withFields(r, &c, cfg, first) })
	}
	do("silence", 6, func() { c.Silence = []int64{0, 1 + r.Int64N(1500)}[r.IntN(2)] })
	do("ttl", 6, func() { c.TTL = r.Int64N(3000) })
	do("max_keys", 6, func() { c.MaxKeys = r.IntN(12) })
	do("max_record", 6, func() { c.MaxRecord = 300 + r.IntN(1500) })
	if judges(try/100) && !ensembles && !grids {
		do("alerts", 4, func() {
			d := &c.Detectors[r.IntN(len(c.Detectors))]
			is := *d
			if randomAlerts(r, &is); d.Threshold != nil && (is.Events == nil) == (d.Events == nil) { // else it is judged from now on alone
				*d = is
			}
		})
	} else if !ensembles && !grids {
		do("params", 8, func() { c.Detectors[r.IntN(len(c.Detectors))].Fingerprint = uint64(5000 + try) })
		do("new detector", 8, func() {
			d := c.Detectors[r.IntN(len(c.Detectors))]
			d.Name, d.Fingerprint = fmt.Sprint("new", try), uint64(7000+try)
			c.Detectors = append(c.Detectors, d)
		})
		do("window", 8, func() { c.Windows[r.IntN(len(c.Windows))].Fingerprint = uint64(9000 + try) })
		do("removed detector", 8, func() {
			if len(c.Detectors) > 1 {
				i := r.IntN(len(c.Detectors))
				c.Detectors = slices.Delete(c.Detectors, i, i+1)
			}
		})
	}
	return &c, strings.Join(what, "+")
}

// judges reports whether the detectors of a try have thresholds, which change; those of others have none, and change themselves.
// Both together would not be comparable: what is pending of a detector that is replaced depends on its keys' snapshots.
func judges(try int) bool { return try%2 == 0 }

// withFields gives c other value fields, with those that its windows need.
func withFields(r *rand.Rand, c, cfg, first *Config) {
	var fields []string
	for _, f := range first.Reading.Fields {
		used := slices.ContainsFunc(cfg.Windows, func(w series.WindowConfig) bool {
			return slices.ContainsFunc(w.Columns, func(i int) bool { return cfg.Reading.Fields[i] == f })
		})
		if used || r.IntN(2) == 0 {
			fields = append(fields, f)
		}
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	c.Reading.Fields, c.Dim = fields, len(fields)
	for i := range c.Windows {
		columns := make([]int, len(cfg.Windows[i].Columns))
		for j, at := range cfg.Windows[i].Columns {
			columns[j] = slices.Index(fields, cfg.Reading.Fields[at])
		}
		c.Windows[i].Columns = columns
	}
}

// alike reports whether the detectors of each window need as many rows: rows that no detector of a key needed before are
// only there where a replay has read them.
func alike(cfg *Config) bool {
	need := map[int]int{}
	for i := range cfg.Detectors {
		if d := &cfg.Detectors[i]; d.Ensemble == nil {
			f := d.Detector.(*fake)
			n := f.window + f.lag
			if need[d.Window] != 0 && need[d.Window] != n {
				return false
			}
			need[d.Window] = n
		}
	}
	return true
}

// withKeys has a detector read other series: one that it does not read in the first configuration, or not one that it reads.
// It reads no series again: state that is still in the changelog is used again.
func withKeys(r *rand.Rand, c *Config, names []string) {
	d := &c.Detectors[r.IntN(len(c.Detectors))]
	name := names[r.IntN(len(names))]
	at, again := slices.Index(d.Patterns, "!"+name), slices.Contains(d.Patterns, "!"+name+"**")
	d.Patterns = slices.Clone(d.Patterns)
	switch {
	case again:
		return
	case at >= 0:
		d.Patterns = slices.Delete(d.Patterns, at, at+1)
	case d.Keys == nil || d.Keys([]byte(name)):
		d.Patterns = append(d.Patterns, "!"+name+"**")
	}
	d.Keys, _ = rules.Selection(d.Patterns)
}

// TestSettingsInSequence goes through several configurations, one after another and at times back, with a restart before each.
// Workers that are killed, so that the next one replays records that were read under other settings, publish what workers
// publish that drain, after which nothing is replayed: the same rows, events, refusals, counts and states.
func TestSettingsInSequence(t *testing.T) {
	r := seedtest.New(t)
	tries := 150
	if testing.Short() {
		tries = 30
	}
	replayed := 0
	for try := range tries {
		cfg := randomConfig(r)
		cfg.DropMismatched = true
		for i := range cfg.Dim {
			cfg.Reading.Fields = append(cfg.Reading.Fields, fmt.Sprint("f", i))
		}
		if !judges(try) && !slices.ContainsFunc(cfg.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble != nil }) {
			for i := range cfg.Detectors {
				d := &cfg.Detectors[i]
				d.Threshold, d.Guard, d.Events, d.Shadow = nil, nil, nil, false
			}
		}
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		byPatterns(cfg, plainNames(w.log))
		configs, trail := []*Config{cfg}, []string{"first"}
		for len(configs) < 6 {
			next, what := otherSettings(r, configs[len(configs)-1], cfg, 100*try+len(configs))
			if next.Check() != nil {
				continue
			}
			configs, trail = append(configs, next), append(trail, what)
		}
		replayed += compareInSequence(t, r, w, configs, trail)
	}
	if t.Logf("%d samples were replayed", replayed); replayed == 0 {
		t.Error("nothing was replayed")
	}
}

// firstOther returns the index of the first element that differs; -1 if there is none.
func firstOther[E comparable](a, b []E) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func elem[E any](list []E, i int) any {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// compareInSequence has a worker that is killed and one that drains go through configurations, each for its part of the log, and
// compares what they publish. It returns how many samples the former has replayed.
func compareInSequence(t *testing.T, r *rand.Rand, w *world, configs []*Config, trail []string) int {
	t.Helper()
	start := w.log[0].Offset
	killed := &phases{t: t, r: rand.New(rand.NewPCG(r.Uint64(), 1)), w: w, committed: start}
	drained := &phases{t: t, r: rand.New(rand.NewPCG(r.Uint64(), 2)), w: w, committed: start}
	for n, cfg := range configs {
		end := len(w.log) * (n + 1) / len(configs)
		got, want := killed.run(cfg, end, false), drained.run(cfg, end, true)
		said := func(what string) string {
			return fmt.Sprintf("after %s: %s", strings.Join(trail[:n+1], " > "), what)
		}
		if at := firstOther(killed.rows, drained.rows); at >= 0 {
			t.Fatal(said(fmt.Sprintf("row %d of %d is %s, want of %d %s", at, len(killed.rows), elem(killed.rows, at),
				len(drained.rows), elem(drained.rows, at))))
		}
		if at := firstOther(killed.events, drained.events); at >= 0 {
			t.Fatal(said(fmt.Sprintf("event %d is %+v, want %+v", at, elem(killed.events, at), elem(drained.events, at))))
		}
		if at := firstOther(killed.refused, drained.refused); at >= 0 {
			t.Fatal(said(fmt.Sprintf("refusal %d is %s, want %s", at, elem(killed.refused, at), elem(drained.refused, at))))
		}
		if killed.counts != drained.counts {
			t.Fatal(said(fmt.Sprintf("counts are %v, want %v", killed.counts, drained.counts)))
		}
		if !bytes.Equal(got, want) {
			t.Fatal(said(fmt.Sprintf("the states of %d and %d bytes differ", len(got), len(want))))
		}
	}
	if drained.replayed > 0 {
		t.Fatalf("%d samples were replayed after a drain", drained.replayed)
	}
	return killed.replayed
}

// TestRemovedDetectorAfterACrash: the detector that reads all series is removed while the worker that is killed has records to read
// again. What no other detector reads is followed by the replay all the same: the silences of these series end at the same
// times, and the same keys are evicted.
func TestRemovedDetectorAfterACrash(t *testing.T) {
	r := seedtest.New(t)
	replayed := 0
	for tries := 0; tries < 100; {
		cfg := randomConfig(r)
		if len(cfg.Detectors) < 2 || slices.ContainsFunc(cfg.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble != nil }) ||
			slices.ContainsFunc(cfg.Windows, func(w series.WindowConfig) bool { return w.Grid != nil }) {
			continue
		}
		tries++
		cfg.DropMismatched = true
		cfg.Silence = 1 + r.Int64N(1500)
		for i := range cfg.Dim {
			cfg.Reading.Fields = append(cfg.Reading.Fields, fmt.Sprint("f", i))
		}
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		names := plainNames(w.log)
		for i := range cfg.Detectors {
			d := &cfg.Detectors[i]
			d.Threshold, d.Guard, d.Events, d.Shadow = nil, nil, nil, false
			d.Keys, d.Patterns = nil, nil
			for _, name := range names {
				if i > 0 && r.IntN(3) > 0 {
					d.Patterns = append(d.Patterns, "!"+name)
				}
			}
			d.Keys, _ = rules.Selection(d.Patterns)
		}
		c := *cfg
		c.Detectors = slices.Clone(c.Detectors)[1:]
		if c.Check() != nil {
			continue
		}
		replayed += compareInSequence(t, r, w, []*Config{cfg, &c}, []string{"first", "removed detector"})
	}
	if replayed == 0 {
		t.Error("nothing was replayed")
	}
}

// plainNames returns the keys of a log that a pattern can name.
func plainNames(log []Sample) (names []string) {
	for i := range log {
		name := string(log[i].Key)
		if !slices.Contains(names, name) && utf8.ValidString(name) && name != "" && !strings.ContainsAny(name, "*?!") {
			names = append(names, name)
		}
	}
	return names
}

// byPatterns has the detectors that do not read all keys leave out those of names that they do not read, by patterns: a replay
// knows which keys a removed detector has read by its patterns alone.
func byPatterns(cfg *Config, names []string) {
	for i := range cfg.Detectors {
		d := &cfg.Detectors[i]
		for _, name := range names {
			if d.Keys != nil && !d.Keys([]byte(name)) {
				d.Patterns = append(d.Patterns, "!"+name)
			}
		}
		d.Keys, _ = rules.Selection(d.Patterns)
	}
}

// TestKeysAfterACrash: a detector gets other patterns of the series that it reads, while the worker that is killed has records to
// replay. These go to the series and windows that read them when they were live, as after a drain.
func TestKeysAfterACrash(t *testing.T) {
	r := seedtest.New(t)
	replayed := 0
	for tries := 0; tries < 100; {
		cfg := randomConfig(r)
		if !alike(cfg) || slices.ContainsFunc(cfg.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble != nil }) ||
			slices.ContainsFunc(cfg.Windows, func(w series.WindowConfig) bool { return w.Grid != nil }) {
			continue
		}
		tries++
		cfg.DropMismatched = true
		cfg.Silence, cfg.Grouping, cfg.MaxKeys, cfg.TTL = 0, nil, 0, 0
		cfg.Reading.MaxJump = 0
		for i := range cfg.Detectors {
			cfg.Detectors[i].Detector.(*fake).bins = nil
		}
		for i := range cfg.Dim {
			cfg.Reading.Fields = append(cfg.Reading.Fields, fmt.Sprint("f", i))
		}
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		names := plainNames(w.log)
		if len(names) == 0 {
			continue
		}
		for i := range cfg.Detectors {
			d := &cfg.Detectors[i]
			d.Keys = nil
			for _, name := range names {
				if r.IntN(3) == 0 {
					d.Patterns = append(d.Patterns, "!"+name)
				}
			}
			d.Keys, _ = rules.Selection(d.Patterns)
		}
		c := *cfg
		c.Detectors = slices.Clone(c.Detectors)
		withKeys(r, &c, names)
		replayed += compareInSequence(t, r, w, []*Config{cfg, &c}, []string{"first", "keys"})
	}
	if replayed == 0 {
		t.Error("nothing was replayed")
	}
}
