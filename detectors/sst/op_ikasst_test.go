package sst

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestIKASSTSymmetry scores series with an exact symmetry by each of the CPU's
// paths. Their eigenvalues come in pairs: what rounding leaves where Lanczos should
// end can lead it to the other of a pair. Errors have a long tail: of 20,000 tasks,
// 350 leave the tolerance of well separated eigenvalues, and 2 the tolerance of Spread.
func TestIKASSTSymmetry(t *testing.T) {
	rng := seedtest.New(t)
	const tasks = 600
	outside := 0
	for range tasks {
		half := 1 + rng.IntN(6)
		w := 2 * half * (1 + rng.IntN(3))
		if w < 4 {
			continue
		}
		d := detectors.Must(NewIKA(IKAOpParams{Window: w, Seed: rng.Uint32()}))
		fresh := []int{1, 3, 16}[rng.IntN(3)]
		r := detectors.Rows{
			Dim: 1, Fresh: fresh, Params: d.Params(), X: make([]float32, d.Window()+fresh-1),
			Scores: make([]float32, fresh), Next: make(detectors.Words, w),
		}
		phase := rng.IntN(2 * half)
		for i := range r.X {
			r.X[i] = float32((i + phase) / half % 2)
		}
		if rng.IntN(2) == 0 {
			r.Carry = make(detectors.Words, w)
			for i := range r.Carry {
				r.Carry.SetFloat32(i, float32(rng.NormFloat64()))
			}
		}
		want := detectors.Result{Scores: make([]float32, fresh), Next: make(detectors.Words, w)}
		exact := r
		exact.Scores, exact.Next = want.Scores, want.Next
		scoreIKA(exact)
		ikaCPU(t.Context(), &r, detectors.Sequential)
		if err := compareIKA(&r, detectors.Result{Scores: r.Scores, Next: r.Next}, want); err != nil {
			outside++
			t.Logf("w=%d, %d fresh, half a period of %d: %v", w, fresh, half, err)
		}
	}
	if outside > tasks/200 {
		t.Errorf("%d of %d tasks are outside of the tolerance", outside, tasks)
	}
}
