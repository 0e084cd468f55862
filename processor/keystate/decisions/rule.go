package decisions

import (
	"fmt"
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/keystate/changelog"
)

// RuleFormat is the first byte of EncodeRule.
const RuleFormat = 1

// EncodeRule returns the content of a decision of kind Thresholds: format, kind, value,
// margin, history, warm-up, distance of added scores, whether scores are bounded.
func EncodeRule(r *threshold.Rule) []byte {
	var e changelog.Encoder
	e.Byte(RuleFormat)
	e.Byte(byte(r.Kind))
	e.Bits(math.Float64bits(r.Value))
	e.Bits(math.Float64bits(r.Margin))
	e.Uint(uint64(r.History))
	e.Uint(uint64(r.Warmup))
	e.Uint(uint64(r.Decluster))
	e.Flag(r.Bounded)
	return e.B
}

// DecodeRule reads the output of EncodeRule. The error wraps changelog.ErrNewer or
// changelog.ErrCorrupt.
func DecodeRule(content []byte) (*threshold.Rule, error) {
	d := changelog.Decoder{B: content}
	switch v := d.Byte(); {
	case v > RuleFormat:
		return nil, fmt.Errorf("a threshold of format %d: %w", v, changelog.ErrNewer)
	case v < RuleFormat:
		return nil, changelog.ErrCorrupt
	}
	r := &threshold.Rule{
		Kind: threshold.Kind(d.Byte()), Value: math.Float64frombits(d.Bits()), Margin: math.Float64frombits(d.Bits()),
		History: d.Small(), Warmup: d.Small(), Decluster: d.Small(), Bounded: d.Byte() == 1,
	}
	if d.Bad || len(d.B) > 0 || !r.Sound() {
		return nil, changelog.ErrCorrupt
	}
	return r, nil
}
