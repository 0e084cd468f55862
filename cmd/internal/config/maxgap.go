package config

import (
	"fmt"
	"time"

	"odradek/processor/state/rules"
)

// maxGap returns the value of MAX_GAP as rules.Order has it.
func (s *keySettings) maxGap() (int64, error) {
	switch s.MaxGap {
	case "auto":
		return rules.OwnGap, nil
	case "none":
		return 0, nil
	}
	d, err := time.ParseDuration(s.MaxGap)
	if err != nil || d < time.Microsecond {
		return 0, fmt.Errorf("%q is neither auto, none nor a duration above 0", s.MaxGap)
	}
	return d.Microseconds(), nil
}

// maxGap checks ODRADEK_MAX_GAP.
func (ch *checker) maxGap() {
	keys := &ch.c.Keys
	gap, err := keys.maxGap()
	switch {
	case err != nil:
		ch.add("MAX_GAP", err.Error(), "write a duration like 15m, auto or none")
	case gap > 0 && gap < keys.Every.Microseconds():
		ch.add("MAX_GAP", fmt.Sprintf("%s is shorter than %sEVERY, so that a gap follows each sample", keys.MaxGap, Prefix),
			fmt.Sprintf("use at least %s", keys.Every))
	}
}
