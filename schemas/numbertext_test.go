package schemas

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

// TestTextNumber: a text in decimal is a number, an empty one is missing, and forms that only Go has are none.
func TestTextNumber(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		text  string
		want  float64
		wrong Fault
	}{
		{"21.5", 21.5, FaultNone}, {" -2e3\n", -2000, FaultNone}, {"+.5", 0.5, FaultNone}, {"5.", 5, FaultNone}, {"007", 7, FaultNone},
		{"1e-400", 0, FaultNone}, {"", nan, FaultNone}, {" \t", nan, FaultNone}, {"NaN", nan, FaultNone},
		{"1e400", math.Inf(1), FaultInfinite}, {"-Infinity", math.Inf(-1), FaultInfinite}, {"inf", math.Inf(1), FaultInfinite},
		{"21,5", nan, FaultText}, {"21.5 C", nan, FaultText}, {"0x10", nan, FaultText}, {"0x1p4", nan, FaultText}, {"1_000", nan, FaultText},
		{"true", nan, FaultText}, {"null", nan, FaultText}, {"-", nan, FaultText}, {"1e", nan, FaultText}, {"٣", nan, FaultText},
	} {
		got, wrong := TextNumber([]byte(c.text))
		if wrong != c.wrong || got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("%q is %v, fault %d, want %v, %d", c.text, got, wrong, c.want, c.wrong)
		}
	}
}

// FuzzTextNumber compares it with math/big, which rounds to float64 by another way.
func FuzzTextNumber(f *testing.F) {
	for _, s := range []string{"0.1", "1e23", "9007199254740993", "2.2250738585072011e-308", "4.9e-324", "1" + strings.Repeat("0", 400)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, wrong := TextNumber([]byte(text))
		if wrong != FaultNone || got != got || len(text) > 40 || strings.ContainsAny(strings.TrimSpace(text), " /") {
			return
		}
		if _, exponent, ok := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "e"); ok && len(exponent) > 5 {
			return // math/big has a limit
		}
		r, ok := new(big.Rat).SetString(strings.TrimSpace(text))
		if !ok {
			t.Fatalf("%q is %v, and no number of math/big", text, got)
		}
		if want, _ := r.Float64(); got != want {
			t.Fatalf("%q is %v, want %v", text, got, want)
		}
	})
}
