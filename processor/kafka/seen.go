package kafka

import "time"

// FetchSeen is what the responses to a source's requests say about its partition, also those
// without records, and how long ago the last one was.
type FetchSeen struct {
	HighWatermark, LastStable int64 // -1: there is no response yet
	// Age is how long the partition has been waiting for a response. It is 0 while the
	// partition is paused, because the chunks before are not released yet.
	Age  time.Duration
	Lost bool // Age is more than FetchConfig.LostAfter
	// Back is when the first response came after the broker had been lost; zero if the
	// broker never was.
	Back time.Time
}

// Seen may be called from any goroutine, and after Close.
func (s *FetchSource) Seen() FetchSeen {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	out := FetchSeen{HighWatermark: s.seen.high, LastStable: s.seen.stable, Back: s.seen.back}
	if s.held < s.f.cfg.BufferedChunks {
		out.Age = time.Since(s.seen.since)
	}
	out.Lost = out.Age > s.f.cfg.LostAfter
	return out
}

// seen is what Seen is made of. Fetcher.mu guards it.
type seen struct {
	high, stable int64
	since        time.Time // when the last response came, or the last pause ended
	back         time.Time
}

func (s *seen) answered(now time.Time, lost time.Duration, p *fetchedPartition) {
	if now.Sub(s.since) > lost {
		s.back = now
	}
	s.since, s.high, s.stable = now, p.highWatermark, p.stable
}
