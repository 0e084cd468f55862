package schemas

import (
	"encoding/base64"
	"math"
	"math/big"
	"testing"
)

// decimalOf is the definition: math/big's nearest float64 of an integer in two's complement, divided by a power of ten.
func decimalOf(b []byte, scale int) float64 {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	r := new(big.Rat).SetInt(n)
	for range max(scale, -scale) {
		if scale > 0 {
			r.Quo(r, big.NewRat(10, 1))
		} else {
			r.Mul(r, big.NewRat(10, 1))
		}
	}
	f, _ := r.Float64()
	return f
}

// FuzzDecimal compares Decimal with the definition, to the bit, and DecimalText with it.
func FuzzDecimal(f *testing.F) {
	for _, b := range [][]byte{{}, {0}, {0x80}, {0xff}, {0, 0x80}, {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x20, 0, 0, 0, 0, 0, 0}, {0x20, 0, 0, 0, 0, 0, 1}, {0x80, 0, 0, 0, 0, 0, 0, 0}, {0xff, 0xdf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa}} {
		for _, scale := range []int16{0, 1, 2, 22, 23, 40, -1, -22, -23, -300, 330} {
			f.Add(b, scale)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, scale int16) {
		got, wrong := Decimal(b, int(scale))
		if len(b) > maxDecimalBytes || max(int(scale), -int(scale)) > maxDecimalScale {
			if wrong != FaultDecimal {
				t.Fatalf("% x, scale %d: fault %d", b, scale, wrong)
			}
			return
		}
		if max(scale, -scale) > 400 {
			return // slow by the definition
		}
		want := decimalOf(b, int(scale))
		if math.IsInf(want, 0) {
			if wrong != FaultInfinite {
				t.Fatalf("% x, scale %d: %v, fault %d", b, scale, got, wrong)
			}
			return
		}
		if wrong != FaultNone || math.Float64bits(got) != math.Float64bits(want) && want != 0 || got != want {
			t.Fatalf("% x, scale %d: %v, fault %d, want %v", b, scale, got, wrong, want)
		}
		if text, wrong := DecimalText([]byte(base64.StdEncoding.EncodeToString(b)), int(scale)); wrong != FaultNone ||
			text != want && len(b) > 0 || len(b) == 0 && text == text {
			t.Fatalf("% x, scale %d in base64: %v, fault %d", b, scale, text, wrong)
		}
	})
}

// TestDecimalText: what is no base64 is a fault, as is what is too long.
func TestDecimalText(t *testing.T) {
	for text, want := range map[string]Fault{"21.5": FaultBase64, "AA": FaultBase64, "A": FaultBase64, "CIQ=": FaultNone, "": FaultNone,
		base64.StdEncoding.EncodeToString(make([]byte, 256)): FaultNone, base64.StdEncoding.EncodeToString(make([]byte, 257)): FaultDecimal,
		base64.StdEncoding.EncodeToString(make([]byte, 1000)): FaultDecimal} {
		if _, wrong := DecimalText([]byte(text), 2); wrong != want {
			t.Errorf("%.20q: fault %d, want %d", text, wrong, want)
		}
	}
}
