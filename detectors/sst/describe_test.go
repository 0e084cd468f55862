package sst

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestDissect: the anatomy of a score has the definition's score, and of a present that differs from the past in three
// values, one of these or beside them has the largest share, wherever they are.
func TestDissect(t *testing.T) {
	rng := seedtest.New(t)
	for range 20 {
		w := 10 + rng.IntN(20)
		p, svd := newParams(t, Params{Window: w}), SVDParams{Window: w}
		if err := svd.Defaults(); err != nil {
			t.Fatal(err)
		}
		p.A0 = Start(rng.Uint32(), w)
		x := make([]float64, p.Reads())
		for i := range x {
			x[i] = math.Sin(0.7*float64(i)) + 1e-3*rng.NormFloat64()
		}
		at := w/2 + rng.IntN(w) // in the present
		for i := range 3 {
			x[p.Gamma+at+i] += 5
		}
		a := widen(p.A0)
		exact, _ := DefineSVD(&svd, x, 1)
		scores, _ := Define(p, x, 1, widen(p.A0))
		for name, an := range map[string]Anatomy{"ikasst": Dissect(p, x, a), "svdsst": DissectSVD(&svd, x)} {
			want := exact[0]
			if name == "ikasst" {
				want = scores[0]
			}
			if an.Score != want || an.Count == 0 || an.Count > len(an.Weight) || len(an.Weight) != len(an.Strength) {
				t.Errorf("%s: %+v, the definition gives %v", name, an, want)
			}
			sum, most := 0.0, 0
			for i, v := range an.Rows {
				if sum += v; v > an.Rows[most] {
					most = i
				}
			}
			if math.Abs(sum-1) > 1e-9 || most < at-1 || most > at+3 {
				t.Errorf("%s, w %d, values %d to %d differ: value %d has the largest share of %v: %v", name, w, at, at+2, most, sum, an.Rows)
			}
		}
	}
}
