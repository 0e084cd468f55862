package threshold

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestSmoothing compares means with means over a slice of all scores, to the bit.
func TestSmoothing(t *testing.T) {
	r := seedtest.New(t)
	for range 30 {
		n := Smoothing(1 + r.IntN(70))
		state := make([]uint64, n.Size())
		var all []float32
		for i := range 300 {
			score := float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(12))))
			switch r.IntN(20) {
			case 0:
				score = float32(math.NaN())
			case 1:
				score = float32(math.Inf(1))
			}
			got := n.Add(state, score)
			want := score
			if n > 1 && score == score {
				all = append(all, min(score, math.MaxFloat32))
				want = float32(math.NaN())
				if len(all) >= int(n) {
					sum := 0.0
					for _, s := range all[len(all)-int(n):] {
						sum += float64(s)
					}
					want = float32(sum / float64(n))
				}
			}
			if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
				t.Fatalf("n=%d: score %d smooths to %v, want %v", n, i, got, want)
			}
			if !n.Valid(state) {
				t.Fatalf("n=%d: state %v is not valid", n, state)
			}
		}
		if n > 1 {
			for _, bad := range [][2]uint64{{0, uint64(n) + 1}, {1, uint64(n)}, {2, 1 << 40}, {2, 0x7f800000}} {
				s := slices.Clone(state)
				if s[bad[0]] = bad[1]; n.Valid(s) {
					t.Errorf("n=%d: word %d of %d is valid", n, bad[0], bad[1])
				}
			}
		}
	}
}
