package processor

import (
	"fmt"
	"slices"
	"time"
)

// This file compares the event times of records with the timestamps that Kafka has of them.

const (
	// enough is how many records decide about the unit, and how many about the clock.
	enough = 16
	// spacing is the least time, by Kafka, between two records that are compared for the
	// clock: records that were written at once say one thing.
	spacing = 500 * time.Millisecond
	// steady bounds how far the differences of a clock that is wrong are from each other.
	steady = time.Minute
	// least and most bound the difference of a clock that is wrong: less is a delay, and
	// more is history that was written at once. Time zones differ by up to 26 hours.
	least, most = 5 * time.Minute, 26 * time.Hour
)

// The years that event times are expected in: since 2000, and up to a day after Kafka's
// timestamp. An event time before 1990 or a year ahead is not plausible.
var (
	firstExpected  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	firstPlausible = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	day            = (24 * time.Hour).Microseconds()
)

// units are the time units in order, each a thousand of the one before.
var units = []string{"ns", "us", "ms", "s"}

// ClockComparison compares the event times of a topic or partition with Kafka's timestamps. Its
// zero value is ready. One goroutine uses it.
type ClockComparison struct {
	records int
	odd     int         // of them, those whose event time is not plausible
	fits    map[int]int // of those, how many a unit would fit that is a thousand to this power of theirs
	unit    bool        // the unit is decided

	at      int64   // timestamp of the last record that was compared for the clock
	differs []int64 // microseconds by which event times are ahead
	clock   bool    // the clock is decided
}

// Done reports whether more records change nothing.
func (c *ClockComparison) Done() bool { return c.unit && c.clock }

// Add compares a record: its event time in microseconds, and Kafka's timestamp in
// milliseconds. finding is "" or what the records added so far have shown, once for the unit
// and once for the clock, as a sentence without a full stop; fix says what helps. unit is the
// one that event times are read in (time_unit).
func (c *ClockComparison) Add(event, timestamp int64, unit string) (finding, fix string) {
	if timestamp <= 0 || c.Done() {
		return "", ""
	}
	if !c.unit {
		if c.addUnit(event, timestamp*1000); c.records == enough {
			c.unit = true
			if finding, fix = c.otherUnit(unit); finding != "" {
				c.clock = true // it says nothing in the wrong unit
				return finding, fix
			}
		}
	}
	if !c.clock && timestamp-c.at >= spacing.Milliseconds() {
		c.at = timestamp
		if c.differs = append(c.differs, event-timestamp*1000); len(c.differs) == enough {
			c.clock = true
			return c.wrongClock()
		}
	}
	return "", ""
}

func (c *ClockComparison) addUnit(event, kafka int64) {
	c.records++
	if event >= firstPlausible && event <= kafka+365*day {
		return
	}
	c.odd++
	if c.fits == nil {
		c.fits = map[int]int{}
	}
	for power := 1; power < len(units); power++ {
		scale := 1.0
		for range power {
			scale *= 1000
		}
		if t := float64(event) * scale; t >= float64(firstExpected) && t <= float64(kafka+day) {
			c.fits[power]++
		}
		if t := float64(event) / scale; t >= float64(firstExpected) && t <= float64(kafka+day) {
			c.fits[-power]++
		}
	}
}

// otherUnit reports that nearly all event times are implausible, and plausible in another
// unit.
func (c *ClockComparison) otherUnit(unit string) (finding, fix string) {
	if unit == "" || unit == "auto" {
		unit = "ms"
	}
	for power, n := range c.fits {
		to := slices.Index(units, unit) + power
		if n < enough*9/10 || to < 0 || to >= len(units) {
			continue
		}
		return fmt.Sprintf("%d of %d event times are not of our time, and fall into the years since 2000 if they are read in %s instead of %s",
				n, enough, units[to], unit),
			fmt.Sprintf("set time_unit=%s; if the schema gives the field a logical type, that decides, and the producer has to follow it",
				units[to])
	}
	return "", ""
}

// wrongClock reports that all event times differ from Kafka's timestamps by the same.
func (c *ClockComparison) wrongClock() (finding, fix string) {
	slices.Sort(c.differs)
	middle := c.differs[enough/2]
	if c.differs[enough-1]-c.differs[0] > steady.Microseconds() {
		return "", ""
	}
	by, side := time.Duration(middle)*time.Microsecond, "ahead of"
	if by < 0 {
		by, side = -by, "behind"
	}
	if by < least || by > most {
		return "", ""
	}
	return fmt.Sprintf("event times are %v %s the timestamps that Kafka has of the records, all by the same", by.Round(time.Second), side),
		"correct the producers' clock, or the time zone if they write local time"
}
