package threshold

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestPublished: a fixed threshold is published as it is written, and scores are above what is published if they are above
// the threshold.
func TestPublished(t *testing.T) {
	for _, v := range []float64{2.8, 0.1, -5, 0, 3.5, 1e-6, 123456.7, 1e30} {
		if got := Published(float32(v)); got != v {
			t.Errorf("fixed:%v is published as %v", v, got)
		}
	}
	if got := Published(float32(math.Inf(1))); !math.IsInf(got, 1) {
		t.Errorf("no threshold is published as %v", got)
	}
	if got := Published(float32(math.NaN())); !math.IsNaN(got) {
		t.Errorf("NaN is published as %v", got)
	}
	rng := seedtest.New(t)
	for range 100_000 {
		v := math.Float32frombits(rng.Uint32())
		if v-v != 0 {
			continue
		}
		up := math.Nextafter32(v, float32(math.Inf(1)))
		if got := Published(v); float32(got) != v || float64(up) <= got {
			t.Fatalf("%v is published as %v", v, got)
		}
	}
}
