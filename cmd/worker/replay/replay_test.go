package replay

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/cmd/worker/quality"
	"odradek/detectors"
)

// How many samples are scored together is of no account.
func TestReplayGivesTheScoresOfTheDetector(t *testing.T) {
	n := 700
	s := quality.Series{Name: "s", Dim: 2}
	rnd := rand.New(rand.NewPCG(5, 1))
	for i := range n {
		s.Times = append(s.Times, int64(i)*1e6)
		s.Values = append(s.Values, rnd.NormFloat64(), rnd.NormFloat64())
	}
	s.Values[2*600] = math.NaN()
	env := []string{"ODRADEK_DETECTORS=near", "ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=40", "ODRADEK_DETECTOR_NEAR_K=1",
		"ODRADEK_DETECTOR_NEAR_MIN_POINTS=2", "ODRADEK_DETECTOR_NEAR_EMBED=1"}
	c, err := Settings(env, 2)
	if err != nil {
		t.Fatal(err)
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	got, err := Series(context.Background(), c, exec, &s)
	if err != nil {
		t.Fatal(err)
	}
	for i, score := range got[0].Scores {
		want := math.Inf(1)
		for j := max(0, i-39); j < i; j++ {
			if d := math.Hypot(s.Values[2*i]-s.Values[2*j], s.Values[2*i+1]-s.Values[2*j+1]); d < want {
				want = d
			}
		}
		switch {
		case i < 1 || i == 600:
			if score != quality.Never {
				t.Errorf("sample %d has the score %v", i, score)
			}
		case i < 600 && math.Abs(score-want) > 1e-5*(1+want):
			t.Errorf("sample %d: got %v, want %v", i, score, want)
		}
	}
	if slices.Contains(got[0].Exceeds[:64], true) {
		t.Error("a score exceeds while the threshold warms up")
	}
}
