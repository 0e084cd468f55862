package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
)

// sweeps evicts the keys that are past their TTL and opens the silences of those that have fallen
// silent, when the watermark reaches position.sweepAt.
type sweeps struct {
	keys      *Keys
	silences  *silences
	at        *position
	decisions *rules.DecisionLog
}

// plan sets the watermark at which the next sweep is due.
func (s *sweeps) plan() {
	s.keys.evictor.Plan(s.at.watermark(), !s.at.replaying)
	s.planSilences()
}

// planSilences is plan for silences alone.
func (s *sweeps) planSilences() {
	s.silences.watch.Plan(s.at.publishes())
	s.at.sweepAt = min(s.keys.evictor.Next(), s.silences.watch.Next())
}

// sweep evicts keys and opens silences as the watermark of the sample at offset requires.
func (s *sweeps) sweep(offset int64) {
	if wm := s.at.watermark(); wm >= s.keys.evictor.Next() {
		s.keys.evictor.Plan(wm, true)
		s.expire(wm, offset)
	}
	if s.at.publishes() {
		s.silences.open(offset)
	}
	s.planSilences()
}

// expire evicts the keys that are past their TTL at the sample at offset.
func (s *sweeps) expire(watermark, offset int64) {
	gone := s.keys.evictor.Expired(watermark, offset)
	grown := s.grownAt(offset)
	for _, k := range gone {
		reason := anomaly.Expired
		if k.LastOffset < grown {
			reason = anomaly.Moved
		}
		s.keys.evict(k, offset, reason)
	}
}

// grownAt returns where the topic was last known to have grown, at a sample at offset.
func (s *sweeps) grownAt(offset int64) int64 {
	d := s.decisions.InForce(Grown, nil, offset)
	if d == nil {
		return 0
	}
	return d.Offset
}
