package kafka

import "time"

// Seen is what the answers to a source's requests say of its partition, also those
// that bring no records, and how long there has been none.
type Seen struct {
	HighWatermark, LastStable int64 // -1: nothing has been answered yet
	// Age is how long the partition has been waiting for an answer. It is 0 while it
	// is not asked for, because the chunks before are not released yet.
	Age  time.Duration
	Lost bool // Age is more than FetcherConfig.LostAfter
	// Back is when the first answer came after the broker had been lost; zero if it
	// never was.
	Back time.Time
}

// Seen may be called from any goroutine, and after Close.
func (s *Source) Seen() Seen {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	out := Seen{HighWatermark: s.seen.high, LastStable: s.seen.stable, Back: s.seen.back}
	if s.held < s.f.cfg.BufferedChunks {
		out.Age = time.Since(s.seen.since)
	}
	out.Lost = out.Age > s.f.cfg.LostAfter
	return out
}

// seen is what Seen is made of. Fetcher.mu guards it.
type seen struct {
	high, stable int64
	since        time.Time // of the last answer, or when it was to be asked for again
	back         time.Time
}

func (s *seen) answered(now time.Time, lost time.Duration, p *fetchPart) {
	if now.Sub(s.since) > lost {
		s.back = now
	}
	s.since, s.high, s.stable = now, p.highWatermark, p.stable
}

// waits begins the wait for an answer after a pause.
func (s *seen) waits(now time.Time) { s.since = now }
