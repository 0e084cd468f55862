package threshold

import (
	"fmt"
	"strconv"
)

// Origin says, as a phrase, where the bounds of a threshold come from; "" of Off.
func (p *Params) Origin() string {
	origin := p.origin()
	if p.Late.Close > 0 {
		origin += fmt.Sprintf("; while an anomaly is open, at most the score that %d %% exceed of those before it", int(100*lastingRate))
	}
	return origin
}

func (p *Params) origin() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	own := fmt.Sprintf("the series' own last %d scores", p.History)
	if p.Span > 0 {
		own = fmt.Sprintf("%d of the series' own scores in the last %s days", p.History, number(float64(p.Span)/86400e6))
	}
	const fitted = "; above the highest of them it is a fit of their tail"
	ceiled := fmt.Sprintf("; while clear faults are rare, at most about %d spreads above the usual bound", clearSpreads)
	switch p.Kind {
	case Fixed:
		return "the number of the settings"
	case Mean:
		return number(p.Value) + " times the mean of all earlier scores of the series"
	case Quantile:
		text := "the " + number(100*p.Value) + " % quantile of " + own
		if p.Margin > 0 && p.Margin != 1 {
			text = number(p.Margin) + " times " + text
		}
		return text
	case MAD:
		return fmt.Sprintf("the median of %s plus %s of their scaled median absolute deviations", own, number(p.Value))
	case Conformal:
		text := fmt.Sprintf("the score that %s %% exceed of %s%s", number(100*p.Value), own, fitted)
		if p.Margin != 0 {
			return text + "; at most about " + number(p.Margin) + " spreads above the usual bound"
		}
		return text + ceiled
	case PerDay:
		return fmt.Sprintf("the score that %s exceed %s times a day%s%s", own, number(p.Value), fitted, ceiled)
	}
	return ""
}
