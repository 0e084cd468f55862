package processor

import (
	"hash/maphash"
	"log/slog"
	"time"

	"odradek/processor/metrics"
	"odradek/processor/state/rules"
)

// lateLog counts late records and their series for a line of the log, of which there is one a minute at most. It
// names no series: their number distinguishes one slow clock from a setting that is too small for the topic.
type lateLog struct {
	records int64
	offset  int64 // of the last one
	series  map[uint64]struct{}
	logged  time.Time
}

// mostSeries bounds the series that are counted for a line.
const mostSeries = 1 << 14

var seriesSeed = maphash.MakeSeed()

// add counts a record.
func (l *lateLog) add(key []byte, offset int64) {
	l.records++
	l.offset = offset
	if l.series == nil {
		l.series = map[uint64]struct{}{}
	}
	if len(l.series) < mostSeries {
		l.series[maphash.Bytes(seriesSeed, key)] = struct{}{}
	}
}

// due reports whether there are records, and the last line is long enough ago.
func (l *lateLog) due(now time.Time) bool {
	return l.records > 0 && now.Sub(l.logged) >= metrics.SummaryEvery
}

// logLate logs the late records since its last line, if that is long enough ago. topic is
// where they were sent to.
func logLate(log *slog.Logger, l *lateLog, now time.Time, order *rules.Order, topic string) {
	if !l.due(now) {
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
	log.Warn("late records", "records", l.records, "series", len(l.series), "last_offset", l.offset, "sent_to", topic, "why", why)
	*l = lateLog{logged: now}
}
