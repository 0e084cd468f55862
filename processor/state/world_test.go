package state

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/detectors/simple"
	"odradek/processor/anomaly"
)

func init() { replayStride = 50 } // the logs of the tests are short

// fake is a detector whose scores tell every row, parameter and carry that it
// was given, and in which order.
type fake struct {
	id, window, least, carry, lag int
	bins                          *detectors.BinParams // nil: no summary
	counts                        bool                 // of a grid
	direct, inPlace               bool                 // see Direct
}

// Direct: half of the direct fakes score in place.
func (f *fake) Direct() (fill func(r *detectors.Rows), inPlace bool) {
	if !f.direct {
		return nil, false
	}
	return scoreFake, f.inPlace
}

func (f *fake) Summary(dim int) *detectors.BinParams {
	if f.bins == nil {
		return nil
	}
	b := *f.bins
	b.Dim = dim
	return &b
}

func (f *fake) Op() detectors.Op {
	if f.counts {
		return scan.Op
	}
	return simple.OpZScore
}

func (f *fake) Params() detectors.Words {
	return detectors.WordsOf([]float32{float32(f.id), float32(f.window), float32(f.carry)})
}
func (f *fake) Window() int { return f.window }

func (f *fake) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if v.Rows-v.Fresh+1 < f.least {
		return detectors.Outputs{}, false
	}
	if n.Carry = f.carry; f.carry > 0 && !f.inPlace {
		n.Carry += min(v.Rows, 3) // grows with the window
	}
	n.Scores = v.Fresh
	return n, true
}

func (f *fake) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		at := first + i
		switch {
		case f.lag > 0 && i%5 == 4: // no finding for this one
		case f.lag > 1:
			dst = append(dst, detectors.Finding{Fresh: i, From: max(0, at-f.lag), To: at, Score: float64(s)})
			if i%2 == 0 {
				dst = append(dst, detectors.Finding{Fresh: i, From: 0, To: max(0, at-1), Score: float64(-s)})
			}
		default:
			dst = append(dst, detectors.Finding{Fresh: i, From: at, To: at, Score: float64(s)})
		}
	}
	if f.lag > 2 {
		slices.Reverse(dst) // in no order
	}
	return dst
}

// InSeason: a fake's carry says so by its first word.
func (f *fake) InSeason(carry detectors.Words) bool { return len(carry) > 0 && carry[0]%3 > 0 }

// Incomplete: a fake takes a missing value for a number.
func (f *fake) Incomplete() {}

// Explain: half of the fakes expect the row before.
func (f *fake) Explain(r detectors.Rows, fresh, _ int, expected, contribution []float64) (detectors.Location, bool) {
	row := max(0, r.Len()-r.Fresh+fresh-1)
	for i := range contribution {
		if f.counts {
			return detectors.Location{}, false
		}
		expected[i], contribution[i] = float64(r.X[row*r.Dim+i]), 1/float64(r.Dim)
	}
	return detectors.OneRow(r.Row(fresh)), f.id%2 == 0
}

// execute is the executor of the tests.
func execute(b *detectors.Batch) {
	for i := range b.Out {
		b.Out.SetFloat32(i, nan) // undefined content
	}
	for i := range b.Tasks {
		r := b.Rows(i)
		scoreFake(&r)
	}
}

// scoreFake scores a task of a fake.
func scoreFake(r *detectors.Rows) {
	h := r.Params.Float32(0) + 0.5
	for _, c := range r.Carry.F32() {
		h = h*0.75 + c
	}
	for _, c := range r.Bins {
		h = h*0.75 + c
	}
	n := r.Len() - r.Fresh + 1
	x := r.X
	for _, v := range r.XI {
		x = append(x, float32(v))
	}
	for j := range r.Scores {
		s := h
		for _, x := range x[max(0, n+j-int(r.Params.Float32(1)))*r.Dim : (n+j)*r.Dim] {
			if x != x {
				x = 3
			}
			s = s*0.5 + x
		}
		r.Scores[j] = s
		h = h*0.25 + s
	}
	for j := range r.Next {
		r.Next.SetFloat32(j, h+float32(j))
	}
}

// flat is a Row that can be compared.
type flat struct {
	key                       string
	det                       int32
	state                     RowState
	score                     uint32
	offset, time, about, till int64
	exceeds                   bool
	severity                  uint8
	threshold, judged, behind uint32
	remaining                 int32
}

func flatten(rows []Row) []flat {
	out := make([]flat, 0, len(rows))
	for _, r := range rows {
		out = append(out, flat{string(r.Key.Name()), r.Detector, r.State, math.Float32bits(r.Score), r.Offset, r.Time, r.About, r.Until,
			r.Exceeds, r.Severity, math.Float32bits(r.Threshold), math.Float32bits(r.Judged), r.Behind, r.Remaining})
	}
	return out
}

// flatEvent is an EventRow that can be compared.
type flatEvent struct {
	key, name    string
	det          int32
	kind         anomaly.Kind
	reason       anomaly.Reason
	time, offset int64
	anomaly      string
	behind       uint32
}

func flattenEvents(rows []EventRow) []flatEvent {
	out := make([]flatEvent, 0, len(rows))
	for _, r := range rows {
		c := &r.Change
		out = append(out, flatEvent{string(r.Key.Name()), r.Name, r.Detector, c.Kind, c.Reason, c.Time, c.Offset, string(c.Anomaly.Append(nil)),
			r.Behind})
	}
	return out
}

type record struct{ key, value []byte }

// world is a log, a configuration, and what an undisturbed fold makes of them.
type world struct {
	cfg     *Config
	log     []Sample
	end     int64
	rows    []flat
	events  []flatEvent
	count   Counts
	held    int
	early   int64
	refused []Refusal
	state   map[int64]reference

	intervals [2]int64 // that were closed, with samples and without

	decided  []decided // committed; what the undisturbed fold is made with
	backfill int64     // end of the backfill; 0: none
	trims    int64     // mean distance of the offsets before which up to 3 keys are evicted; 0: none
}

// trim evicts before a sample what a budget would, by the offset alone so that all
// folds of the log do the same.
func (w *world) trim(s *State, offset int64) {
	if w.trims == 0 || offset%w.trims != 0 {
		return
	}
	for n := offset / w.trims % 4; n > 0 && s.Keys.Len() > 1; n-- {
		if s.Trim(s.Bytes()-1, offset) != 1 {
			panic("one key less is not one byte less")
		}
	}
}

// reference is the undisturbed state at an offset.
type reference struct {
	export []byte
	held   int
}

func newWorld(t testing.TB, r *rand.Rand, n int) *world {
	return newWorldOf(t, r, randomConfig(r), n)
}

func newWorldOf(t testing.TB, r *rand.Rand, cfg *Config, n int) *world {
	w := &world{cfg: cfg, log: randomLog(r, cfg, n), state: map[int64]reference{}}
	w.end = w.log[len(w.log)-1].Offset + 1
	w.fill(t)
	return w
}

// newTrimmedWorld is newWorld with keys that a budget evicts in one of three, and a backfill in one of three.
func newTrimmedWorld(t testing.TB, r *rand.Rand, n int) *world {
	w := newWorld(t, r, n)
	if r.IntN(3) == 0 {
		w.trims = 1 + r.Int64N(50)
	}
	if r.IntN(3) == 0 {
		w.backfill = w.log[r.IntN(n)].Offset + r.Int64N(2)
	}
	w.fill(t)
	return w
}

func (w *world) fill(t testing.TB) {
	s := w.fold(w.end)
	w.rows, w.events, w.count, w.held, w.early = flatten(s.Rows), flattenEvents(s.Events), s.Tally.Counts, s.Held(), s.Tally.Early
	w.refused, w.intervals = s.Suspects.Refused, [2]int64{}
	for _, n := range s.Tally.Fields {
		w.intervals[0], w.intervals[1] = w.intervals[0]+n.Closed, w.intervals[1]+n.Empty
	}
	if by := &s.cfg.Reading; by.Every > 0 && !by.Series { // each interval has all fields
		n := int64(len(by.AggregatesOf(nil)))
		w.intervals[0], w.intervals[1] = w.intervals[0]/n, w.intervals[1]/n
	}
	if w.backfill <= 0 { // otherwise rows are withheld
		checkRemaining(t, w.rows)
	}
	var sum int64
	for _, c := range s.Tally.Counts {
		sum += c
	}
	if sum+int64(s.Held()) != int64(len(w.log)) {
		t.Fatalf("%d samples became %v and %d held", len(w.log), s.Tally.Counts, s.Held())
	}
}

// checkRemaining requires that no score comes sooner than the rows before it say, and that rows which are warming up, and no
// others, say when one does.
func checkRemaining(t testing.TB, rows []flat) {
	type series struct {
		key string
		det int32
	}
	n, before := map[series]int{}, map[series][]flat{}
	least := map[series]int{} // the number of the first row that may have a score
	for _, row := range rows {
		id := series{row.key, row.det}
		scored := !math.IsNaN(float64(math.Float32frombits(row.score)))
		if (row.state == RowWarmingUp) != (row.remaining > 0) || scored && row.remaining > 0 {
			t.Fatalf("%d samples remain: %+v", row.remaining, row)
		}
		if scored && n[id] < least[id] {
			t.Fatalf("a score comes %d samples early: %+v\nbehind %+v", least[id]-n[id], row, before[id])
		}
		if row.remaining > 0 {
			least[id] = max(least[id], n[id]+int(row.remaining))
			before[id] = append(before[id], row)
		}
		n[id]++
	}
}

// fold returns the undisturbed fold of the samples below end: one chunk, batches
// without limits.
func (w *world) fold(end int64) *State {
	s, b := New(w.cfg), &detectors.Batch{}
	s.BackfillTo(w.backfill)
	flush := func() { execute(b); s.Apply(b); b.Reset() }
	deadLetters := map[int64]bool{}
	todo := w.decided
	// advance makes the advances up to the record at offset. Each releases what it reaches before the next decision.
	advance := func(offset int64) {
		for len(todo) > 0 && todo[0].kind == Advance && todo[0].offset <= offset {
			todo[0].make(s, deadLetters)
			for todo = todo[1:]; !s.Fits(b); {
				flush()
			}
		}
	}
	for i := range w.log {
		for !s.Fits(b) {
			flush()
		}
		o := w.log[i].Offset
		if o >= end {
			continue
		}
		for len(todo) > 0 && todo[0].offset <= o {
			if advance(o); len(todo) > 0 && todo[0].offset <= o {
				todo[0].make(s, deadLetters)
				todo = todo[1:]
			}
		}
		if !deadLetters[o] {
			w.trim(s, o)
			s.Fold(&w.log[i], b)
		}
		if s.Suspects.Has(o) {
			s.Suspects.Attach(o, o)
		}
	}
	advance(end)
	for !s.Fits(b) {
		flush()
	}
	flush()
	return s
}

func (w *world) at(end int64) reference {
	if _, ok := w.state[end]; !ok {
		s := w.fold(end)
		w.state[end] = reference{s.Export(nil), s.Held()}
	}
	return w.state[end]
}

// from returns the index of the first sample at offset or later.
func (w *world) from(offset int64) int {
	i, _ := slices.BinarySearchFunc(w.log, offset, func(s Sample, o int64) int { return int(s.Offset - o) })
	return i
}

// run drives a State through the log as a worker does, with faults.
type run struct {
	t   *testing.T
	r   *rand.Rand
	w   *world
	cfg *Config // of the worker that runs now
	s   *State
	b   *detectors.Batch

	// What the brokers have.
	committed int64
	floor     string
	changelog []record
	rows      []flat
	events    []flatEvent
	refused   []Refusal
	counts    Counts
	early     int64

	// What the worker has.
	position     int64
	known        int64 // State knows of this commit
	counted      Counts
	countedEarly int64
	cycle        part // in the making
	flight       *part
	aborts       int
	crashes      int
	reconfigured int
	silent       int             // silences that advances opened
	idles        int             // mean number of chunks between two advances; 0: there are none
	breakIt      func(f *Floor)  // for the negative control
	grown        int             // times
	absent       map[string]bool // by subjectOf: what the registry does not have
	missing      int
	decides      int  // mean distance of the samples with a decision before them; 0: none
	changes      bool // a worker may have other thresholds than the one before
	maxBytes     int
	mandatory    bool // only what Snapshot must emit, for long
}

type part struct {
	next      int64
	floor     string
	changelog []record
	rows      []flat
	events    []flatEvent
	refused   []Refusal
	counts    Counts
	decided   []decided
	early     int64
}

func newRun(t *testing.T, r *rand.Rand, w *world) *run {
	x := &run{t: t, r: r, w: w, cfg: w.cfg, b: &detectors.Batch{}, absent: map[string]bool{}}
	if r.IntN(3) > 0 {
		x.b.MaxTasks = 1 + r.IntN(40)
	}
	if r.IntN(3) == 0 {
		x.b.MaxIn = 1 + r.IntN(5000)
	}
	x.maxBytes = []int{0, 1, 2000, 20000}[r.IntN(4)]
	x.committed = w.log[0].Offset - int64(r.IntN(3))
	x.committed = max(0, x.committed)
	x.position, x.known = x.committed, x.committed
	x.s = New(w.cfg)
	x.s.BackfillTo(w.backfill)
	x.s.Mark(x.committed)
	return x
}

func (rn *run) flush() {
	execute(rn.b)
	rn.s.Apply(rn.b)
	rn.b.Reset()
	rn.cycle.rows = append(rn.cycle.rows, flatten(rn.s.Rows)...)
	rn.cycle.events = append(rn.cycle.events, flattenEvents(rn.s.Events)...)
	rn.cycle.refused = append(rn.cycle.refused, rn.s.Suspects.Refused...)
	rn.s.Rows, rn.s.Events, rn.s.Suspects.Refused = rn.s.Rows[:0], rn.s.Events[:0], rn.s.Suspects.Refused[:0]
}

// chunk folds n samples; false: the log has ended.
func (rn *run) chunk(n int, mark bool) bool {
	i := rn.w.from(rn.position)
	if i == len(rn.w.log) {
		return false
	}
	end := min(i+n, len(rn.w.log))
	if rn.changes && rn.r.IntN(10) == 0 {
		rn.changeRulings()
		rn.s.Rulings.Reconfigure(rn.cfg.Detectors)
		rn.reconfigured++
	}
	for ; i < end; i++ {
		for !rn.s.Fits(rn.b) {
			rn.flush()
		}
		sm := rn.w.log[i]
		rn.position = sm.Offset + 1
		if rn.decides > 0 && rn.decide(&sm) {
			continue
		}
		rn.w.trim(rn.s, sm.Offset)
		sm.Key, sm.Values = slices.Clone(sm.Key), slices.Clone(sm.Values)
		rn.s.Fold(&sm, rn.b)
		if rn.changes {
			rn.noteRulings(sm.Offset)
		}
		if rn.s.Suspects.Has(sm.Offset) {
			rn.s.Suspects.Attach(sm.Offset, sm.Offset)
		}
		clear(sm.Key) // the caller's memory is its own
		clear(sm.Values)
		if rn.r.IntN(30) == 0 {
			rn.flush()
		}
	}
	if !mark {
		return true
	}
	for !rn.s.Fits(rn.b) {
		rn.flush()
	}
	rn.flush()
	if rn.r.IntN(3) == 0 && i < len(rn.w.log) { // records that are no samples
		rn.position += int64(rn.r.IntN(int(rn.w.log[i].Offset - rn.position + 1)))
	}
	for o := range rn.s.Tally.Counts {
		rn.cycle.counts[o] += rn.s.Tally.Counts[o] - rn.counted[o]
	}
	rn.cycle.early += rn.s.Tally.Early - rn.countedEarly
	rn.counted, rn.countedEarly = rn.s.Tally.Counts, rn.s.Tally.Early
	rn.s.Mark(rn.position)
	want := rn.position - int64(rn.r.IntN(500))
	limit := rn.maxBytes
	if rn.mandatory && rn.r.IntN(20) > 0 {
		limit = -1
	}
	if err := rn.s.Snapshot(want, limit, rn.emit); err != nil {
		rn.t.Fatal(err)
	}
	if f := rn.s.Floor(); rn.maxBytes == 0 && limit == 0 && f.Offset < min(want, rn.position) {
		rn.t.Fatalf("floor %v after a snapshot up to %d", f, want)
	}
	rn.cycle.next, rn.cycle.floor = rn.position, rn.s.Floor().String()
	return true
}

// idle snapshots in a cycle without new records.
func (rn *run) idle() {
	if rn.cycle.next != 0 || rn.flight != nil || rn.known != rn.committed || rn.position != rn.committed {
		return
	}
	if err := rn.s.Snapshot(rn.position, rn.maxBytes, rn.emit); err != nil {
		rn.t.Fatal(err)
	}
	rn.cycle.next, rn.cycle.floor = rn.position, rn.s.Floor().String()
	c := rn.cycle
	rn.flight, rn.cycle = &c, part{}
	rn.known-- // this commit has to be told, too
}

// advance has the watermark of an idle partition advance, in a cycle without new records.
func (rn *run) advance() {
	rn.land()
	if rn.cycle.next > 0 {
		c := rn.cycle
		rn.flight, rn.cycle = &c, part{}
		rn.land()
	}
	if rn.tell(); rn.position != rn.committed {
		return
	}
	to := rn.s.MaxTime() + 1 + rn.r.Int64N(2000)
	if due := rn.s.NextAdvance(); due != math.MaxInt64 && rn.r.IntN(2) == 0 {
		to = max(due, rn.s.MaxTime()+1) // exactly
	}
	if !rn.s.DecideAdvance(to) {
		return
	}
	for !rn.s.Fits(rn.b) {
		rn.flush()
	}
	rn.flush()
	for o := range rn.s.Tally.Counts {
		rn.cycle.counts[o] += rn.s.Tally.Counts[o] - rn.counted[o]
	}
	rn.counted = rn.s.Tally.Counts
	rn.cycle.decided = append(rn.cycle.decided, decided{Advance, nil, encodeAdvance(to), rn.position})
	if rn.r.IntN(4) == 0 { // before it is written
		rn.abort()
		return
	}
	for _, e := range rn.cycle.events {
		if e.det == SilenceDetector {
			rn.silent++
		}
	}
	rn.idle()
	if rn.r.IntN(4) == 0 { // before it is committed
		rn.abort()
		return
	}
	rn.land()
	rn.tell()
	if rn.r.IntN(3) == 0 {
		rn.check("advance", rn.s)
	}
}

func (rn *run) emit(key, value []byte) error {
	if n := len(key) + len(value); n > max(rn.w.cfg.MaxRecord, 2*300+1024+len(key)) && rn.w.cfg.MaxRecord > 0 {
		rn.t.Errorf("a changelog record of %d bytes, limit %d", n, rn.w.cfg.MaxRecord)
	}
	rn.cycle.changelog = append(rn.cycle.changelog, record{bytes.Clone(key), bytes.Clone(value)})
	return nil
}

// land ends the cycle in flight with success.
func (rn *run) land() {
	c := rn.flight
	if c == nil {
		return
	}
	rn.flight = nil
	rn.committed, rn.floor = c.next, c.floor
	rn.changelog = append(rn.changelog, c.changelog...)
	rn.rows = append(rn.rows, c.rows...)
	rn.events = append(rn.events, c.events...)
	rn.refused = append(rn.refused, c.refused...)
	if len(c.decided) > 0 {
		rn.w.decided = append(rn.w.decided, c.decided...)
		clear(rn.w.state)
	}
	for o := range c.counts {
		rn.counts[o] += c.counts[o]
	}
	rn.early += c.early
	if rn.r.IntN(4) > 0 {
		rn.tell()
	}
}

func (rn *run) tell() {
	if rn.known < rn.committed {
		rn.s.Committed(rn.committed)
		rn.known = rn.committed
	}
}

func (rn *run) compacted() []record {
	switch rn.r.IntN(3) {
	case 0:
		return rn.changelog
	case 1: // some of the older half
		half := len(rn.changelog) / 2
		return append(compact(rn.changelog[:half], rn.changelog, false), rn.changelog[half:]...)
	}
	return compact(rn.changelog, rn.changelog, rn.r.IntN(2) == 0)
}

// compact keeps the records of part that are the last of their key in all.
func compact(part, all []record, tombstones bool) (out []record) {
	last := map[string]int{}
	for i, r := range all {
		last[string(r.key)] = i
	}
	for i, r := range part {
		if last[string(r.key)] == i && (r.value != nil || tombstones) {
			out = append(out, r)
		}
	}
	return out
}

// restored returns a state restored from what the brokers have.
func (rn *run) restored(changelog []record) *State {
	s, b := New(rn.cfg), &detectors.Batch{MaxTasks: rn.b.MaxTasks}
	if rn.floor == "" { // nothing was committed
		s.BackfillTo(rn.w.backfill)
		s.Mark(rn.committed)
		return s
	}
	for _, r := range changelog {
		if err := s.Load(r.key, r.value); err != nil {
			rn.t.Fatal(err)
		}
	}
	f, err := ParseFloor(rn.floor)
	if err != nil {
		rn.t.Fatal(err)
	}
	if rn.breakIt != nil {
		rn.breakIt(&f)
	}
	if err := s.BeginReplay(f, rn.committed, false); err != nil {
		if rn.breakIt != nil {
			return New(rn.w.cfg)
		}
		rn.t.Fatal(err)
	}
	flush := func() { execute(b); s.Apply(b); b.Reset() }
	for i := rn.w.from(f.From()); i < len(rn.w.log) && rn.w.log[i].Offset < rn.committed; i++ {
		if rn.w.log[i].Offset < f.Offset {
			s.Recall(&rn.w.log[i])
		} else {
			for !s.Fits(b) {
				flush()
			}
			if sm := &rn.w.log[i]; s.Standing(MissingSchema, subjectOf(sm.Key), sm.Offset) == nil {
				s.Fold(sm, b)
			}
		}
		if o := rn.w.log[i].Offset; s.Suspects.Has(o) {
			s.Suspects.Attach(o, o)
		}
	}
	s.EndInput(b)
	for !s.Fits(b) {
		flush()
	}
	flush()
	s.EndReplay()
	if sus := &s.Suspects; len(s.Rows) > 0 || len(s.Events) > 0 || len(sus.Refused) > 0 || sus.Lost > 0 ||
		sus.Counts != (SuspectCounts{}) || s.Tally.Counts != (Counts{}) || s.Tally.Early != 0 {
		rn.t.Fatalf("replay made %d rows and counted %v", len(s.Rows), s.Tally.Counts)
	}
	return s
}

func (rn *run) restart() {
	rn.cycle, rn.flight = part{}, nil
	rn.position = rn.committed
	rn.counted, rn.countedEarly = rn.s.Tally.Counts, rn.s.Tally.Early
	rn.b.Reset()
}

func (rn *run) crash() {
	rn.crashes++
	if rn.changes {
		rn.changeRulings()
	}
	rn.s = rn.restored(rn.compacted())
	rn.known = rn.committed
	rn.restart()
	rn.check("crash", rn.s)
}

func (rn *run) abort() {
	rn.aborts++
	if err := rn.s.Rollback(rn.committed); err != nil {
		rn.t.Fatal(err)
	}
	rn.tell()
	rn.restart()
	rn.check("rollback", rn.s)
	if rn.r.IntN(3) == 0 {
		rn.check("restore", rn.restored(rn.compacted()))
	}
}

func (rn *run) check(what string, s *State) {
	rn.t.Helper()
	if rn.breakIt != nil {
		return
	}
	want := rn.w.at(rn.committed)
	if got := s.Export(nil); !bytes.Equal(got, want.export) {
		rn.t.Fatalf("%s at %d (floor %s): state of %d bytes differs from the undisturbed one of %d", what, rn.committed, rn.floor,
			len(got), len(want.export))
	}
	if s.Held() != want.held {
		rn.t.Fatalf("%s: %d held, undisturbed %d", what, s.Held(), want.held)
	}
	rn.invariants(s)
}

// invariants compares what is kept along the way with what it is made of.
func (rn *run) invariants(s *State) {
	rn.t.Helper()
	var size int64
	dirty, held, silent := 0, 0, 0
	for k := range s.Keys.All {
		size += k.Size()
		if _, is := k.Dirty(); is {
			dirty++
		}
		held += k.Held.Len()
		if k.Silent() {
			silent++
		}
	}
	if most := rn.w.cfg.Reading.MaxHeld; most > 0 && held > most {
		rn.t.Fatalf("%d samples are held, the limit is %d", held, most)
	}
	if at := min(s.Keys.evictor.Next(), s.silences.watch.Next()); s.sweepAt != at {
		rn.t.Fatalf("the next sweep is at %d, due at %d", s.sweepAt, at)
	}
	if silent != s.silences.n || len(s.orphans.orphaned) > 0 {
		rn.t.Fatalf("%d silent keys of %d, %d orphaned", s.silences.n, silent, len(s.orphans.orphaned))
	}
	if size != s.Keys.Bytes || dirty != s.dirty.Len() || held != s.held.N ||
		s.Keys.Len() > 0 && rn.w.cfg.MaxKeys > 0 && s.Keys.Len() > max(rn.w.cfg.MaxKeys, voters+1) {
		rn.t.Fatalf("bytes %d of %d, dirty %d of %d, held %d of %d, %d keys",
			s.Keys.Bytes, size, s.dirty.Len(), dirty, s.held.N, held, s.Keys.Len())
	}
}

// all runs the log to its end, with faults at rate of a hundred steps.
func (rn *run) all(rate int) {
	size := []int{1, 7, 60, 400}[rn.r.IntN(4)]
	for rn.committed < rn.w.end {
		if rn.r.IntN(100) < rate {
			if rn.r.IntN(2) == 0 {
				rn.chunk(1+rn.r.IntN(size), false) // in the middle of a chunk
			}
			if rn.r.IntN(2) == 0 {
				rn.abort()
			} else {
				rn.crash()
			}
			continue
		}
		if rn.r.IntN(10) == 0 {
			rn.idle()
		}
		if rn.idles > 0 && rn.r.IntN(rn.idles) == 0 {
			rn.advance()
		}
		more := rn.chunk(1+rn.r.IntN(size), true)
		if rn.flight == nil && rn.cycle.next > 0 && (rn.r.IntN(2) == 0 || !more) {
			c := rn.cycle
			rn.flight, rn.cycle = &c, part{}
		} else if rn.flight != nil && (rn.r.IntN(2) == 0 || !more) {
			rn.land()
		}
		if rn.r.IntN(10) == 0 {
			rn.invariants(rn.s)
		}
	}
	rn.tell()
}
