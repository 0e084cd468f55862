package state

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/processor/state/changelog"
)

// heldRun folds samples of one key, a second apart, of which none is released until
// the lateness has passed, and snapshots it every cycle.
type heldRun struct {
	t     testing.TB
	s     *State
	b     *detectors.Batch
	next  int64
	log   []record
	bytes int // of the last cycle
	most  int // of a record
}

func newHeldRun(t testing.TB, cfg *Config) *heldRun {
	h := &heldRun{t: t, s: New(cfg), b: &detectors.Batch{}}
	h.s.Mark(0)
	return h
}

// cycle folds n samples in a scattered order of time and commits.
func (h *heldRun) cycle(n int) {
	for range n {
		for !h.s.Fits(h.b) {
			h.s.Apply(h.b)
			h.b.Reset()
		}
		h.s.Fold(&Sample{Key: []byte("key"), Time: (h.next ^ 5) * 1e6, Offset: h.next, Values: []float64{float64(h.next)}}, h.b)
		h.next++
	}
	for !h.s.Fits(h.b) {
		h.s.Apply(h.b)
		h.b.Reset()
	}
	h.s.Apply(h.b)
	h.b.Reset()
	h.s.Rows = h.s.Rows[:0]
	h.s.Mark(h.next)
	h.bytes = 0
	if err := h.s.Snapshot(h.next, 0, func(k, v []byte) error {
		h.log = append(h.log, record{bytes.Clone(k), bytes.Clone(v)})
		h.bytes, h.most = h.bytes+len(k)+len(v), max(h.most, len(k)+len(v))
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	h.s.Committed(h.next)
}

// restored compares the state with one that is restored from its log.
func (h *heldRun) restored(log []record) {
	h.t.Helper()
	s := New(h.s.cfg)
	for _, r := range log {
		if err := s.Load(r.key, r.value); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := s.BeginReplay(h.s.Floor(), h.next, false); err != nil {
		h.t.Fatal(err)
	}
	s.EndReplay()
	if !bytes.Equal(s.Export(nil), h.s.Export(nil)) || s.Held() != h.s.Held() {
		h.t.Fatalf("%d samples are held after a restore, %d before, or the state differs otherwise", s.Held(), h.s.Held())
	}
}

// TestSnapshotOfHeldSamples: what a snapshot writes of a key is in proportion to what
// is new, however many samples the key holds; what is released leaves the log.
func TestSnapshotOfHeldSamples(t *testing.T) {
	const held = 50_000
	cfg := benchConfig(8, 1)
	cfg.Reading.Lateness = held * 1e6
	h := newHeldRun(t, cfg)
	h.cycle(held)
	if h.s.Held() < held-10 {
		t.Fatalf("%d are held", h.s.Held())
	}
	sum, worst := 0, 0
	const cycles = 300
	for i := range cycles {
		h.cycle(10)
		sum, worst = sum+h.bytes, max(worst, h.bytes)
		if i%100 == 99 {
			h.restored(compact(h.log, h.log, false))
		}
	}
	t.Logf("%d held: %d bytes a cycle of 10 samples, %d at most; the largest record has %d", h.s.Held(), sum/cycles, worst, h.most)
	if sum/cycles > 16<<10 || worst > 40<<10 {
		t.Errorf("a cycle of 10 samples writes %d bytes, %d at most", sum/cycles, worst)
	}
	if h.most > MaxRecord {
		t.Errorf("a record of %d bytes", h.most)
	}
	live := 0
	for _, r := range compact(h.log, h.log, false) {
		live += len(r.key) + len(r.value)
	}
	if most := 16*held + 64<<10; live > most {
		t.Errorf("the compacted log has %d bytes, want %d at most", live, most)
	}
}

// TestHeldSegmentsAreDeleted: segments leave the log when their samples are released, and
// with their key; a rollback leaves none behind.
func TestHeldSegmentsAreDeleted(t *testing.T) {
	cfg := benchConfig(8, 1)
	cfg.Reading.Lateness, cfg.MaxRecord, cfg.MaxKeys = 500e6, 600, 1
	h := newHeldRun(t, cfg)
	segments := func() (n int) {
		for _, r := range compact(h.log, h.log, false) {
			if r.key[0] == changelog.Held {
				n++
			}
		}
		return n
	}
	for range 40 {
		h.cycle(100)
	}
	if n := segments(); n < 30 || n > 60 {
		t.Errorf("%d segments of 12 samples, of which 500 are held", n)
	}
	at, log := h.next, len(h.log)
	h.cycle(100)
	h.restored(h.log)
	again := newHeldRun(t, cfg) // another owner, whose cycle is not committed
	again.s, again.next, again.log = New(cfg), at, slices.Clone(h.log[:log])
	for _, r := range again.log {
		if err := again.s.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.s.BeginReplay(Floor{Offset: at, MaxTime: (at - 1 ^ 5 | 7) * 1e6}, at, false); err != nil {
		t.Fatal(err)
	}
	again.s.EndReplay()
	for i := range int64(70) {
		again.s.Fold(&Sample{Key: []byte("key"), Time: (at + i) * 1e6, Offset: at + i, Values: []float64{7}}, again.b)
	}
	for !again.s.Fits(again.b) {
	}
	again.s.Apply(again.b)
	again.s.Mark(at + 70)
	if err := again.s.Snapshot(at+70, 0, func(k, v []byte) error {
		again.log = append(again.log, record{bytes.Clone(k), bytes.Clone(v)}) // there, and yet undone
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := again.s.Rollback(at); err != nil {
		t.Fatal(err)
	}
	again.b.Reset()
	h.s, h.b, h.log = again.s, again.b, again.log
	h.cycle(100)
	h.restored(compact(h.log, h.log, false))
	for range 10 {
		h.cycle(100)
	}
	if n := segments(); n < 30 || n > 60 {
		t.Errorf("%d segments after a rollback", n)
	}
	h.s.Fold(&Sample{Key: []byte("other"), Time: h.next * 1e6, Offset: h.next, Values: []float64{1}}, h.b) // evicts
	h.next++
	h.cycle(0)
	for _, r := range compact(h.log, h.log, false) {
		if bytes.Contains(r.key, []byte("key")) && r.key[0] != changelog.Eviction {
			t.Errorf("record %c of an evicted key is left", r.key[0])
		}
	}
}

// TestHeldSegmentIsMissing: a head without its segments is refused, one that was written
// before is not missed.
func TestHeldSegmentIsMissing(t *testing.T) {
	cfg := benchConfig(8, 1)
	cfg.Reading.Lateness, cfg.MaxRecord = 500e6, 600
	h := newHeldRun(t, cfg)
	h.cycle(1000)
	log := compact(h.log, h.log, false)
	i := slices.IndexFunc(log, func(r record) bool { return r.key[0] == changelog.Held })
	without := slices.Delete(slices.Clone(log), i, i+1)
	if _, err := loaded(cfg, without, h.next); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(),
		"samples that it holds are missing") {
		t.Errorf("a segment is missing: %v", err)
	}
	if _, err := loaded(cfg, append(without, log[i]), h.next); err != nil {
		t.Errorf("a segment that came after its head: %v", err)
	}
	damaged := slices.Clone(log)
	damaged[i].value = slices.Clone(damaged[i].value)
	damaged[i].value[len(damaged[i].value)-1] ^= 1
	if _, err := loaded(cfg, damaged, h.next); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged segment: %v", err)
	}
	other := *cfg
	other.Dim = 2
	if _, err := loaded(&other, log, h.next); !errors.Is(err, ErrMismatch) {
		t.Errorf("other values: %v", err)
	}
	other.DropMismatched = true
	s, err := loaded(&other, log, h.next)
	if err != nil || s.Held() != 0 {
		t.Fatalf("other values, dropped: %v", err)
	}
	dropped := 0
	if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
		if k[0] == changelog.Held && v == nil {
			dropped++
		}
		return nil
	}); err != nil || dropped < 30 {
		t.Errorf("%d segments of other values are deleted, %v", dropped, err)
	}
}
