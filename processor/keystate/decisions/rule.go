package decisions

import (
	"fmt"
	"math"

	"odradek/detectors/threshold"
	"odradek/processor/keystate/changelog"
)

// RuleFormat is the first byte of EncodeRule; SpanFormat that of a rule with a span.
const (
	RuleFormat = 1
	SpanFormat = 2
)

// EncodeRule returns the content of a decision of kind Thresholds: format, kind, value,
// margin, history, warm-up, distance of added scores, whether scores are bounded, and of format 2 the span.
func EncodeRule(r *threshold.Rule) []byte {
	var e changelog.Encoder
	if r.Span == 0 {
		e.Byte(RuleFormat)
	} else {
		e.Byte(SpanFormat)
	}
	e.Byte(byte(r.Kind))
	e.Bits(math.Float64bits(r.Value))
	e.Bits(math.Float64bits(r.Margin))
	e.Uint(uint64(r.History))
	e.Uint(uint64(r.Warmup))
	e.Uint(uint64(r.Decluster))
	e.Flag(r.Bounded)
	if r.Span != 0 {
		e.Uint(uint64(r.Span))
	}
	return e.B
}

// DecodeRule reads the output of EncodeRule. The error wraps changelog.ErrNewer or
// changelog.ErrCorrupt.
func DecodeRule(content []byte) (*threshold.Rule, error) {
	d := changelog.Decoder{B: content}
	v := d.Byte()
	switch {
	case v > SpanFormat:
		return nil, fmt.Errorf("a threshold of format %d: %w", v, changelog.ErrNewer)
	case v < RuleFormat:
		return nil, changelog.ErrCorrupt
	}
	r := &threshold.Rule{
		Kind: threshold.Kind(d.Byte()), Value: math.Float64frombits(d.Bits()), Margin: math.Float64frombits(d.Bits()),
		History: d.Small(), Warmup: d.Small(), Decluster: d.Small(), Bounded: d.Byte() == 1,
	}
	if v == SpanFormat {
		r.Span = int64(d.Uint())
	}
	if d.Bad || v == SpanFormat && r.Span == 0 || len(d.B) > 0 || !r.Sound() {
		return nil, changelog.ErrCorrupt
	}
	return r, nil
}
