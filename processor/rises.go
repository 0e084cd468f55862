package processor

import (
	"log/slog"
	"time"

	"odradek/processor/metrics"
	"odradek/processor/state"
)

// riseLog limits the log about thresholds that have risen tenfold to one line a minute. It names the first of them, and how many others
// there were since the last line.
type riseLog struct {
	others int64
	logged time.Time
}

// count counts rises by detector, and logs them.
func (l *riseLog) count(rises []state.Rise, cfg *state.Config, now time.Time, to *slog.Logger) (n metrics.Tally) {
	for i := range rises {
		r := &rises[i]
		n.Add(r.Detector, 1)
		if now.Sub(l.logged) < metrics.SummaryEvery {
			l.others++
			continue
		}
		to.Info("a threshold has risen tenfold: faults that exceeded it before do not any more", "detector", r.Detector,
			"series", state.Digest(r.Key.Name()), "offset", cfg.Record(r.Offset), "from", r.From, "threshold", r.To, "others", l.others,
			"fix", "worker state list -keys -key DIGEST names the series: if its scores are higher for good, do nothing; otherwise see "+
				"\"A threshold that rises\" in docs/operations/alarms.md")
		l.others, l.logged = 0, now
	}
	return n
}
