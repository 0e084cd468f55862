package processor

import (
	"log/slog"
	"time"

	"odradek/processor/state/rules"
	"odradek/processor/trouble"
)

// logLate logs the late records since its last line, if that is long enough ago. topic is
// where they were sent to.
func logLate(log *slog.Logger, l *trouble.Series, now time.Time, order *rules.Order, topic string) {
	if !l.Due(now) {
		return
	}
	why := "their series have newer samples, and the lateness is 0"
	if order.Lateness > 0 {
		newest := "the partition's newest event time"
		if order.BySeries {
			newest = "the newest event time of their series"
		}
		why = "they are further behind " + newest + " than the lateness, or older than samples of their series that were released early"
	}
	log.Warn("late records", "records", l.Records, "series", l.Len(), "last_offset", l.Offset, "sent_to", topic, "why", why)
	l.Logged(now)
}
