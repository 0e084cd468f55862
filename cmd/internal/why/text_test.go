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
