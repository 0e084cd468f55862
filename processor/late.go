package processor

import (
	"log/slog"
	"time"

	"odradek/processor/trouble"
)

// logLate logs the late records since its last line, if that is long enough ago. topic is
// where they were sent to.
func logLate(log *slog.Logger, l *trouble.Series, now time.Time, lateness int64, topic string) {
	if !l.Due(now) {
		return
	}
	why := "their series have newer samples, and the lateness is 0"
	if lateness > 0 {
		why = "they are further behind the partition's newest event time than the lateness, or older than samples of their series that " +
			"max_held released"
	}
	log.Warn("late records", "records", l.Records, "series", l.Len(), "last_offset", l.Offset, "sent_to", topic, "why", why)
	l.Logged(now)
}
