package why

import (
	"math"
	"testing"
)

// TestNumber: a reading has all its digits, a computed number a few.
func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 72.4: "72.4", 101325.4: "101325.4", -101319.25: "-101319.25", 1234567.5: "1234567.5", 37076111: "37076111", 0.0125: "0.0125",
		1.0 / 3: "0.333333", 2e5 / 3: "66666.7", 2e9 / 3: "6.667e+08", 2.5e-7: "2.500e-07", math.Inf(1): "+Inf", math.NaN(): "-",
	} {
		if got := number(Number(v)); got != want {
			t.Errorf("%v is written as %s, want %s", v, got, want)
		}
	}
}

func TestOneIn(t *testing.T) {
	for rank, want := range map[Number]string{
		0.25: "1 in 4", 0.0004: "1 in 2500", 2.434e-07: "1 in 4.11 million", 1e-12: "1 in 1e+03 billion",
	} {
		if got := oneIn(rank); got != want {
			t.Errorf("%v: %s, want %s", float64(rank), got, want)
		}
	}
}
