package state

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// TestMinedModels: models that series carry are the same, to the bit, after cycles that were
// undone and after restores from a changelog whose heads are in fragments.
func TestMinedModels(t *testing.T) {
	p := knn.SolvingSetParams{Window: 40, K: 2, Embed: 3, Top: 2, ModelPoints: 20}
	t.Run("by samples", func(t *testing.T) {
		p := p
		p.MineEvery = 17
		testMinedModels(t, p)
	})
	t.Run("by event time", func(t *testing.T) {
		p := p
		p.MineInterval, p.MaxAge, p.MinPoints = 50, 90, 5
		testMinedModels(t, p)
	})
}

func testMinedModels(t *testing.T, p knn.SolvingSetParams) {
	r := seedtest.New(t)
	det := detectors.Must(knn.NewSolvingSet(p))
	cfg := &Config{Dim: 1, MaxRecord: 320, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "set", Detector: det, Stride: 1 + r.IntN(3), Fingerprint: 1}}}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	var samples []Sample
	for i := range 600 {
		x := []float64{1e6 + r.NormFloat64()}
		samples = append(samples, Sample{Key: []byte{'a' + byte(i%3)}, Time: int64(i), Offset: int64(i), Values: x})
	}
	e := detectors.NewCPU(1)
	defer e.Close()
	scores := map[int64]float32{}
	// fold folds samples, a few tasks a batch, and compares scores with the scores of the first time.
	fold := func(s *State, part []Sample) {
		b := e.Batch()
		defer e.Release(b)
		for i := range part {
			if s.Fold(&part[i], b); i < len(part)-1 && r.IntN(8) > 0 {
				continue
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Tasks {
				r := b.Rows(i)
				if p.MineInterval == 0 || len(r.Carry) == 0 {
					continue
				}
				at := func(row int) int64 { return int64(r.X64[row*r.Dim]) / p.MineInterval }
				passed := at(r.Len()-1) > at(r.Len()-1-r.Fresh)
				if mines := r.Len() > p.Embed+r.Fresh-1; mines != passed {
					t.Fatalf("a task of %d rows, although a multiple of the interval was passed: %v", r.Len(), passed)
				}
			}
			s.Apply(b)
			b.Reset()
		}
		for _, row := range s.Rows {
			if row.State != RowScored {
				continue
			}
			want, ok := scores[row.Offset]
			if scores[row.Offset] = row.Score; ok && row.Score != want {
				t.Fatalf("offset %d has score %v, then %v", row.Offset, want, row.Score)
			}
		}
		s.Rows = s.Rows[:0]
	}
	plain := New(cfg)
	plain.Mark(0)
	fold(plain, samples)
	if plain.Mark(600); len(scores) < 400 {
		t.Fatalf("%d scores", len(scores))
	}

	fragments := 0
	interrupted(t, r, plain, cfg, samples, fold, func(key []byte) {
		if key[0] == changelog.Fragment {
			fragments++
		}
	})
	if fragments == 0 {
		t.Error("no head is in fragments")
	}
}

// interrupted folds samples in cycles, of which it undoes some, and now and then goes on with a state that is restored from the
// changelog. In the end the state must equal plain's, to which nothing happened. saw gets the key of each record of the
// changelog.
func interrupted(
	t *testing.T, r *rand.Rand, plain *State, cfg *Config, samples []Sample, fold func(*State, []Sample), saw func(key []byte),
) {
	t.Helper()
	var log []record
	undone, restored := 0, 0
	s, at := New(cfg), 0
	s.Mark(0)
	for at < len(samples) {
		next := min(at+1+r.IntN(30), len(samples))
		if fold(s, samples[at:next]); r.IntN(4) == 0 {
			undone++
			if err := s.Rollback(int64(at)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s.Mark(int64(next))
		if err := s.Snapshot(int64(next-r.IntN(60)), 0, func(k, v []byte) error {
			saw(k)
			log = append(log, record{slices.Clone(k), slices.Clone(v)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s.Committed(int64(next))
		if at = next; r.IntN(4) > 0 {
			continue
		}
		restored++
		f := s.Floor()
		s = New(cfg)
		for _, r := range log {
			if err := s.Load(r.key, r.value); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.BeginReplay(f, int64(at), false); err != nil {
			t.Fatal(err)
		}
		fold(s, samples[f.Offset:at])
		s.EndReplay()
	}
	if !bytes.Equal(s.Export(nil), plain.Export(nil)) {
		t.Error("the state is another than after a run without a break")
	}
	if undone == 0 || restored == 0 {
		t.Errorf("%d undone, %d restored", undone, restored)
	}
}
