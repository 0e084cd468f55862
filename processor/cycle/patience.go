package cycle

import "time"

// Patience bounds how long a partition waits for unknown schemas: 1.25 grace periods at
// first, then a tenth of the elapsed time.
type Patience struct {
	used   time.Duration
	at     time.Time // of the last call
	offset int64     // of the record that waited then
}

// Spent reports whether the wait is over, so that the record at offset must be decided now.
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
