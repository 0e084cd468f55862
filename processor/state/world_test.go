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
func (f *fake) Explain(r detectors.Rows, fresh, _ int, expected, contribution []float64) (detectors.Part, bool) {
	row := max(0, r.Len()-r.Fresh+fresh-1)
	for i := range contribution {
		if f.counts {
			return detectors.Part{}, false
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
	w.rows, w.events, w.count, w.held, w.early = flatten(s.Rows), flattenEvents(s.Events), s.Counts, s.Held(), s.Early
	w.refused, w.intervals = s.Suspects.Refused, [2]int64{}
	for _, n := range s.Fields {
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
	for _, c := range s.Counts {
		sum += c
	}
	if sum+int64(s.Held()) != int64(len(w.log)) {
		t.Fatalf("%d samples became %v and %d held", len(w.log), s.Counts, s.Held())
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

func (x *run) flush() {
	execute(x.b)
	x.s.Apply(x.b)
	x.b.Reset()
	x.cycle.rows = append(x.cycle.rows, flatten(x.s.Rows)...)
	x.cycle.events = append(x.cycle.events, flattenEvents(x.s.Events)...)
	x.cycle.refused = append(x.cycle.refused, x.s.Suspects.Refused...)
	x.s.Rows, x.s.Events, x.s.Suspects.Refused = x.s.Rows[:0], x.s.Events[:0], x.s.Suspects.Refused[:0]
}

// chunk folds n samples; false: the log has ended.
func (x *run) chunk(n int, mark bool) bool {
	i := x.w.from(x.position)
	if i == len(x.w.log) {
		return false
	}
	end := min(i+n, len(x.w.log))
	if x.changes && x.r.IntN(10) == 0 {
		x.changeRulings()
		x.s.Rulings.Reconfigure(x.cfg.Detectors)
		x.reconfigured++
	}
	for ; i < end; i++ {
		for !x.s.Fits(x.b) {
			x.flush()
		}
		sm := x.w.log[i]
		x.position = sm.Offset + 1
		if x.decides > 0 && x.decide(&sm) {
			continue
		}
		x.w.trim(x.s, sm.Offset)
		sm.Key, sm.Values = slices.Clone(sm.Key), slices.Clone(sm.Values)
		x.s.Fold(&sm, x.b)
		if x.changes {
			x.noteRulings(sm.Offset)
		}
		if x.s.Suspects.Has(sm.Offset) {
			x.s.Suspects.Attach(sm.Offset, sm.Offset)
		}
		clear(sm.Key) // the caller's memory is its own
		clear(sm.Values)
		if x.r.IntN(30) == 0 {
			x.flush()
		}
	}
	if !mark {
		return true
	}
	for !x.s.Fits(x.b) {
		x.flush()
	}
	x.flush()
	if x.r.IntN(3) == 0 && i < len(x.w.log) { // records that are no samples
		x.position += int64(x.r.IntN(int(x.w.log[i].Offset - x.position + 1)))
	}
	for o := range x.s.Counts {
		x.cycle.counts[o] += x.s.Counts[o] - x.counted[o]
	}
	x.cycle.early += x.s.Early - x.countedEarly
	x.counted, x.countedEarly = x.s.Counts, x.s.Early
	x.s.Mark(x.position)
	want := x.position - int64(x.r.IntN(500))
	limit := x.maxBytes
	if x.mandatory && x.r.IntN(20) > 0 {
		limit = -1
	}
	if err := x.s.Snapshot(want, limit, x.emit); err != nil {
		x.t.Fatal(err)
	}
	if f := x.s.Floor(); x.maxBytes == 0 && limit == 0 && f.Offset < min(want, x.position) {
		x.t.Fatalf("floor %v after a snapshot up to %d", f, want)
	}
	x.cycle.next, x.cycle.floor = x.position, x.s.Floor().String()
	return true
}

// idle snapshots in a cycle without new records.
func (x *run) idle() {
	if x.cycle.next != 0 || x.flight != nil || x.known != x.committed || x.position != x.committed {
		return
	}
	if err := x.s.Snapshot(x.position, x.maxBytes, x.emit); err != nil {
		x.t.Fatal(err)
	}
	x.cycle.next, x.cycle.floor = x.position, x.s.Floor().String()
	c := x.cycle
	x.flight, x.cycle = &c, part{}
	x.known-- // this commit has to be told, too
}

// advance has the watermark of an idle partition advance, in a cycle without new records.
func (x *run) advance() {
	x.land()
	if x.cycle.next > 0 {
		c := x.cycle
		x.flight, x.cycle = &c, part{}
		x.land()
	}
	if x.tell(); x.position != x.committed {
		return
	}
	to := x.s.MaxTime() + 1 + x.r.Int64N(2000)
	if due := x.s.NextAdvance(); due != math.MaxInt64 && x.r.IntN(2) == 0 {
		to = max(due, x.s.MaxTime()+1) // exactly
	}
	if !x.s.DecideAdvance(to) {
		return
	}
	for !x.s.Fits(x.b) {
		x.flush()
	}
	x.flush()
	for o := range x.s.Counts {
		x.cycle.counts[o] += x.s.Counts[o] - x.counted[o]
	}
	x.counted = x.s.Counts
	x.cycle.decided = append(x.cycle.decided, decided{Advance, nil, encodeAdvance(to), x.position})
	if x.r.IntN(4) == 0 { // before it is written
		x.abort()
		return
	}
	for _, e := range x.cycle.events {
		if e.det == SilenceDetector {
			x.silent++
		}
	}
	x.idle()
	if x.r.IntN(4) == 0 { // before it is committed
		x.abort()
		return
	}
	x.land()
	x.tell()
	if x.r.IntN(3) == 0 {
		x.check("advance", x.s)
	}
}

func (x *run) emit(key, value []byte) error {
	if n := len(key) + len(value); n > max(x.w.cfg.MaxRecord, 2*300+1024+len(key)) && x.w.cfg.MaxRecord > 0 {
		x.t.Errorf("a changelog record of %d bytes, limit %d", n, x.w.cfg.MaxRecord)
	}
	x.cycle.changelog = append(x.cycle.changelog, record{bytes.Clone(key), bytes.Clone(value)})
	return nil
}

// land ends the cycle in flight with success.
func (x *run) land() {
	c := x.flight
	if c == nil {
		return
	}
	x.flight = nil
	x.committed, x.floor = c.next, c.floor
	x.changelog = append(x.changelog, c.changelog...)
	x.rows = append(x.rows, c.rows...)
	x.events = append(x.events, c.events...)
	x.refused = append(x.refused, c.refused...)
	if len(c.decided) > 0 {
		x.w.decided = append(x.w.decided, c.decided...)
		clear(x.w.state)
	}
	for o := range c.counts {
		x.counts[o] += c.counts[o]
	}
	x.early += c.early
	if x.r.IntN(4) > 0 {
		x.tell()
	}
}

func (x *run) tell() {
	if x.known < x.committed {
		x.s.Committed(x.committed)
		x.known = x.committed
	}
}

func (x *run) compacted() []record {
	switch x.r.IntN(3) {
	case 0:
		return x.changelog
	case 1: // some of the older half
		half := len(x.changelog) / 2
		return append(compact(x.changelog[:half], x.changelog, false), x.changelog[half:]...)
	}
	return compact(x.changelog, x.changelog, x.r.IntN(2) == 0)
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
func (x *run) restored(changelog []record) *State {
	s, b := New(x.cfg), &detectors.Batch{MaxTasks: x.b.MaxTasks}
	if x.floor == "" { // nothing was committed
		s.BackfillTo(x.w.backfill)
		s.Mark(x.committed)
		return s
	}
	for _, r := range changelog {
		if err := s.Load(r.key, r.value); err != nil {
			x.t.Fatal(err)
		}
	}
	f, err := ParseFloor(x.floor)
	if err != nil {
		x.t.Fatal(err)
	}
	if x.breakIt != nil {
		x.breakIt(&f)
	}
	if err := s.BeginReplay(f, x.committed, false); err != nil {
		if x.breakIt != nil {
			return New(x.w.cfg)
		}
		x.t.Fatal(err)
	}
	flush := func() { execute(b); s.Apply(b); b.Reset() }
	for i := x.w.from(f.From()); i < len(x.w.log) && x.w.log[i].Offset < x.committed; i++ {
		if x.w.log[i].Offset < f.Offset {
			s.Recall(&x.w.log[i])
		} else {
			for !s.Fits(b) {
				flush()
			}
			if sm := &x.w.log[i]; s.Standing(MissingSchema, subjectOf(sm.Key), sm.Offset) == nil {
				s.Fold(sm, b)
			}
		}
		if o := x.w.log[i].Offset; s.Suspects.Has(o) {
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
		sus.SuspectCounts != (SuspectCounts{}) || s.Counts != (Counts{}) || s.Early != 0 {
		x.t.Fatalf("replay made %d rows and counted %v", len(s.Rows), s.Counts)
	}
	return s
}

func (x *run) restart() {
	x.cycle, x.flight = part{}, nil
	x.position = x.committed
	x.counted, x.countedEarly = x.s.Counts, x.s.Early
	x.b.Reset()
}

func (x *run) crash() {
	x.crashes++
	if x.changes {
		x.changeRulings()
	}
	x.s = x.restored(x.compacted())
	x.known = x.committed
	x.restart()
	x.check("crash", x.s)
}

func (x *run) abort() {
	x.aborts++
	if err := x.s.Rollback(x.committed); err != nil {
		x.t.Fatal(err)
	}
	x.tell()
	x.restart()
	x.check("rollback", x.s)
	if x.r.IntN(3) == 0 {
		x.check("restore", x.restored(x.compacted()))
	}
}

func (x *run) check(what string, s *State) {
	x.t.Helper()
	if x.breakIt != nil {
		return
	}
	want := x.w.at(x.committed)
	if got := s.Export(nil); !bytes.Equal(got, want.export) {
		x.t.Fatalf("%s at %d (floor %s): state of %d bytes differs from the undisturbed one of %d", what, x.committed, x.floor,
			len(got), len(want.export))
	}
	if s.Held() != want.held {
		x.t.Fatalf("%s: %d held, undisturbed %d", what, s.Held(), want.held)
	}
	x.invariants(s)
}

// invariants compares what is kept along the way with what it is made of.
func (x *run) invariants(s *State) {
	x.t.Helper()
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
	if most := x.w.cfg.Reading.MaxHeld; most > 0 && held > most {
		x.t.Fatalf("%d samples are held, the limit is %d", held, most)
	}
	if at := min(s.Keys.evictor.Next(), s.silences.watch.Next()); s.sweepAt != at {
		x.t.Fatalf("the next sweep is at %d, due at %d", s.sweepAt, at)
	}
	if silent != s.silences.n || len(s.orphans.orphaned) > 0 {
		x.t.Fatalf("%d silent keys of %d, %d orphaned", s.silences.n, silent, len(s.orphans.orphaned))
	}
	if size != s.Keys.Bytes || dirty != s.dirty.Len() || held != s.held.N ||
		s.Keys.Len() > 0 && x.w.cfg.MaxKeys > 0 && s.Keys.Len() > max(x.w.cfg.MaxKeys, voters+1) {
		x.t.Fatalf("bytes %d of %d, dirty %d of %d, held %d of %d, %d keys",
			s.Keys.Bytes, size, s.dirty.Len(), dirty, s.held.N, held, s.Keys.Len())
	}
}

// all runs the log to its end, with faults at rate of a hundred steps.
func (x *run) all(rate int) {
	size := []int{1, 7, 60, 400}[x.r.IntN(4)]
	for x.committed < x.w.end {
		if x.r.IntN(100) < rate {
			if x.r.IntN(2) == 0 {
				x.chunk(1+x.r.IntN(size), false) // in the middle of a chunk
			}
			if x.r.IntN(2) == 0 {
				x.abort()
			} else {
				x.crash()
			}
			continue
		}
		if x.r.IntN(10) == 0 {
			x.idle()
		}
		if x.idles > 0 && x.r.IntN(x.idles) == 0 {
			x.advance()
		}
		more := x.chunk(1+x.r.IntN(size), true)
		if x.flight == nil && x.cycle.next > 0 && (x.r.IntN(2) == 0 || !more) {
			c := x.cycle
			x.flight, x.cycle = &c, part{}
		} else if x.flight != nil && (x.r.IntN(2) == 0 || !more) {
			x.land()
		}
		if x.r.IntN(10) == 0 {
			x.invariants(x.s)
		}
	}
	x.tell()
}
