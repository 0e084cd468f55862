package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"odradek/detectors/threshold"
)

// This file has the length of a threshold's history as settings write it.

// HistoryLength is the length of a threshold's history: a number of scores, or a time that they are spread over.
type HistoryLength struct {
	scores int // 0: as many as the threshold asks for
	span   time.Duration
}

// spanScores is the number of scores that a time is spread over.
const spanScores = 2048

// UnmarshalText reads 2048, 36h, 3d, 1d12h or 3d:4096.
func (h *HistoryLength) UnmarshalText(b []byte) error {
	text, scores, two := strings.Cut(strings.TrimSpace(string(b)), ":")
	if n, err := strconv.Atoi(text); err == nil && !two {
		*h = HistoryLength{scores: n}
		return nil
	}
	span, err := parseDays(text)
	if err != nil {
		return err
	}
	n := 0
	if two {
		if n, err = strconv.Atoi(scores); err != nil {
			return err
		}
	}
	*h = HistoryLength{n, span}
	return nil
}

// parseDays reads a duration, whose whole days may come first.
func parseDays(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 100_000 {
		return 0, fmt.Errorf("%q is not a number of days", days)
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

func (h HistoryLength) String() string {
	if h.span == 0 {
		return strconv.Itoa(h.scores)
	}
	text := h.span.String()
	if days := h.span / (24 * time.Hour); days > 0 && h.span%(24*time.Hour) == 0 {
		text = strconv.Itoa(int(days)) + "d"
	}
	if h.scores > 0 {
		text += ":" + strconv.Itoa(h.scores)
	}
	return text
}

// Apply sets the history of a threshold.
func (h HistoryLength) Apply(r *threshold.Params) {
	if r.History, r.Span = h.scores, h.span.Microseconds(); h.span == 0 || h.scores > 0 {
		return
	}
	r.History = spanScores
	if r.Kind == threshold.Conformal && r.Value > 0 {
		r.History = max(spanScores, min(threshold.MaxHistory, threshold.Shows(max(r.Value, 1e-6))))
	}
}
