package threshold

import (
	"fmt"
	"strconv"
)

// Origin says, as a phrase, where the bounds of a rule come from; "" of Off.
func (r *Rule) Origin() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	own := fmt.Sprintf("the series' own last %d scores", r.History)
	if r.Span > 0 {
		own = fmt.Sprintf("%d of the series' own scores in the last %s days", r.History, number(float64(r.Span)/86400e6))
	}
	const fitted = "; above the highest of them it is a fit of their tail"
	switch r.Kind {
	case Fixed:
		return "the number of the settings"
	case Mean:
		return number(r.Value) + " times the mean of all earlier scores of the series"
	case Quantile:
		text := "the " + number(100*r.Value) + " % quantile of " + own
		if r.Margin > 0 && r.Margin != 1 {
			text = number(r.Margin) + " times " + text
		}
		return text
	case MAD:
		return fmt.Sprintf("the median of %s plus %s of their scaled median absolute deviations", own, number(r.Value))
	case Conformal:
		return fmt.Sprintf("the score that %s %% exceed of %s%s", number(100*r.Value), own, fitted)
	case PerDay:
		return fmt.Sprintf("the score that %s exceed %s times a day%s", own, number(r.Value), fitted)
	}
	return ""
}
