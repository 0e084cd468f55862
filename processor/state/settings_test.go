package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
	misplaced []int64 // offsets of samples that are no events of a grid
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
		if err := s.Load(rec.key, rec.value); err != nil {
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
				s.Recall(&sm)
			}
		} else {
			for !s.Fits(b) {
				flush()
			}
			if sm := p.sample(cfg, s, i, b); s.Misplaced(sm.Key, sm.Values) == nil {
				s.Fold(&sm, b)
				p.replayed++
			}
		}
		if o := p.w.log[i].Offset; s.Suspects.Has(o) {
			s.Suspects.Attach(o, o)
		}
	}
	s.EndInput(b)
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
	before, maxBytes := s.Tally.Counts, []int{-1, 1, 500, 5000}[p.r.IntN(4)]
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
		var misplaced []int64
		for n := min(i+1+p.r.IntN(60), end); i < n; i++ {
			for !s.Fits(b) {
				flush()
			}
			sm := p.sample(cfg, s, i, b)
			for !s.Fits(b) {
				flush()
			}
			if s.Misplaced(sm.Key, sm.Values) != nil {
				misplaced = append(misplaced, sm.Offset)
				continue
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
		p.misplaced = append(p.misplaced, misplaced...)
		for _, u := range refused {
			p.refused = append(p.refused, fmt.Sprint(u.Offset, u.Time, u.Max, u.Outcome, string(u.Key), u.Record))
		}
		if p.r.IntN(6) == 0 {
			p.changelog = compact(slices.Clone(p.changelog), p.changelog, p.r.IntN(2) == 0)
		}
	}
	for o := range s.Tally.Counts {
		p.counts[o] += s.Tally.Counts[o] - before[o]
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
	c.Detectors, c.Windows = cloneDetectors(cfg.Detectors), slices.Clone(cfg.Windows)
	var what []string
	do := func(name string, odds int, change func()) {
		if r.IntN(odds) == 0 {
			change()
			what = append(what, name)
		}
	}
	grids := slices.ContainsFunc(c.Windows, func(w series.WindowConfig) bool { return w.Grid != nil })
	do("lateness", 4, func() {
		c.Reading.Lateness = []int64{0, r.Int64N(300), cfg.Reading.Lateness + 50, first.Reading.Lateness}[r.IntN(4)]
	})
	do("lateness_by", 4, func() {
		c.Reading.BySeries = !c.Reading.BySeries
		if c.Check() != nil {
			c.Reading.BySeries = cfg.Reading.BySeries // grids or groups
		}
	})
	do("max_gap", 4, func() { c.Reading.MaxGap = []int64{0, rules.OwnGap, 1 + r.Int64N(200)}[r.IntN(3)] })
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
	if judges(try / 100) {
		do("alerts", 4, func() {
			d := &c.Detectors[r.IntN(len(c.Detectors))]
			is := *d
			if randomAlerts(r, &is); d.Threshold != nil && (is.Events == nil) == (d.Events == nil) { // else it is judged from now on alone
				*d = is
			}
		})
	} else {
		do("params", 8, func() { otherFingerprint(&c, r.IntN(len(c.Detectors)), uint64(5000+100*try)) })
		do("new detector", 8, func() {
			d := cloneDetectors(c.Detectors)[r.IntN(len(c.Detectors))]
			d.Name, d.Fingerprint = fmt.Sprint("new", try), uint64(7000+try)
			c.Detectors = append(c.Detectors, d)
		})
		do("window", 8, func() {
			if grids {
				return
			}
			otherWindow(&c, r.IntN(len(c.Windows)), try, 9000)
		})
		do("transforms", 3, func() {
			if grids {
				return
			}
			column := r.IntN(c.Dim)
			field := c.Reading.Fields[column] + "="
			c.Reading.Transforms = slices.DeleteFunc(slices.Clone(c.Reading.Transforms), func(e string) bool { return strings.HasPrefix(e, field) })
			if name := []string{"", "rate", "difference", "log"}[r.IntN(4)]; name != "" {
				c.Reading.Transforms = append(c.Reading.Transforms, field+name)
			}
			for w := range c.Windows {
				if slices.Contains(c.Windows[w].Columns, column) {
					otherWindow(&c, w, try, 20000+1000000*w)
				}
			}
		})
		do("intervals", 3, func() {
			if grids {
				return
			}
			c.Reading.Every, c.Reading.Aggregates, c.Reading.EmptyZero = 0, nil, false
			switch r.IntN(4) {
			case 0:
				randomIntervals(r, &c)
			case 1: // another aggregate
				randomIntervals(r, &c)
				c.Reading.Every, c.Reading.EmptyZero = cfg.Reading.Every, cfg.Reading.EmptyZero
			case 2:
				c.Reading.Every, c.Reading.EmptyZero = first.Reading.Every, first.Reading.EmptyZero
				c.Reading.Aggregates = slices.DeleteFunc(slices.Clone(first.Reading.Aggregates), func(e string) bool {
					field, _, _ := strings.Cut(e, "=")
					return !slices.Contains(c.Reading.Fields, field)
				})
			}
			for w := range c.Windows {
				otherWindow(&c, w, try, 5000000+1000000*w)
			}
		})
		do("removed detector", 8, func() { withoutDetector(&c, r.IntN(len(c.Detectors))) })
	}
	return &c, strings.Join(what, "+")
}

// judges reports whether the detectors of a try have thresholds, which change; detectors of others have none, and change themselves.
// Both together would not be comparable: what is pending of a detector that is replaced depends on its keys' snapshots.
func judges(try int) bool { return try%2 == 0 }

// heardBy returns the detectors whose rows an ensemble takes.
func heardBy(e *series.Ensemble) []int {
	list := slices.Clone(e.Members)
	for _, g := range e.Gates {
		list = append(list, g.Detector)
	}
	return list
}

// otherFingerprint gives a detector another fingerprint, and so the ensembles that it is a member of.
func otherFingerprint(c *Config, i int, fingerprint uint64) {
	for j := range c.Detectors {
		if d := &c.Detectors[j]; j == i || d.Ensemble != nil && slices.Contains(heardBy(d.Ensemble), i) {
			d.Fingerprint = fingerprint + uint64(j)
		}
	}
}

// otherWindow gives a window another fingerprint, and so the ensembles that have a member on it.
func otherWindow(c *Config, w, try, from int) {
	c.Windows[w].Fingerprint = uint64(from + try)
	for i := range c.Detectors {
		d := &c.Detectors[i]
		on := func(m int) bool { return c.Detectors[m].Window == w }
		if d.Ensemble != nil && slices.ContainsFunc(heardBy(d.Ensemble), on) {
			d.Fingerprint = uint64(from) + uint64(100*try+2000+i)
		}
	}
}

// withoutDetector removes a detector, with the ensembles that it is a member of, unless none is left, or no detector of its grid: what
// a grid has refused that is not configured any more cannot be told.
func withoutDetector(c *Config, i int) {
	was := c.Detectors
	var left []series.DetectorConfig
	places := map[int]int{}
	for j, d := range was {
		if j != i && (d.Ensemble == nil || !slices.Contains(heardBy(d.Ensemble), i)) {
			places[j] = len(left)
			left = append(left, d)
		}
	}
	w := was[i].Window
	alone := !slices.ContainsFunc(left, func(d series.DetectorConfig) bool { return d.Ensemble == nil && d.Window == w })
	if len(left) == 0 || alone && was[i].Ensemble == nil && c.Windows[w].Grid != nil {
		return
	}
	for _, d := range left {
		for m := 0; d.Ensemble != nil && m < len(d.Ensemble.Members); m++ {
			d.Ensemble.Members[m] = places[d.Ensemble.Members[m]]
		}
		for g := 0; d.Ensemble != nil && g < len(d.Ensemble.Gates); g++ {
			d.Ensemble.Gates[g].Detector = places[d.Ensemble.Gates[g].Detector]
		}
	}
	c.Detectors = left
}

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

// withKeys returns a configuration with detectors that read other series: not series of a length that they read in the first of the
// configurations before, or series of one that they do not read there. Nothing is read again that was not read in between: state that
// is still in the changelog is used again.
func withKeys(r *rand.Rand, next *Config, configs []*Config, log []Sample) *Config {
	c := *next
	c.Detectors = slices.Clone(c.Detectors)
	for range 1 + r.IntN(4) {
		d := &c.Detectors[r.IntN(len(c.Detectors))]
		key := log[r.IntN(len(log))].Key
		if len(key) == 0 || len(key) > 20 {
			continue
		}
		i := slices.IndexFunc(configs[0].Detectors, func(o series.DetectorConfig) bool { return o.Name == d.Name })
		if i < 0 {
			continue // a new detector
		}
		was := &configs[0].Detectors[i]
		p, again := without(len(key)), was.Keys == nil || was.Keys(key)
		for _, w := range []int{d.Window, anyWindow} {
			for _, c := range configs {
				again = again || readBy(c, w, key) != readBy(configs[0], w, key)
			}
		}
		d.Patterns = slices.Clone(d.Patterns)
		if at := slices.Index(d.Patterns, p); at < 0 && (was.Keys == nil || was.Keys(key)) {
			d.Patterns = append(d.Patterns, p)
		} else if at >= 0 && !again {
			d.Patterns = slices.Delete(d.Patterns, at, at+1)
		}
		d.Keys, _ = rules.Selection(d.Patterns)
	}
	return &c
}

const anyWindow = -1

// readBy reports whether a detector on a window reads a key.
func readBy(c *Config, window int, key []byte) bool {
	return slices.ContainsFunc(c.Detectors, func(d series.DetectorConfig) bool {
		return d.Ensemble == nil && (window == anyWindow || d.Window == window) && (d.Keys == nil || d.Keys(key))
	})
}

// knownAgain reports whether the last of several configurations knows a series, because a detector reads it or because it may fall
// silent, that one before did not know after another did.
func knownAgain(configs []*Config, log []Sample) bool {
	return slices.ContainsFunc(log, func(sm Sample) bool {
		known, forgotten := false, false
		for _, c := range configs {
			knows := c.Silence > 0 || readBy(c, anyWindow, sm.Key)
			if knows && forgotten {
				return true
			}
			known, forgotten = known || knows, known && !knows
		}
		return false
	})
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
		cfg := sequenceConfig(r)
		if !judges(try) {
			for i := range cfg.Detectors {
				d := &cfg.Detectors[i]
				d.Threshold, d.Guard, d.Events, d.Shadow = nil, nil, nil, false
			}
		}
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		configs, trail := []*Config{cfg}, []string{"first"}
		for len(configs) < 6 {
			next, what := otherSettings(r, configs[len(configs)-1], cfg, 100*try+len(configs))
			if r.IntN(4) == 0 {
				next, what = withKeys(r, next, configs, w.log), what+"+keys"
			}
			if next.Check() != nil || knownAgain(append(configs, next), w.log) {
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
		if !slices.Equal(killed.misplaced, drained.misplaced) {
			t.Fatal(said(fmt.Sprintf("misplaced are %v, want %v", killed.misplaced, drained.misplaced)))
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
		cfg := sequenceConfig(r)
		cfg.Silence = 1 + r.Int64N(1500)
		first := slices.IndexFunc(cfg.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble == nil })
		for i := range cfg.Detectors {
			d := &cfg.Detectors[i]
			d.Threshold, d.Guard, d.Events, d.Shadow = nil, nil, nil, false
			if d.Keys, d.Patterns = nil, nil; i != first {
				randomKeys(r, d)
			}
		}
		c := *cfg
		c.Detectors = cloneDetectors(c.Detectors)
		if withoutDetector(&c, first); len(c.Detectors) == len(cfg.Detectors) {
			continue
		}
		tries++
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		replayed += compareInSequence(t, r, w, []*Config{cfg, &c}, []string{"first", "removed detector"})
	}
	if replayed == 0 {
		t.Error("nothing was replayed")
	}
}

// TestKeysAfterACrash: detectors get other patterns of the series that they read, once or several times, while the worker that is
// killed has records to replay. These go to the series, windows and ensembles that read them when they were live, as after a drain.
func TestKeysAfterACrash(t *testing.T) {
	r := seedtest.New(t)
	replayed := 0
	for range 100 {
		cfg := sequenceConfig(r)
		for i := range cfg.Detectors {
			if r.IntN(3) > 0 {
				randomKeys(r, &cfg.Detectors[i])
			}
		}
		w := &world{cfg: cfg, log: randomLog(r, cfg, 200+r.IntN(400))}
		configs, trail := []*Config{cfg}, []string{"first"}
		for range 1 + r.IntN(4) {
			configs, trail = append(configs, withKeys(r, configs[len(configs)-1], configs, w.log)), append(trail, "keys")
		}
		replayed += compareInSequence(t, r, w, configs, trail)
	}
	if replayed == 0 {
		t.Error("nothing was replayed")
	}
}

// sequenceConfig returns a random configuration that others can follow.
func sequenceConfig(r *rand.Rand) *Config {
	cfg := randomConfig(r)
	cfg.DropMismatched = true
	cfg.Reading.Fields = nil
	for i := range cfg.Dim {
		cfg.Reading.Fields = append(cfg.Reading.Fields, fmt.Sprint("f", i))
	}
	return cfg
}

// cloneDetectors returns a copy of detectors and ensembles.
func cloneDetectors(list []series.DetectorConfig) []series.DetectorConfig {
	list = slices.Clone(list)
	for i := range list {
		if e := list[i].Ensemble; e != nil {
			is := *e
			is.Members, is.Gates = slices.Clone(e.Members), slices.Clone(e.Gates)
			list[i].Ensemble = &is
		}
	}
	return list
}
