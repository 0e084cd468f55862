package registry

import (
	"errors"
	"time"
)

// AbsentError is an answer of the registry that there is no such schema. A replica
// that lags gives it about a schema that has just been registered, so it is not
// final until it was given for Config.Grace.
type AbsentError struct {
	Since time.Time // when the answer was first given
	Final bool      // and given again after the grace period
	Err   error     // is ErrUnknownSchema
}

func (e *AbsentError) Error() string { return e.Err.Error() }

func (e *AbsentError) Unwrap() error { return e.Err }

// absence is an error that is cached for a while.
type absence struct {
	err         error
	until       time.Time
	since, last time.Time // of the first and the last answer that there is no such schema
}

const (
	leastPause  = 250 * time.Millisecond // before the registry is asked again for what it did not have
	absentFor   = 10 * time.Minute       // after the last such answer, the next one counts as the first
	outagePause = 500 * time.Millisecond // how long a failed request stands for others of the same schema
	maxAbsent   = 10_000
)

// absent notes that a schema could not be fetched and returns the error to report.
// The caller holds mu.
func (c *cache) absent(name string, err error) error {
	now := time.Now()
	a := c.absents[name]
	a.err, a.until = err, now.Add(outagePause)
	if errors.Is(err, ErrUnknownSchema) {
		if a.since.IsZero() || now.Sub(a.last) > absentFor {
			a.since = now
		}
		a.last = now
		final := now.Sub(a.since) >= c.grace
		// Asked again sooner while the answer is new: most replicas lag for
		// milliseconds. And at the end of the grace period.
		pause := min(max(now.Sub(a.since), leastPause), c.negativeTTL)
		if rest := a.since.Add(c.grace).Sub(now); !final {
			pause = min(pause, rest)
		}
		a.until = now.Add(pause)
		a.err = &AbsentError{Since: a.since, Final: final, Err: err}
	}
	if len(c.absents) >= maxAbsent { // ids out of corrupt records
		for other := range c.absents {
			if delete(c.absents, other); len(c.absents) <= maxAbsent/2 {
				break
			}
		}
	}
	c.absents[name] = a
	return a.err
}
