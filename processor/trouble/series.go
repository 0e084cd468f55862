package trouble

import (
	"hash/maphash"
	"time"
)

// Series counts records and their series for a line of the log, of which there is one a minute at most. It
// names no series: their number distinguishes one slow clock from a setting that is too small for the topic.
type Series struct {
	Records int64
	Offset  int64 // of the last one
	series  map[uint64]struct{}
	logged  time.Time
}

// mostSeries bounds the series that are counted for a line.
const mostSeries = 1 << 14

var seriesSeed = maphash.MakeSeed()

// Add counts a record.
func (s *Series) Add(key []byte, offset int64) {
	s.Records++
	s.Offset = offset
	if s.series == nil {
		s.series = map[uint64]struct{}{}
	}
	if len(s.series) < mostSeries {
		s.series[maphash.Bytes(seriesSeed, key)] = struct{}{}
	}
}

// Len returns the number of series, 16,384 at most.
func (s *Series) Len() int { return len(s.series) }

// Due reports whether there are records, and the last line is long enough ago.
func (s *Series) Due(now time.Time) bool { return s.Records > 0 && now.Sub(s.logged) >= SummaryEvery }

// Logged begins again after a line.
func (s *Series) Logged(now time.Time) { *s = Series{logged: now} }
