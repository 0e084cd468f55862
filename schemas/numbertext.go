package schemas

import (
	"bytes"
	"math"
	"strconv"
)

// TextHint says how texts are read as numbers.
const TextHint = " (text_values=number reads numbers in quotes)"

// TextNumber returns the number that a text writes, in decimal, with an exponent if need be. White space around it does not
// matter. A text without anything else, and NaN, is a missing value.
func TextNumber(b []byte) (v float64, wrong Fault) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return math.NaN(), FaultNone
	}
	if bytes.ContainsAny(b, "xX_") { // Go's hexadecimal numbers
		return math.NaN(), FaultText
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case math.IsInf(v, 0): // also if out of range
		return v, FaultInfinite
	case err != nil:
		return math.NaN(), FaultText
	}
	return v, FaultNone
}

// NoNumber returns the fault of a text in the place of a value that is not read from texts.
func NoNumber(b []byte) Fault {
	if v, wrong := TextNumber(b); wrong != FaultNone || v != v {
		return FaultValueType
	}
	return FaultQuoted
}

// Text returns the number that a text writes in the place of a value of a sink, and notes what is wrong with it.
func (l *Layout) Text(b []byte, sink int32, out *Reading) float64 {
	v, wrong := TextNumber(b)
	if !l.Sinks[sink].FromText {
		v, wrong = math.NaN(), NoNumber(b)
	}
	if wrong != FaultNone {
		out.Fail(sink, wrong)
		return math.NaN()
	}
	return v
}
