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
// quantile:0.995*1.2 (with a margin), mad:6, conformal:0.001, conformal:0.001+2 (with a margin), per-day:2. History and warm-up
// are the defaults. The threshold has been checked.
func Parse(s string) (Params, error) {
	if s == "off" {
		return Params{}, nil
	}
	name, value, ok := strings.Cut(s, ":")
	for k, n := range kinds {
		if n != name || k == int(Off) {
			continue
		}
		if !ok {
			return Params{}, fmt.Errorf("threshold: %q needs a value, like %s", s, examples[k])
		}
		sign := "*"
		if k == int(Conformal) {
			sign = "+"
		}
		value, margin, has := strings.Cut(value, sign)
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return Params{}, fmt.Errorf("threshold: %q is not a number, use one like %s", value, examples[k])
		}
		r := New(Kind(k), v)
		if has {
			if r.Kind != Quantile && r.Kind != Conformal {
				return Params{}, fmt.Errorf("threshold: only a quantile and a conformal rate take a margin, not %q", s)
			}
			if r.Margin, err = strconv.ParseFloat(margin, 64); err != nil || r.Margin == 0 {
				return Params{}, fmt.Errorf("threshold: margin %q is not a number above 0", margin)
			}
		}
		return r, r.Check()
	}
	return Params{}, fmt.Errorf("threshold: unknown kind %q, want off, %s", s, strings.Join(examples[1:], ", "))
}

var examples = [...]string{"off", "fixed:3.5", "mean:1.5", "quantile:0.995", "mad:6", "conformal:0.001", "per-day:2"}

// String returns the threshold as Parse reads it, without history and warm-up.
func (p Params) String() string {
	if p.Kind == Off {
		return "off"
	}
	s := p.Kind.String() + ":" + strconv.FormatFloat(p.Value, 'g', -1, 64)
	switch {
	case p.Kind == Conformal && p.Margin != 0:
		s += "+" + strconv.FormatFloat(p.Margin, 'g', -1, 64)
	case p.Kind == Quantile && p.Margin != 0 && p.Margin != 1:
		s += "*" + strconv.FormatFloat(p.Margin, 'g', -1, 64)
	}
	return s
}
