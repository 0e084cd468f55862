package discord

import "testing"

func TestNormalised(t *testing.T) {
	for _, c := range []struct {
		distance float64
		m, k     int
		want     float64
	}{{5, 16, 1, 25.0 / 32}, {3, 10, 0, 0.45}, {12, 20, 3, 0.4}, {0, 10, 1, 0}, {8, 16, 1, 2}} {
		if got := Normalised(c.distance, c.m, c.k); got != c.want {
			t.Errorf("distance %v of %d values, k = %d: %v, want %v", c.distance, c.m, c.k, got, c.want)
		}
	}
}
