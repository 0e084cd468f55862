package state

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
	"odradek/processor/state/series"
)

// TestKNNByReference: scores by a reference set are the definition's, from a series'
// first EMBED samples on, and do not depend on which tasks are of one batch.
func TestKNNByReference(t *testing.T) {
	r := seedtest.New(t)
	for _, p := range []struct {
		dim, embed, stride, k int
		step                  float64
	}{{1, 1, 1, 5, 0}, {1, 40, 1, 3, 0}, {2, 20, 3, 4, 0}, {3, 1, 5, 1, 0}, {1, 1, 1, 5, 1e9}, {2, 3, 4, 2, 1e9}} {
		ref := knn.Reference{Dim: p.dim, Embed: p.embed, Wide: p.step > 0}
		for i := range 50 * p.dim * p.embed {
			ref.Points = append(ref.Points, 1e7+r.NormFloat64()+p.step*float64(i/(25*p.dim*p.embed)))
		}
		model, err := knn.NewModel(ref)
		if err != nil {
			t.Fatal(err)
		}
		det, err := knn.NewByModel(knn.ModelParams{Model: model, K: p.k})
		if err != nil {
			t.Fatal(err)
		}
		var columns []int
		for c := range p.dim {
			columns = append(columns, c)
		}
		cfg := &Config{Dim: p.dim, Windows: []series.WindowConfig{{Columns: columns, Fingerprint: 1}},
			Detectors: []series.DetectorConfig{{Name: "knn", Detector: det, Stride: p.stride, Fingerprint: 1}}}
		if err := cfg.Check(); err != nil {
			t.Fatal(err)
		}
		samples := make([]Sample, 400)
		rows := map[string][]float64{}
		var want []float64
		for i := range samples {
			key := fmt.Sprint(i % 3)
			x := make([]float64, p.dim)
			for c := range x {
				x[c] = 1e7 + 3*r.NormFloat64() + p.step*float64(i/100%2)
			}
			rows[key] = append(rows[key], x...)
			samples[i] = Sample{Key: []byte(key), Time: int64(i), Offset: int64(i), Values: x}
			want = append(want, weightAmong(ref, rows[key], p.k))
		}
		scores := func(batch int) map[int64]float32 {
			s, e := New(cfg), detectors.NewCPU(1)
			b := e.Batch()
			for i := range samples {
				x := samples[i]
				if s.Fold(&x, b); i%batch > 0 {
					continue
				}
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				s.Apply(b)
				b.Reset()
			}
			got := map[int64]float32{}
			for _, row := range s.Rows {
				if row.State == RowScored {
					got[row.Offset] = row.Score
				}
			}
			return got
		}
		alone := scores(1)
		if least := 400 - 3*(p.embed+p.stride); len(alone) < least {
			t.Fatalf("%+v: %d scores, want %d at least", p, len(alone), least)
		}
		for offset, score := range alone {
			if w := want[offset]; !(math.Abs(float64(score)-w) <= 1e-5*w) { // rows are float32, less the origin
				t.Fatalf("%+v: the score at offset %d is %v, want %v", p, offset, score, w)
			}
		}
		for offset, score := range scores(7) {
			if alone[offset] != score {
				t.Fatalf("%+v: the score at offset %d is %v with others in its batch, %v alone", p, offset, score, alone[offset])
			}
		}
		cfg.Windows[0].Columns = append(columns, 0)
		if err := cfg.Check(); err == nil {
			t.Errorf("%+v: a model of other rows passes the check", p)
		}
	}
}

// weightAmong is the definition: the summed distances of the last point of rows to the k nearest
// of the reference set; NaN before there is a point.
func weightAmong(ref knn.Reference, rows []float64, k int) (sum float64) {
	width := ref.Dim * ref.Embed
	if len(rows) < width {
		return math.NaN()
	}
	var distances []float64
	for p := range slices.Chunk(ref.Points, width) {
		squares := 0.0
		for i, v := range rows[len(rows)-width:] {
			squares += (v - p[i]) * (v - p[i])
		}
		distances = append(distances, math.Sqrt(squares))
	}
	slices.Sort(distances)
	for _, d := range distances[:k] {
		sum += d
	}
	return sum
}
