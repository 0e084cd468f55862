package quality

import (
	"math"
	"testing"
)

// volumeCase returns a series that a few lines of another language make, too.
func volumeCase(seed int) (scores []float64, labels []bool) {
	const n = 400
	scores, labels = make([]float64, n), make([]bool, n)
	a := seed
	for i := range scores {
		a = (a*1103515245 + 12345) % (1 << 31)
		scores[i] = float64(a/65536%1000) / 1000
	}
	for _, s := range []Span{{0, 9}, {60, 79}, {90, 92}, {200, 200}, {380, 399}} {
		for i := s.From; i <= s.To; i++ {
			labels[i] = true
		}
	}
	for i := 62; i < 75; i++ {
		scores[i] += 0.6
	}
	scores[203] += 2
	scores[85] = 1.5
	scores[395]++
	if seed%2 == 1 { // ties
		for i := range scores {
			scores[i] = math.Floor(scores[i]*20) / 20
		}
	}
	return scores, labels
}

// TestVolumePR compares with RangeAUC_volume_opt of package vus 0.0.6.
func TestVolumePR(t *testing.T) {
	want := map[[2]int]float64{
		{1, 0}: 0.2264720994089272, {1, 1}: 0.2264720994089272, {1, 5}: 0.2464073212860515, {1, 16}: 0.33893030490771486,
		{1, 40}: 0.43238091404103773, {2, 0}: 0.2859494927948834, {2, 1}: 0.2859494927948834, {2, 5}: 0.3230433765366037,
		{2, 16}: 0.42313331592203424, {2, 40}: 0.5236453629695231,
	}
	for c, want := range want {
		scores, labels := volumeCase(c[0])
		if got, ok := VolumePR(scores, labels, c[1]); !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("seed %d, buffers up to %d: %v, vus has %v", c[0], c[1], got, want)
		}
	}
	if _, ok := VolumePR([]float64{1, 2}, []bool{true, true}, 3); ok {
		t.Error("there is a volume without an ordinary sample")
	}
}

// TestPeriod compares with find_length of package vus 0.0.6.
func TestPeriod(t *testing.T) {
	s := &Series{Dim: 2}
	for i := range 3000 {
		s.Times = append(s.Times, int64(i))
		s.Values = append(s.Values, math.Sin(float64(i)*0.21)+0.3*math.Sin(float64(i)*0.05), 5)
	}
	if p := s.Period(); p != 120 {
		t.Errorf("period %d, vus has 120", p)
	}
	line := &Series{Dim: 1}
	for i := range 100 {
		line.Times, line.Values = append(line.Times, int64(i)), append(line.Values, float64(i))
	}
	if p := line.Period(); p != 125 {
		t.Errorf("period %d of a line, vus has 125", p)
	}
}
