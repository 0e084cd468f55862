package discord

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestExactAbove compares scores with the scores of the same tasks without a floor: to the bit above the floor, and not below
// them otherwise. Chains end, and begin without a carry, as after a gap.
func TestExactAbove(t *testing.T) {
	rng := seedtest.New(t)
	above, others, higher := 0, 0, 0
	for _, signal := range append(detectors.Signals(rng), randomWalk(rng), randomWalk(rng)) {
		n := 5000
		x := make([]float64, n)
		for i := range x {
			x[i] = signal.At(i, n)
		}
		p := Params{Window: 1500 + rng.IntN(1500), Length: 10 + rng.IntN(30), Every: 1 + rng.IntN(16), ExcludeFlat: rng.IntN(2) == 0}
		p.MaxLength = p.Length * (1 + rng.IntN(3))
		fresh := p.Every * (1 + rng.IntN(4))
		for len(x) > p.Window+40*fresh {
			part := x[:min(len(x), p.Window+70*fresh)]
			x = x[min(len(x), 2500):]
			var exact []detectors.Rows
			p.ExactAbove = 0
			chainOf(p, part, fresh, func(r detectors.Rows) { exact = append(exact, r) })
			p.ExactAbove = 0.5 + 0.4*rng.Float64()
			chainOf(p, part, fresh, func(r detectors.Rows) {
				want := exact[0]
				exact = exact[1:]
				f, lengths := floorOf(&r), len(r.Detail)/len(r.Scores)
				for i, s := range r.Scores {
					if f.reached(s) {
						if others++; s > want.Scores[i] {
							higher++
						}
						if s < want.Scores[i] || !f.reached(want.Scores[i]) {
							t.Fatalf("%s: %+v: score %v is below the floor %v, and the exact one %v", signal.Name, p, s, f.value, want.Scores[i])
						}
					} else if above++; math.Float32bits(s) != math.Float32bits(want.Scores[i]) ||
						!slices.Equal(r.Detail[i*lengths:(i+1)*lengths], want.Detail[i*lengths:(i+1)*lengths]) {
						t.Fatalf("%s: %+v: score %v, above the floor %v, want %v", signal.Name, p, s, f.value, want.Scores[i])
					}
					f.add(want.Scores[i])
				}
				if r.Next.Float32(0) != f.value || r.Next.Int(1) != f.count {
					t.Fatalf("%s: %+v: carry %v, want a floor of %v after %d scores", signal.Name, p, r.Next, f.value, f.count)
				}
			})
		}
	}
	t.Logf("%d scores above their floor, %d others, %d of them higher than the exact score", above, others, higher)
	if higher < others/20 {
		t.Error("hardly a search ended early")
	}
}

func TestFloor(t *testing.T) {
	rng := seedtest.New(t)
	for _, share := range []float64{0.5, 0.75, 0.9, 0.99} {
		f, above := floor{share: share}, 0
		const scores = 200000
		for i := range scores {
			s := float32(0.2 + 0.1*rng.NormFloat64()*math.Sqrt(1+float64(i)/scores))
			if !f.reached(s) {
				above++
			}
			f.add(s)
		}
		if got := float64(above) / scores; math.Abs(got-(1-share)) > 0.1*(1-share)+0.002 {
			t.Errorf("%v of the scores are above the quantile %v", got, share)
		}
	}
	f := floor{share: 0.9}
	for range 100 {
		f.add(0)
	}
	before := f
	if f.add(float32(math.NaN())); f != before || f.reached(float32(math.NaN())) {
		t.Error("a score that is NaN changes the floor, or needs not be exact")
	}
	if !f.reached(1e-4) || f.reached(0.1) {
		t.Errorf("after copies the floor is %v", f.value)
	}
	for range 200 {
		f.add(0.1)
	}
	if f.value < 0.05 {
		t.Errorf("after copies, scores of 0.1 leave the floor at %v", f.value)
	}
}
