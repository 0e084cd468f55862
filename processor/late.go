package processor

import (
	"time"

	"odradek/processor/outputs"
)

// logLate logs the late records since its last line, if that is long enough ago.
func (pt *partition) logLate(now time.Time) {
	l := &pt.lates
	if !l.Due(now) {
		return
	}
	why := "their series have newer samples, and ODRADEK_LATENESS is 0"
	if pt.host.cfg.State.Lateness > 0 {
		why = "they are further behind the partition's newest event time than ODRADEK_LATENESS, or older than samples of their series that " +
			"ODRADEK_MAX_HELD released"
	}
	pt.log.Warn("late records", "records", l.Records, "series", l.Len(), "last_offset", l.Offset, "sent_to",
		pt.host.cfg.Outputs[outputs.Late], "why", why)
	l.Logged(now)
}
