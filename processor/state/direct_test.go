package state

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/season"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/processor/state/series"
)

// handOver has an executor score the tasks of all detectors of a State.
func handOver(s *State) {
	for i := range s.tasks.packer.detectors {
		d := &s.tasks.packer.detectors[i]
		if d.direct != nil {
			d.direct, d.plain, d.inPlace, d.linked = nil, nil, false, d.Most.Carry > 0
		}
	}
	s.tasks.most = s.tasks.packer.need()
}

// directConfig has detectors of ops that are scored directly, and perhaps one that is not.
func directConfig(r *rand.Rand) *Config {
	cfg := &Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 100}}}
	cfg.Reading.Hold = r.IntN(2) == 0
	dets := []detectors.Detector{
		detectors.Must(simple.NewZScore(3 + r.IntN(40))), detectors.Must(simple.NewZScore(3 + r.IntN(40))),
		detectors.Must(simple.NewFlatline(1)), detectors.Must(simple.NewValue(1+r.IntN(3), false)),
		detectors.Must(season.NewBand(season.BandParams{Rate: 0.05})), detectors.Must(season.New(season.OpParams{Bins: 3, Memory: 10})),
		detectors.Must(knn.New(knn.Params{Window: 20, K: 3})),
	}
	r.Shuffle(len(dets), func(i, j int) { dets[i], dets[j] = dets[j], dets[i] })
	for i, d := range dets[:1+r.IntN(len(dets))] {
		c := series.DetectorConfig{Name: fmt.Sprint("d", i), Detector: d, Stride: []int{1, 1, 3, 16}[r.IntN(4)], Fingerprint: uint64(i)}
		if r.IntN(2) == 0 {
			randomAlerts(r, &c)
		}
		cfg.Detectors = append(cfg.Detectors, c)
	}
	if n := len(cfg.Detectors); n > 1 && r.IntN(2) == 0 {
		e := series.DetectorConfig{Name: "e", Fingerprint: 99, Ensemble: &series.Ensemble{Members: []int{0, 1}, MinPoints: 2, Memory: 20}}
		randomAlerts(r, &e)
		cfg.Detectors = append(cfg.Detectors, e)
	}
	return cfg
}

// TestDirect: rows, anomalies and state are those that an executor's scores lead to, regardless of where the batches are cut and of
// what is rolled back. Values fall into three levels, so that runs are long, and some are missing.
func TestDirect(t *testing.T) {
	r := seedtest.New(t)
	e := detectors.NewCPU(1)
	defer e.Close()
	plain, inPlace, waited := 0, 0, 0
	for range 60 {
		cfg := directConfig(r)
		if cfg.Check() != nil {
			continue
		}
		log := randomLog(r, cfg, 1500)
		for i := range log {
			if v := log[i].Values; v[0] == v[0] {
				v[0] = 1e6 + math.Round(r.NormFloat64())
			}
			log[i].Time *= 1e9
		}
		fold := func(s *State, cut, undo int, seed uint64) (rows []flat, events []flatEvent) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := e.Batch()
			defer e.Release(b)
			flush := func() {
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				s.Apply(b)
				b.Reset()
			}
			mark, last := 0, 0
			s.Mark(log[0].Offset)
			for i := 0; i < len(log); i++ {
				for !s.Fits(b) {
					flush()
				}
				if before := len(s.tasks.pending); before > 0 {
					waited++
				}
				s.Fold(&log[i], b)
				if rng.IntN(cut) == 0 {
					flush()
				}
				if i-last < 100 && i < len(log)-1 {
					continue
				}
				last = i
				flush()
				if undo > 0 && rng.IntN(undo) == 0 {
					s.Rows, s.Events = s.Rows[:0], s.Events[:0]
					if err := s.Rollback(log[mark].Offset); err != nil {
						t.Fatal(err)
					}
					i, last = mark-1, mark-1
					continue
				}
				next := log[i].Offset + 1
				if i+1 < len(log) {
					next = log[i+1].Offset
				}
				rows, events = append(rows, flatten(s.Rows)...), append(events, flattenEvents(s.Events)...)
				s.Rows, s.Events, mark = s.Rows[:0], s.Events[:0], min(i+1, len(log)-1)
				s.Mark(next)
				if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error { return nil }); err != nil {
					t.Fatal(err)
				}
				s.Committed(next)
			}
			return rows, events
		}
		want := New(cfg)
		handOver(want)
		rows, events := fold(want, 50, 0, 1)
		for i := range want.tasks.packer.detectors {
			if want.tasks.packer.detectors[i].direct != nil {
				t.Fatal("a task is not handed over")
			}
		}
		s := New(cfg)
		for i := range s.tasks.packer.detectors {
			if d := &s.tasks.packer.detectors[i]; d.Setup != nil {
				plain, inPlace = plain+number(d.plain != nil), inPlace+number(d.inPlace)
			}
		}
		got, others := fold(s, 1+r.IntN(200), 3, r.Uint64())
		if !slices.Equal(got, rows) {
			for i := range min(len(got), len(rows)) {
				if got[i] != rows[i] {
					t.Fatalf("row %d of %d is %+v, want %+v", i, len(rows), got[i], rows[i])
				}
			}
			t.Fatalf("%d rows, want %d", len(got), len(rows))
		}
		if !slices.Equal(others, events) {
			t.Fatalf("%d changes of anomalies, want %d, or others", len(others), len(events))
		}
		if !bytes.Equal(s.Export(nil), want.Export(nil)) {
			t.Fatal("another state")
		}
	}
	if plain == 0 || inPlace == 0 || waited == 0 {
		t.Errorf("%d plain detectors, %d in place, %d tasks waited", plain, inPlace, waited)
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
