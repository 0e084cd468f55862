package ops_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestWide compares the CPU forms of wide tasks, of rows of float64, with the definitions; and with narrow tasks of the same
// rows where float32 has them exactly. What describes a score and explains it follows from either.
func TestWide(t *testing.T) {
	rng := seedtest.New(t)
	for _, op := range detectors.Ops() {
		spec := op.Spec()
		if spec.Wide == nil {
			continue
		}
		compared, open := 0, 0
		for _, c := range spec.Cases(rng) {
			d := c.Detector
			model, modelled := d.(detectors.Modelled)
			if len(c.Rows) > 20_000 || c.Bench || spec.Wide(d.Params()) == detectors.NotWide {
				continue
			}
			chainRows(t, &c, func(narrow detectors.Rows) {
				wide := narrow
				wide.X, wide.X64 = nil, make([]float64, len(narrow.X))
				lost := false // the origin is so large that nothing is left of a value
				for i, v := range narrow.X {
					wide.X64[i] = float64(v)
					if modelled { // rows are relative to its origin
						origin := model.Origin()[i%len(model.Origin())]
						wide.X64[i] += origin
						lost = lost || math.Abs(float64(v)) < 1e-10*math.Abs(origin) && v != 0
					}
				}
				wide.Bins, wide.Bins64 = nil, make([]float64, len(narrow.Bins))
				for i, v := range narrow.Bins {
					wide.Bins64[i] = float64(v)
				}
				run := func(form func(r detectors.Rows)) detectors.Result {
					r := wide
					r.Scores, r.Next, r.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Next)), make(detectors.Words, len(r.Detail))
					form(r)
					return detectors.Result{Scores: r.Scores, Next: r.Next, Detail: r.Detail}
				}
				got, want := run(func(r detectors.Rows) { spec.CPU(t.Context(), &r, detectors.Sequential) }), run(spec.Score)
				if err := spec.Compare(&wide, got, want); err != nil {
					t.Errorf("%v, %s, wide: %v", op, c.Name, err)
				}
				compared++
				if word, ok := normalised[op.String()]; ok && d.Params().Bool(word) {
					return // float32 rounds normalised points
				}
				if lost {
					return
				}
				own := detectors.Result{Scores: narrow.Scores, Next: narrow.Next, Detail: narrow.Detail}
				if modelled { // the origin decides which of equally far points is the nearer
					got.Detail, own.Detail = nil, nil
				}
				switch err := spec.Compare(&wide, got, own); {
				case errors.Is(err, detectors.ErrOpen):
					open++
				case err != nil:
					t.Errorf("%v, %s, wide and narrow: %v", op, c.Name, err)
				}
				wide.Scores, wide.Next, wide.Detail = got.Scores, got.Next, got.Detail
				i := rng.IntN(len(got.Scores))
				if row := wide.Row(i); slices.ContainsFunc(narrow.X, func(v float32) bool { return v-v != 0 || v > 1e20 || v < -1e20 }) || row < 0 {
					return
				}
				if err := checkEvidence(op, &wide, i, d.(detectors.Describer).Describe(wide, i)); err != nil {
					t.Errorf("%v, %s, wide: row %d: %v", op, c.Name, i, err)
				}
			})
		}
		if compared < 20 {
			t.Errorf("%v: %d wide tasks", op, compared)
		}
		if open > compared/50 { // as in the conformance suite
			t.Errorf("%v: the definition leaves %d of %d narrow tasks open", op, open, compared)
		}
	}
}

// normalised has the word of the parameter ZNORM.
var normalised = map[string]int{"knn": 5, "lof": 3}
