package detectors

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestScales requires that a multiple of a field has that multiple of its scale, to the bit for a power
// of two, so that packed rows have the same bits, and that a field that does not move has the scale 1.
func TestScales(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		const dim = 4
		n := 20 + rng.IntN(300)
		from, more := rng.IntN(5), rng.IntN(5)
		rows := from + n + more
		unit := math.Ldexp(1, rng.IntN(60)-30)
		x, scaled := make([]uint64, rows*dim), make([]uint64, rows*dim)
		for i := range rows {
			v := [dim]float64{rng.NormFloat64(), 7 + 3*rng.NormFloat64(), 0, 5}
			v[2] = v[0] * 1e9
			if rng.IntN(10) == 0 {
				v[1] = 7 + 30*rng.NormFloat64()
			}
			for c := range dim {
				x[i*dim+c], scaled[i*dim+c] = math.Float64bits(v[c]), math.Float64bits(v[c]*unit)
			}
		}
		cut := rng.IntN(rows+1) * dim
		s := Scales([]float64{-1}, x[:cut], x[cut:], dim, from, n)
		if s[0] != -1 || s[4] != 1 {
			t.Fatalf("scales %v", s)
		}
		s = s[1:]
		low, high := math.Inf(1), math.Inf(-1)
		for i := from; i < from+n; i++ {
			low, high = min(low, math.Float64frombits(x[i*dim])), max(high, math.Float64frombits(x[i*dim]))
		}
		if s[0] != high-low {
			t.Fatalf("scale %v of values from %v to %v", s[0], low, high)
		}
		if math.Abs(s[2]/s[0]/1e9-1) > 1e-9 {
			t.Fatalf("a billion times as much has a scale of %v times", s[2]/s[0])
		}
		other := Scales(nil, scaled, nil, dim, from, n)
		for c := range 3 {
			if other[c] != s[c]*unit {
				t.Fatalf("scale %v of a field of scale %v times %v", other[c], s[c], unit)
			}
		}
		centers, _ := Centers(nil, x, nil, 3, 0, 1)
		one, two := make([]float32, rows*dim), make([]float32, rows*dim)
		centers = append(centers, 0)
		for c := range centers {
			centers[c] = math.Float64frombits(x[c])
		}
		moved := slices.Clone(centers)
		for c := range moved {
			moved[c] *= unit
		}
		other[3] = unit // it has no scale
		PackScaled(one, x[:cut], x[cut:], centers, s)
		PackScaled(two, scaled, nil, moved, other)
		for i := range one {
			want := float32((math.Float64frombits(x[i]) - centers[i%dim]) / s[i%dim])
			if one[i] != want || two[i] != want {
				t.Fatalf("number %d is %v and %v, want %v", i, one[i], two[i], want)
			}
		}
	}
}
