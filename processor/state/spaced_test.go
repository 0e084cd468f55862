package state

import (
	"context"
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// TestSpaced: a detector that scores one sample of several has rows for these alone, with the scores of the definition, and an
// ensemble of it scores every sample. After cycles that were undone and after restores they are the same, to the bit.
func TestSpaced(t *testing.T) {
	r := seedtest.New(t)
	every := 2 + r.IntN(5)
	p := discord.Params{Window: 60, Length: 6, MaxLength: 9, Lengths: 2, Every: every, MinPoints: 20}
	stride := every * (1 + r.IntN(2))
	params := threshold.New(threshold.Quantile, 0.8)
	params.History, params.Warmup = 40, 5
	alarm := &anomaly.Policy{OpenAfter: 1, CloseAfter: 2, Release: 1}
	cfg := &Config{Dim: 1, MaxRecord: 320, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{
			{Name: "near", Detector: detectors.Must(simple.NewZScore(8)), Stride: 1 + r.IntN(4), Fingerprint: 1},
			{Name: "past", Detector: detectors.Must(discord.New(p)), Stride: stride, Fingerprint: 2, Smooth: 2, Threshold: &params, Events: alarm},
			{Name: "both", Stride: 1, Fingerprint: 3, Threshold: &params, Events: alarm,
				Ensemble: &series.Ensemble{Members: []int{0, 1}, Memory: 50, MinPoints: 3, Weights: []float64{1, 4}, Align: r.IntN(2) == 0}},
		}}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	const keys, n = 3, 900
	var samples []Sample
	values := map[byte][]float64{}
	for i := range n {
		key := byte('a' + i%keys)
		v := 1e6 + math.Sin(float64(i/keys)/3) + 0.2*r.NormFloat64()
		values[key] = append(values[key], v)
		samples = append(samples, Sample{Key: []byte{key}, Time: int64(i), Offset: int64(i), Values: []float64{v}})
	}
	e := detectors.NewCPU(1)
	defer e.Close()
	type place struct {
		detector int32
		offset   int64
	}
	rows := map[place][2]uint32{}
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
			s.Apply(b)
			b.Reset()
		}
		for _, row := range s.Rows {
			if row.State != RowScored {
				continue
			}
			at, got := place{row.Detector, row.Offset}, [2]uint32{math.Float32bits(row.Score), math.Float32bits(row.Judged)}
			if want, ok := rows[at]; ok && got != want {
				t.Fatalf("%+v has %v, then %v", at, want, got)
			}
			rows[at] = got
		}
		s.Rows, s.Events = s.Rows[:0], s.Events[:0]
	}
	plain := New(cfg)
	plain.Mark(0)
	fold(plain, samples)
	plain.Mark(n)
	spaced, both := 0, 0
	for at, got := range rows {
		series, i := values['a'+byte(at.offset%keys)], int(at.offset/keys)
		if at.detector == 2 {
			both++
		}
		if at.detector != 1 {
			continue
		}
		spaced++
		// The first task is due with the sample with which there are enough points and its stride is complete.
		if first := p.MinPoints + stride - 2; (i-first)%every != 0 {
			t.Fatalf("sample %d of a series has a score, one of %d from %d on should", i, every, first)
		}
		x, want := series[max(0, i+1-p.Window):i+1], 0.0
		for _, m := range []int{6, 9} {
			want += discord.LeftQuery{M: m, K: 1, At: len(x) - m}.Define(x, 1) / 2
		}
		if score := float64(math.Float32frombits(got[0])); math.Abs(score-want) > 1e-6 {
			t.Fatalf("sample %d of a series has the score %v, the definition gives %v", i, score, want)
		}
	}
	if most := n / every; spaced < most-keys*(p.MinPoints+2*stride)/every || spaced > most || both < n-keys*(p.MinPoints+8*stride) {
		t.Errorf("of %d samples %d have a score, one of %d should, and %d have one of the ensemble", n, spaced, every, both)
	}
	interrupted(t, r, plain, cfg, samples, fold, func([]byte) {})
}
