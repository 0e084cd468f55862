package state

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// heapOf returns what is live in the heap.
func heapOf() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A changelog that holds more than there is room for is restored within a limit: the
// keys that were used last, whole, and of the others just their evictions, which are
// made once, undone and made again by a rollback, and close what is open.
func TestRestoreWithinLimit(t *testing.T) {
	z, err := simple.NewZScore(20)
	if err != nil {
		t.Fatal(err)
	}
	params, err := threshold.Parse("fixed:3")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Dim: 1, MaxRecord: 400, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "z", Detector: z, Stride: 1, Fingerprint: 2, Threshold: &params,
			Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 100, Release: 1}}}}
	exec := detectors.NewCPU(1)
	b := exec.Batch()
	flush := func(s *State) {
		if err := exec.Execute(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
	}
	name := func(i int) []byte { return fmt.Appendf(nil, "device-%020d", i) }
	var log []record
	emit := func(key, value []byte) error {
		log = append(log, record{bytes.Clone(key), bytes.Clone(value)})
		return nil
	}
	const keys, samples = 2000, 60
	input := make([]Sample, 0, keys*samples)
	for n := range samples {
		for i := range keys {
			v := float64((i + n) % 7)
			if i < keys/2 && n >= samples*2/3 {
				continue // not heard of any more
			}
			if i%10 == 0 && n == samples/2 {
				v = 1000 // an anomaly that stays open
			}
			input = append(input, Sample{Key: name(i), Time: int64(len(input)), Offset: int64(len(input)), Values: []float64{v}})
		}
	}
	fold := func(s *State, from, to int) {
		for i := from; i < to; i++ {
			for !s.Fits(b) {
				flush(s)
			}
			s.Fold(&input[i], b)
		}
		for !s.Fits(b) {
			flush(s)
		}
		flush(s)
	}
	s := New(cfg)
	s.Mark(0)
	step := len(input) / 6
	for at := step; at <= len(input); at += step {
		fold(s, at-step, at)
		s.Mark(int64(at))
		most := 0
		if at == len(input) {
			most = 20_000 // the rest is replayed
		}
		if err := s.Snapshot(int64(at), most, emit); err != nil {
			t.Fatal(err)
		}
		s.Committed(int64(at))
	}
	floor, committed, whole := s.Floor(), int64(len(input)), s.Bytes()
	if floor.Offset >= committed {
		t.Fatal("nothing is replayed")
	}
	open := s.Keys.OpenAnomalies()["z"]
	s = nil //nolint:wastedassign // for the collector

	limit := whole / 4
	before := heapOf()
	v := NewSurvey(cfg)
	for _, r := range log {
		v.Add(r.key, r.value)
	}
	if used := heapOf() - before; used > keys*200 {
		t.Errorf("the survey takes %d bytes for %d keys", used, keys)
	}
	keep, drop := v.Cut(limit)
	restore := func(v *Survey) (s *State, peak int64) {
		s = New(cfg)
		if v != nil {
			s.Restore.DropLoaded(v)
		}
		for _, r := range log {
			if err := s.Load(r.key, r.value); err != nil {
				t.Fatal(err)
			}
			peak = max(peak, s.LoadingBytes())
		}
		if err := s.BeginReplay(floor, committed, false); err != nil {
			t.Fatal(err)
		}
		fold(s, int(floor.Offset), int(committed))
		s.EndReplay()
		s.Mark(committed)
		s.Committed(committed)
		return s, max(peak, s.Bytes())
	}
	before = heapOf()
	s, peak := restore(v)
	heap := heapOf() - before
	t.Logf("%d anomalies open; %d of %d keys stay; %d bytes whole, limit %d, at most %d by account, %d in the heap", open, keep, keep+drop,
		whole, limit, peak, heap)
	if keep+drop != keys || keep < keys/8 || drop != s.Restore.Dropped() {
		t.Errorf("%d stay, %d go, %d were dropped", keep, drop, s.Restore.Dropped())
	}
	// A dropped key costs about 400 bytes until its eviction is committed.
	if room := limit + int64(drop)*450; peak > room || heap > room*3/2 {
		t.Errorf("at most %d bytes by account and %d in the heap, limit %d", peak, heap, limit)
	}
	if n := s.Keys.OpenAnomalies()["z"]; n != open {
		t.Errorf("%d anomalies are open after the restore, %d were before", n, open)
	}

	// Shed, taken back, shed again: one eviction each.
	next := input[:0:0]
	next = append(next, Sample{Key: name(keys), Time: committed, Offset: committed, Values: []float64{1}})
	input = append(input, next...)
	var first []flatEvent
	for i := range 2 {
		if n := s.Shed(committed); n != drop {
			t.Fatalf("round %d: %d are evicted", i, n)
		}
		fold(s, int(committed), int(committed)+1)
		events := flattenEvents(s.Events)
		if i == 0 {
			if first = events; len(first) == 0 || first[0].reason != anomaly.Evicted {
				t.Fatalf("%d changes of anomalies, %+v", len(first), first)
			}
			if err := s.Rollback(committed); err != nil || s.Restore.Dropped() != drop {
				t.Fatal(err, s.Restore.Dropped())
			}
			continue
		}
		compareEvents(t, events, first)
	}
	if n := s.Keys.OpenAnomalies()["z"]; n+int64(len(first)) != open || s.Keys.Len() != keep+1 {
		t.Errorf("%d anomalies and %d keys are left; %d closed of %d", n, s.Keys.Len(), len(first), open)
	}
	s.Mark(committed + 1)
	was := len(log)
	if err := s.Snapshot(0, 0, emit); err != nil {
		t.Fatal(err)
	}
	evictions := 0
	for _, r := range log[was:] {
		if r.key[0] == changelog.Eviction && r.value != nil {
			evictions++
		}
	}
	if evictions != drop {
		t.Errorf("%d evictions are logged for %d keys", evictions, drop)
	}
	floor, committed = s.Floor(), committed+1
	s.Committed(committed)
	if s.Restore.Dropped() != 0 || s.Restore.dropped != nil {
		t.Error("dropped keys are remembered after their evictions are committed")
	}
	want := s.Export(nil)
	again, peak := restore(nil)
	if got := again.Export(nil); !bytes.Equal(got, want) {
		t.Errorf("the second restore gives %d bytes of state, the first %d", len(got), len(want))
	}
	if len(log) == was || again.Restore.Dropped() != 0 {
		t.Error("keys are dropped again")
	}
	_ = peak
}
