package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// closedStep is a scripted step: a sample of the log, or an advance to a time before the next one.
type closedStep struct {
	advance int64 // 0: a sample
	sm      Sample
}

// closedReference says in plain words which samples are late, where each series has its own order, intervals and advances.
type closedReference struct {
	lateness, every, max int64
	keys                 map[string]*closedKey
	late                 []int64 // offsets
}

type closedKey struct {
	newest, last, behind int64
	any, begun, open     bool
	start                int64
	held                 []Sample
}

func (c *closedReference) release(advancing bool) {
	for {
		var first *closedKey
		for _, k := range c.keys {
			slices.SortStableFunc(k.held, func(a, b Sample) int { return int(a.Time - b.Time) })
			if len(k.held) > 0 && k.held[0].Time+k.behind <= c.max-c.lateness {
				first = k
			}
		}
		if first == nil {
			break
		}
		sm := first.held[0]
		first.held = first.held[1:]
		c.row(first, sm)
	}
	for _, k := range c.keys {
		if end := k.start + c.every; advancing && k.open && end <= c.max-c.lateness && (len(k.held) == 0 || k.held[0].Time >= end) {
			k.start, k.open = end, false
		}
	}
}

func (c *closedReference) row(k *closedKey, sm Sample) {
	k.last, k.any = sm.Time, true
	start := sm.Time / c.every * c.every
	if k.open && start > k.start {
		k.start, k.open = k.start+c.every, false
	}
	if k.begun && sm.Time < k.start {
		c.late = append(c.late, sm.Offset)
		return
	}
	k.begun, k.open, k.start = true, true, start
}

func (c *closedReference) step(st *closedStep) {
	if st.advance != 0 {
		c.max = st.advance
		c.release(true)
		return
	}
	sm := st.sm
	k := c.keys[string(sm.Key)]
	if k != nil && (sm.Time < k.newest-c.lateness || k.any && sm.Time < k.last) {
		c.late = append(c.late, sm.Offset)
		c.max = max(c.max, sm.Time)
		c.release(false)
		return
	}
	c.max = max(c.max, sm.Time)
	c.release(false)
	if k == nil {
		k = &closedKey{newest: sm.Time}
		c.keys[string(sm.Key)] = k
	}
	if k.any && sm.Time == k.last {
		c.row(k, sm)
		return
	}
	if sm.Time >= k.newest {
		k.newest, k.behind = sm.Time, c.max-sm.Time
	}
	k.held = append(k.held, sm)
	c.release(false)
}

// closedWorker folds a script, with cycles that fail and restarts.
type closedWorker struct {
	t         *testing.T
	r         *rand.Rand
	cfg       *Config
	log       []Sample
	s         *State
	b         *detectors.Batch
	changelog []record
	floor     string
	committed int64
	late      int64 // counted
	crashes   int
}

func (w *closedWorker) flush() {
	for more := true; more; {
		more = !w.s.Fits(w.b)
		levels(w.b)
		w.s.Apply(w.b)
		w.b.Reset()
	}
	w.s.Rows, w.s.Events = w.s.Rows[:0], w.s.Events[:0]
}

func (w *closedWorker) restore() {
	w.s, w.b = New(w.cfg), &detectors.Batch{MaxTasks: 1 + w.r.IntN(5)}
	if w.floor == "" {
		w.s.Mark(w.committed)
		return
	}
	for _, rec := range w.changelog {
		if err := w.s.Load(rec.key, rec.value); err != nil {
			w.t.Fatal(err)
		}
	}
	f, err := ParseFloor(w.floor)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.s.BeginReplay(f, w.committed, false); err != nil {
		w.t.Fatal(err)
	}
	for o := f.From(); o < w.committed; o++ {
		sm := w.log[o]
		sm.Key, sm.Values = bytes.Clone(sm.Key), slices.Clone(sm.Values)
		if o < f.Offset {
			if f.Suspect(o) {
				w.s.Recall(&sm)
			}
			continue
		}
		for !w.s.Fits(w.b) {
			w.flush()
		}
		w.s.Fold(&sm, w.b)
	}
	w.s.EndInput(w.b)
	w.flush()
	w.s.EndReplay()
}

// commit commits the cycle up to next, or has it fail; false: it did.
func (w *closedWorker) commit(next int64, before Counts) bool {
	var list []record
	if err := w.s.Snapshot(next-w.r.Int64N(60), []int{-1, 1, 300, 3000}[w.r.IntN(4)], func(k, v []byte) error {
		list = append(list, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if w.r.IntN(5) == 0 {
		w.crashes++
		w.restore()
		return false
	}
	w.changelog = append(w.changelog, list...)
	w.floor, w.committed = w.s.Floor().String(), next
	w.s.Committed(next)
	w.late += w.s.Tally.Counts[Late] - before[Late]
	if w.r.IntN(5) == 0 {
		w.crashes++
		w.restore()
	}
	return true
}

// run folds the script and returns the offsets of the samples that were late when they came, or said so.
func (w *closedWorker) run(script []closedStep) (late []int64) {
	w.restore()
	for i := 0; i < len(script); {
		if to := script[i].advance; to != 0 {
			before := w.s.Tally.Counts
			if !w.s.DecideAdvance(to) {
				w.t.Fatalf("no advance to %d", to)
			}
			if w.flush(); w.commit(w.committed, before) {
				i++
			}
			continue
		}
		before, from := w.s.Tally.Counts, i
		var cycle []int64
		for n := 1 + w.r.IntN(12); i < len(script) && script[i].advance == 0 && n > 0; n-- {
			sm := script[i].sm
			sm.Key, sm.Values = bytes.Clone(sm.Key), slices.Clone(sm.Values)
			for !w.s.Fits(w.b) {
				levels(w.b)
				w.s.Apply(w.b)
				w.b.Reset()
			}
			if out := w.s.Fold(&sm, w.b); out == Late || out == Held && w.s.HeldLate() {
				cycle = append(cycle, sm.Offset)
			}
			i++
		}
		w.flush()
		next := script[i-1].sm.Offset + 1
		if w.s.Mark(next); !w.commit(next, before) {
			i = from
			continue
		}
		late = append(late, cycle...)
	}
	return late
}

// TestClosedIntervals: the samples that a worker sends to the topic of late records, while it has them at hand, are those that a plain
// program counts as late, each once, also where an advance has closed the interval of a sample that its series holds. That holds
// over cycles that fail and restarts.
func TestClosedIntervals(t *testing.T) {
	r := seedtest.New(t)
	late, held, crashes := 0, 0, 0
	for range 120 {
		cfg := benchConfig(2, 1)
		cfg.Reading.Every, cfg.Reading.Aggregates, cfg.Reading.Fields = 5+r.Int64N(40), []string{"max"}, []string{"v"}
		cfg.Reading.Lateness, cfg.Reading.BySeries = 1+r.Int64N(100), true
		m := &closedReference{lateness: cfg.Reading.Lateness, every: cfg.Reading.Every, keys: map[string]*closedKey{}}
		w := &closedWorker{t: t, r: r, cfg: cfg}
		var script []closedStep
		step := func(st closedStep) {
			script = append(script, st)
			m.step(&st)
		}
		clock := int64(10_000)
		for range 50 + r.IntN(250) {
			if r.IntN(12) == 0 && len(w.log) > 0 {
				clock = max(clock, m.max) + 1 + r.Int64N(2*cfg.Reading.Every+cfg.Reading.Lateness)
				step(closedStep{advance: clock})
				clock -= r.Int64N(2 * cfg.Reading.Lateness)
				continue
			}
			clock += r.Int64N(8)
			sm := Sample{Key: fmt.Appendf(nil, "k%d", r.IntN(3)), Time: clock - r.Int64N(1+cfg.Reading.Lateness*3/2), Offset: int64(len(w.log)),
				Values: []float64{r.NormFloat64()}}
			w.log = append(w.log, sm)
			step(closedStep{sm: sm})
		}
		step(closedStep{advance: max(clock, m.max) + 1_000_000})
		got := w.run(script)
		slices.Sort(got)
		slices.Sort(m.late)
		if !slices.Equal(got, m.late) || w.late != int64(len(m.late)) {
			t.Fatalf("late samples %v, %d counted, the reference has %v", got, w.late, m.late)
		}
		late, held, crashes = late+len(got), held+w.s.Held(), crashes+w.crashes
	}
	if t.Logf("%d late samples, %d restarts", late, crashes); late < 100 || crashes < 100 || held > 0 {
		t.Errorf("%d late samples, %d restarts, %d held at the end: the test tests too little", late, crashes, held)
	}
}
