package threshold

import (
	"fmt"
	"strconv"
	"strings"
)

var kinds = [...]string{"off", "fixed", "mean", "quantile", "mad", "conformal", "per-day"}

// String returns the kind as Parse reads it.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "kind" + strconv.Itoa(int(k))
}

// Parse reads "off" or a kind and its value: fixed:3.5, mean:1.5, quantile:0.995,
// quantile:0.995*1.2 (with a margin), mad:6, conformal:0.001, per-day:2. History and warm-up
// are the defaults. The rule has been checked.
func Parse(s string) (Rule, error) {
	if s == "off" {
		return Rule{}, nil
	}
	name, value, ok := strings.Cut(s, ":")
	for k, n := range kinds {
		if n != name || k == int(Off) {
			continue
		}
		if !ok {
			return Rule{}, fmt.Errorf("threshold: %q needs a value, like %s", s, examples[k])
		}
		value, margin, times := strings.Cut(value, "*")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return Rule{}, fmt.Errorf("threshold: %q is not a number, use one like %s", value, examples[k])
		}
		r := New(Kind(k), v)
		if times {
			if r.Kind != Quantile {
				return Rule{}, fmt.Errorf("threshold: only a quantile takes a margin, not %q", s)
			}
			if r.Margin, err = strconv.ParseFloat(margin, 64); err != nil || r.Margin == 0 {
				return Rule{}, fmt.Errorf("threshold: margin %q is not a number above 0", margin)
			}
		}
		return r, r.Check()
	}
	return Rule{}, fmt.Errorf("threshold: unknown rule %q, want off, %s", s, strings.Join(examples[1:], ", "))
}

var examples = [...]string{"off", "fixed:3.5", "mean:1.5", "quantile:0.995", "mad:6", "conformal:0.001", "per-day:2"}

// String returns the rule as Parse reads it, without history and warm-up.
func (r Rule) String() string {
	if r.Kind == Off {
		return "off"
	}
	s := r.Kind.String() + ":" + strconv.FormatFloat(r.Value, 'g', -1, 64)
	if r.Kind == Quantile && r.Margin != 0 && r.Margin != 1 {
		s += "*" + strconv.FormatFloat(r.Margin, 'g', -1, 64)
	}
	return s
}
