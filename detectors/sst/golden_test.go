package sst

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestGolden compares the definition and the fast form with other programs; see testdata/golden.py.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name        string
		Window      int
		Rank        int
		Krylov      int
		Gamma       int
		Steps       int
		Epsilon     float64
		Seed        uint32
		Fresh       int
		X           []float64 // in 1/1024
		LAPACK      []float64 `json:"krylov_scores"`
		Changepoynt []float64 `json:"changepoynt_scores"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := newParams(t, Params{c.Window, c.Rank, c.Krylov, c.Gamma, c.Steps, c.Epsilon, Start(c.Seed, c.Window)})
			x32 := make([]float32, len(c.X))
			for i := range c.X {
				c.X[i] /= 1024
				x32[i] = float32(c.X[i])
			}
			want, fast := widen(p.A0), append([]float32(nil), p.A0...)
			scores, _ := Define(p, c.X, c.Fresh, want)
			got := make([]float32, c.Fresh)
			new(Scorer).Score(p, got, x32, fast)
			check := func(program string, theirs []float64, tol float64) {
				for i, z := range theirs {
					if d := math.Abs(scores[i] - z); d > tol {
						t.Errorf("score %d: the definition gives %v, %s %v", i, scores[i], program, z)
					}
					if d := math.Abs(float64(got[i]) - z); d > 1e-6 {
						t.Errorf("score %d: the fast form gives %v, %s %v", i, got[i], program, z)
					}
				}
			}
			check("LAPACK", c.LAPACK, 1e-11)
			check("changepoynt", c.Changepoynt, 1e-9)
		})
	}
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
