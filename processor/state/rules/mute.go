package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"odradek/processor/state/changelog"
)

// This file has the rules that keep scores above their threshold from becoming anomalies for a time: scores of a
// detector, of some series or in one direction, while a machine is maintained or a fault is known.
//
// A partition's owner decides which rules hold from an offset on. The decision contains all of
// them (decisions.go), so that a replay mutes what was muted, regardless of the rules by then.

// Limits of a list: it is one record of the changelog.
const (
	MaxMutes     = 1000
	MaxMuteText  = 256      // bytes of a pattern, or of a detector's name
	MaxMuteBytes = 64 << 10 // of an encoded list
)

// Forever is the To of a rule without an end.
const Forever = math.MaxInt64

// MuteRule mutes the scores of a detector for the series that match a pattern.
type MuteRule struct {
	Detector  string // "": all
	Keys      string // pattern of the series key, see Match; "": all
	From, To  int64  // event time in microseconds: [From, To)
	Direction Direction
}

// covers reports whether the rule is about a detector's score of a series that covers the event times
// from about to until.
func (r *MuteRule) covers(detector string, key []byte, about, until int64) bool {
	return (r.Detector == "" || r.Detector == detector) && about < r.To && until >= r.From && (r.Keys == "" || MatchKey(r.Keys, key))
}

// MuteList holds the rules in force.
type MuteList []MuteRule

// Covers reports whether any rule mutes a score that covers the event times from about to until. explained
// returns the expected and the measured values, and each field's contribution; it is called for rules with a
// direction only. A score without an explanation has neither direction.
func (l MuteList) Covers(
	detector string,
	key []byte,
	about, until int64,
	explained func() (expected, actual, contribution []float64),
) bool {
	for i := range l {
		r := &l[i]
		if !r.covers(detector, key, about, until) {
			continue
		}
		if r.Direction == BothDirections {
			return true
		}
		expected, actual, contribution := explained()
		if side := (Guard{Direction: r.Direction}); len(expected) > 0 && side.Admits(expected, actual, contribution) {
			return true
		}
	}
	return false
}

// Silences returns until when a silence of a series that the watermark would open is muted; ok is false if
// it is not. Rules with a direction mute no silence.
func (l MuteList) Silences(detector string, key []byte, watermark int64) (to int64, ok bool) {
	for i := range l {
		if r := &l[i]; r.Direction == BothDirections && r.covers(detector, key, watermark, watermark) {
			to, ok = max(to, r.To), true
		}
	}
	return to, ok
}

// Encode returns a list as the content of a decision; nil for an empty one.
func (l MuteList) Encode() []byte {
	if len(l) == 0 {
		return nil
	}
	var e changelog.Encoder
	e.Uint(uint64(len(l)))
	for i := range l {
		r := &l[i]
		e.String(r.Detector)
		e.String(r.Keys)
		e.Bits(uint64(r.From))
		e.Bits(uint64(r.To))
		e.Byte(byte(r.Direction))
	}
	return e.B
}

// DecodeMutes reads the output of Encode. The error wraps changelog.ErrCorrupt.
func DecodeMutes(content []byte) (MuteList, error) {
	if len(content) == 0 {
		return nil, nil
	}
	d := changelog.Decoder{B: content}
	n := d.Uint()
	if d.Bad || n > MaxMutes {
		return nil, changelog.ErrCorrupt
	}
	l := make(MuteList, n)
	for i := range l {
		l[i] = MuteRule{Detector: d.String(), Keys: d.String(), From: int64(d.Bits()), To: int64(d.Bits()), Direction: Direction(d.Byte())}
	}
	if d.Bad || len(d.B) > 0 {
		return nil, changelog.ErrCorrupt
	}
	return l, nil
}

// Check returns what is wrong with a rule; "" for nothing.
func (r *MuteRule) Check() string {
	switch {
	case len(r.Detector) > MaxMuteText || len(r.Keys) > MaxMuteText:
		return fmt.Sprintf("a detector or a pattern of more than %d bytes", MaxMuteText)
	case r.From >= r.To:
		return "it ends before it begins"
	case r.Direction > Below:
		return "it is on no side"
	}
	return ""
}

// Sorted returns the rules in an order of their own, each once, so that equal sets have equal encodings.
func (l MuteList) Sorted() MuteList {
	l = slices.Clone(l)
	slices.SortFunc(l, Compare)
	return slices.Compact(l)
}

// Compare orders rules.
func Compare(a, b MuteRule) int {
	for _, c := range []int{strings.Compare(a.Detector, b.Detector), strings.Compare(a.Keys, b.Keys)} {
		if c != 0 {
			return c
		}
	}
	return slices.Compare([]int64{a.From, a.To, int64(a.Direction)}, []int64{b.From, b.To, int64(b.Direction)})
}

// Selection compiles a list of patterns into a test of a key: one of them matches it, and none of those behind a ! does.
// nil takes all.
func Selection(list []string) (func(key []byte) bool, error) {
	var include, exclude []string
	for _, p := range list {
		if rest, not := strings.CutPrefix(p, "!"); not {
			if rest == "" {
				return nil, errors.New("the pattern ! excludes nothing; write it like !test-*")
			}
			exclude = append(exclude, rest)
			continue
		}
		include = append(include, p)
	}
	if len(include) == 0 {
		include = []string{"*"}
	}
	if slices.Contains(include, "*") && len(exclude) == 0 {
		return nil, nil
	}
	matches := func(patterns []string, key []byte) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return MatchKey(p, key) })
	}
	return func(key []byte) bool { return matches(include, key) && !matches(exclude, key) }, nil
}

// MatchKey reports whether a pattern matches a whole key: * any bytes, ? one byte. It goes back only to the
// last star, so its time is at most len(pattern)*len(key).
func MatchKey(pattern string, key []byte) bool {
	p, k, star, mark := 0, 0, -1, 0
	for k < len(key) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, k
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == key[k]):
			p++
			k++
		case star >= 0:
			mark++
			p, k = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
