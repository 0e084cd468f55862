package processor

import (
	"fmt"
	"slices"
	"time"
)

// SeriesClocks finds a series whose clock is ahead of the others of its partition: the records after one of its records
// have earlier event times, by about as much each time. Its zero value is ready. One goroutine uses it.
type SeriesClocks struct{ records []clockRecord }

// clockRecord is a record in the order of the log.
type clockRecord struct {
	series string
	time   int64 // us
}

const (
	clocksNext  = 8   // how many records of others after a record are compared with it
	clocksLeast = 3   // and how many of them at the least
	clocksMost  = 256 // records that are kept
)

// Add adds the next record of the partition: its series and its event time in microseconds.
func (c *SeriesClocks) Add(series []byte, event int64) {
	if len(c.records) < clocksMost {
		c.records = append(c.records, clockRecord{string(series), event})
	}
}

// Ahead returns the series that is furthest ahead of the others, by more than a limit in each of its records; false: none is.
func (c *SeriesClocks) Ahead(limit time.Duration) (series string, by time.Duration, ok bool) {
	leads := map[string][]int64{}
	for i, r := range c.records {
		var after []int64
		others := map[string]bool{}
		for _, o := range c.records[i+1:] {
			if o.series == r.series {
				continue
			}
			others[o.series] = true
			if after = append(after, o.time); len(after) == clocksNext {
				break
			}
		}
		if len(after) >= clocksLeast && len(others) > 1 {
			slices.Sort(after)
			leads[r.series] = append(leads[r.series], r.time-after[len(after)/2])
		}
	}
	for name, list := range leads {
		lead := time.Duration(slices.Min(list)) * time.Microsecond
		if len(list) > 1 && lead > max(limit, by) && lead < most || lead == by && ok && name < series {
			series, by, ok = name, lead, true
		}
	}
	return series, by, ok
}

// Full reports whether more records change nothing.
func (c *SeriesClocks) Full() bool { return len(c.records) == clocksMost }

// AheadText says which series is ahead, and what helps, for people.
func AheadText(series string, by time.Duration) (finding, fix string) {
	return fmt.Sprintf("the clock of series %q is about %v ahead of the others", series, by.Round(time.Second)),
		"correct the clock; with lateness by partition the others are late meanwhile, and with a silence they seem silent"
}
