package schemas

import (
	"encoding/base64"
	"math"
	"math/big"
)

// Limits of a decimal.
const (
	maxDecimalBytes = 256
	maxDecimalScale = 4096
)

var powersOfTen = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// Decimal returns the float64 nearest to unscaled / 10^scale, where b is unscaled, big endian and two's complement. Where both
// parts are exact in float64 one division or multiplication rounds correctly; otherwise math/big does, which allocates.
func Decimal(b []byte, scale int) (float64, Fault) {
	if len(b) > maxDecimalBytes || scale > maxDecimalScale || scale < -maxDecimalScale {
		return math.NaN(), FaultDecimal
	}
	negative := len(b) > 0 && b[0] >= 0x80
	if len(b) <= 8 && scale < len(powersOfTen) && -scale < len(powersOfTen) {
		var v uint64
		if negative {
			v = math.MaxUint64
		}
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		if i := int64(v); i >= -1<<53 && i <= 1<<53 {
			if scale < 0 {
				return float64(i) * powersOfTen[-scale], FaultNone
			}
			return float64(i) / powersOfTen[scale], FaultNone
		}
	}
	n := new(big.Int).SetBytes(b)
	if negative {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	r := new(big.Rat).SetInt(n)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		r.SetInt(n.Mul(n, power))
	} else {
		r.SetFrac(n, power)
	}
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		return math.NaN(), FaultInfinite
	}
	return f, FaultNone
}

// DecimalText is Decimal of bytes in base64, as Kafka Connect writes them in JSON. An empty text is a missing value.
func DecimalText(text []byte, scale int) (float64, Fault) {
	var b [maxDecimalBytes + 2]byte // and the padding that Decode may write
	if base64.StdEncoding.DecodedLen(len(text)) > len(b) {
		return math.NaN(), FaultDecimal
	}
	n, err := base64.StdEncoding.Decode(b[:], text)
	switch {
	case err != nil:
		return math.NaN(), FaultBase64
	case n == 0:
		return math.NaN(), FaultNone
	}
	return Decimal(b[:n], scale)
}
