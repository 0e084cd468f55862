package limits

import "time"

// Patience bounds how long a partition waits for schemas that are not there: for
// the grace period and a quarter, and after that for a tenth of the time.
type Patience struct {
	used   time.Duration
	at     time.Time // of the last question
	offset int64     // and of the record that waited then
}

// Spent reports whether the record at offset has to be decided about now.
func (p *Patience) Spent(offset int64, grace time.Duration, now time.Time) bool {
	switch {
	case p.at.IsZero():
	case p.offset == offset:
		p.used += now.Sub(p.at)
	default:
		p.used = max(0, p.used-now.Sub(p.at)/10)
	}
	p.at, p.offset = now, offset
	return p.used >= grace+grace/4
}
