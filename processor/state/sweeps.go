package state

import (
	"odradek/processor/anomaly"
)

// planSweep sets the watermark at which the next sweep is due.
func (s *State) planSweep() {
	s.Keys.evictor.Plan(s.watermark(), !s.replaying)
	s.planSilences()
}

// planSilences is plan for silences alone.
func (s *State) planSilences() {
	s.silences.watch.Plan(s.publishes())
	s.sweepAt = min(s.Keys.evictor.Next(), s.silences.watch.Next())
}

// sweep evicts keys and opens silences as the watermark of the sample at offset requires.
func (s *State) sweep(offset int64) {
	if wm := s.watermark(); wm >= s.Keys.evictor.Next() {
		s.Keys.evictor.Plan(wm, true)
		s.expire(wm, offset)
	}
	if s.publishes() {
		s.openSilences(offset)
	}
	s.planSilences()
}

// expire evicts the keys that are past their TTL at the sample at offset.
func (s *State) expire(watermark, offset int64) {
	gone := s.Keys.evictor.Expired(watermark, offset)
	grown := s.grownAt(offset)
	for _, k := range gone {
		reason := anomaly.Expired
		if k.LastOffset < grown {
			reason = anomaly.Moved
		}
		s.evict(k, offset, reason)
	}
}

// grownAt returns where the topic was last known to have grown, at a sample at offset.
func (s *State) grownAt(offset int64) int64 {
	d := s.decisions.InForce(Grown, nil, offset)
	if d == nil {
		return 0
	}
	return d.Offset
}
