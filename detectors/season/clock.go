package season

const (
	day  = 24 * 60 * 60 // seconds
	week = 7 * day
)

// Clock says which bin of a period an instant belongs to: by local time, so that a day whose clock
// changes keeps its hours. The hour that a change skips has no samples on that day, and the one that
// it repeats has both.
type Clock struct {
	Week bool // the period is a week, which begins on Sunday at midnight, local time; otherwise a day
	Bins int  // of a period
	// Offsets are the changes of the zone's offset from UTC: by their time, in seconds since 1970 in
	// UTC, the offset in seconds east of UTC. The first holds for all time before it, too. Without any
	// the zone is UTC.
	Offsets Table
	// Days are the dates that count as another day of the week, in days since 1970-01-01: by their
	// date, a number of which 0 is Sunday.
	Days Table
}

// Table has values by a number, in ascending order of the numbers. A row has three words: the number
// as an int64, its low word first, and the value as an int32. A task's parameters hold it as it is.
type Table []uint32

const rowWords = 3

// Append appends a row, the number of which must be larger than those before.
func (t Table) Append(number int64, value int32) Table {
	return append(t, uint32(number), uint32(number>>32), uint32(value))
}

// Len returns the number of rows.
func (t Table) Len() int { return len(t) / rowWords }

// At returns the i-th row.
func (t Table) At(i int) (number int64, value int32) {
	e := t[rowWords*i:][:rowWords]
	return int64(uint64(e[0]) | uint64(e[1])<<32), int32(e[2])
}

// after returns the number of rows up to a number, itself included.
func (t Table) after(number int64) int {
	from, to := 0, t.Len()
	for from < to {
		mid := (from + to) / 2
		if at, _ := t.At(mid); at <= number {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// Bin returns the bin of an instant, in microseconds since 1970 in UTC.
func (c *Clock) Bin(micros int64) int {
	local := floor(c.local(micros), 1_000_000)
	date := floor(local, day)
	in, period := local-date*day, int64(day)
	if c.Week {
		in += c.weekday(date) * day
		period = week
	}
	return int(in * int64(c.Bins) / period)
}

// local returns the local time of an instant in UTC, both in microseconds since 1970.
func (c *Clock) local(micros int64) int64 {
	if c.Offsets.Len() == 0 {
		return micros
	}
	_, offset := c.Offsets.At(max(0, c.Offsets.after(floor(micros, 1_000_000))-1))
	return micros + int64(offset)*1_000_000
}

// weekday returns the day of the week that a date, in days since 1970, counts as; 0 is Sunday.
func (c *Clock) weekday(date int64) int64 {
	weekday := date + 4 // 1970-01-01 was a Thursday
	if i := c.Days.after(date) - 1; i >= 0 {
		if d, w := c.Days.At(i); d == date {
			weekday = int64(w)
		}
	}
	return weekday - 7*floor(weekday, 7)
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
