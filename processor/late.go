package processor

import (
	"hash/maphash"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/outputs"
	"odradek/processor/trouble"
)

// lateLog counts the late records of a partition for its log, which has one line
// about them a minute at most. It names no series: their number distinguishes one
// slow clock from a lateness that is too small for the topic.
type lateLog struct {
	records int64
	offset  int64 // of the last one
	series  map[uint64]struct{}
	logged  time.Time
}

// lateLogSeries bounds the series that are counted for a line.
const lateLogSeries = 1 << 14

var lateSeed = maphash.MakeSeed()

func (l *lateLog) add(key []byte, rec *record.Record) {
	l.records++
	l.offset = rec.Offset
	if l.series == nil {
		l.series = map[uint64]struct{}{}
	}
	if len(l.series) < lateLogSeries {
		l.series[maphash.Bytes(lateSeed, key)] = struct{}{}
	}
}

// logLate logs the late records since its last line, if that is long enough ago.
func (pt *partition) logLate(now time.Time) {
	l := &pt.lates
	if l.records == 0 || now.Sub(l.logged) < trouble.SummaryEvery {
		return
	}
	why := "their series have newer samples, and ODRADEK_LATENESS is 0"
	if pt.host.cfg.State.Lateness > 0 {
		why = "they are further behind the partition's newest event time than ODRADEK_LATENESS, or older than samples of their series that " +
			"ODRADEK_MAX_HELD released"
	}
	pt.log.Warn("late records", "records", l.records, "series", len(l.series), "last_offset", l.offset, "sent_to",
		pt.host.cfg.Outputs[outputs.Late], "why", why)
	*l = lateLog{logged: now}
}
