package keystate

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"odradek/processor/events"
)

// Silence: with each sample that raises the watermark, those keys become silent
// whose newest sample, folded or held, is more than Config.Silence behind it; after
// the samples that it releases are folded, and before the sample itself. Silence
// ends with the key's next sample that is not as far behind, or with the key. It is
// an anomaly of its own, of which there are two changes, open and close; it covers
// the time from the newest sample to the watermark (open) or to the next sample
// (close); its score is that time in seconds, its threshold Config.Silence in
// seconds, and its severity 50, and 17 more for each time the threshold has
// doubled.
//
// The watermark moves with the samples of the partition only. Where none comes, no
// key becomes silent; where one key is alone, its own next sample opens and closes
// the silence at once. A key whose clock is that far behind the others' is silent
// until it has caught up.
//
// The keys that are not silent are in a heap by a time that is not later than their
// newest sample. An entry moves only when its time is that far behind, and its key
// has then had a sample since, so a sample pays for at most one move. The heap
// follows from the keys; it is built when it is first needed.

type quietKey struct {
	time int64
	key  *Key
}

// newest is the time of the key's newest sample, folded or held.
func (k *Key) newest() int64 {
	if n := k.held.len(); n > 0 {
		return max(k.lastTime, int64(k.held.at(n - 1)[0]))
	}
	return k.lastTime
}

func (k *Key) isSilent() bool { return k.alerts != nil && k.alerts.silent != nil }

// findSilent opens the silences that the watermark of the sample at offset makes
// due.
func (s *State) findSilent(offset int64) {
	if !s.quietBuilt {
		s.quiet = s.quiet[:0]
		for k := range s.keys.all {
			if !k.isSilent() {
				s.quiet = append(s.quiet, quietKey{k.newest(), k})
			}
		}
		slices.SortFunc(s.quiet, func(a, b quietKey) int { return cmp.Compare(a.time, b.time) })
		s.quietBuilt = true
	}
	wm := s.watermark()
	limit := minus(wm, s.cfg.Silence)
	var due []*Key
	for len(s.quiet) > 0 && s.quiet[0].time < limit {
		top := &s.quiet[0]
		k := top.key
		if newest := k.newest(); !k.dead && newest >= limit {
			top.time = newest
		} else {
			if !k.dead {
				due = append(due, k)
			}
			last := len(s.quiet) - 1
			s.quiet[0], s.quiet[last] = s.quiet[last], quietKey{}
			s.quiet = s.quiet[:last]
		}
		s.quietDown()
	}
	slices.SortFunc(due, byLastOffset)
	for _, k := range due {
		s.openSilence(k, wm, offset)
	}
}

// planQuiet sets the watermark at which a key may become silent, and with it the
// one of the next sweep.
func (s *State) planQuiet() {
	s.nextQuiet = math.MaxInt64
	switch {
	case s.cfg.Silence == 0 || s.replaying:
	case !s.quietBuilt:
		s.nextQuiet = NoTime
	case len(s.quiet) > 0:
		s.nextQuiet = s.quietAt(s.quiet[0].time)
	}
	s.nextSweep = min(s.nextTTL, s.nextQuiet)
}

// quietAt is the watermark at which a key of that newest sample becomes silent.
func (s *State) quietAt(newest int64) int64 {
	if at := newest + s.cfg.Silence; at >= newest && at < math.MaxInt64 {
		return at + 1
	}
	return math.MaxInt64
}

func (s *State) openSilence(k *Key, wm, offset int64) {
	if k.unit != uint32(s.unit) {
		s.touch(k)
	}
	if k.alerts == nil {
		k.alerts = newAlerts(0)
		s.bytes += k.alerts.size()
	}
	newest := k.newest()
	a := &events.Anomaly{ID: events.ID(SilenceName, k.name, s.source, wm, offset), Start: newest, OpenedAt: wm,
		Threshold: seconds(s.cfg.Silence)}
	s.silence(a, wm)
	s.cur.silent = append(s.cur.silent, nil)
	s.cur.add(opSilent, k, 0, 0)
	k.alerts.silent = a
	s.silentN++
	s.inTurn(EventRow{k, SilenceDetector, SilenceName, events.Change{Kind: events.Open, Time: wm, Offset: offset, Anomaly: *a}})
}

// silence sets what grows with the silence: until is its end as far as is known.
func (s *State) silence(a *events.Anomaly, until int64) {
	until = max(until, a.Start)
	a.Revision++
	a.End, a.PeakTime = until, until
	lasted := uint64(until) - uint64(a.Start)
	a.PeakScore = float32(float64(lasted) / 1e6)
	doublings := bits.Len64(lasted/uint64(s.cfg.Silence)) - 1
	a.Severity = uint8(min(100, 50+17*max(0, doublings)))
}

func seconds(us int64) float32 { return float32(float64(us) / 1e6) }

// heard ends the silence of a key with a sample.
func (s *State) heard(k *Key, sm *Sample) {
	if !k.isSilent() || sm.Time < minus(s.watermark(), s.cfg.Silence) {
		return
	}
	s.closeSilence(k, events.Recovered, sm.Time, sm.Offset)
	if s.quietBuilt {
		s.quietPush(k, sm.Time)
	}
}

func (s *State) closeSilence(k *Key, reason events.Reason, time, offset int64) {
	if s.cfg.Silence == 0 {
		return // an orphan
	}
	open := k.alerts.silent
	s.cur.silent = append(s.cur.silent, open)
	s.cur.add(opSilent, k, 0, 0)
	k.alerts.silent = nil
	s.silentN--
	a := *open
	s.silence(&a, time)
	s.inTurn(EventRow{k, SilenceDetector, SilenceName,
		events.Change{Kind: events.Close, Reason: reason, Time: time, Offset: offset, Anomaly: a}})
}

// quietPush puts a key that is not silent into the heap.
func (s *State) quietPush(k *Key, newest int64) {
	if s.replaying {
		return
	}
	if len(s.quiet) > 2*s.keys.n+64 { // most are of keys that are gone
		s.quietBuilt, s.nextQuiet = false, NoTime
		s.nextSweep = NoTime
		return
	}
	s.quiet = append(s.quiet, quietKey{newest, k})
	for i := len(s.quiet) - 1; i > 0; {
		p := (i - 1) / 2
		if s.quiet[p].time <= s.quiet[i].time {
			break
		}
		s.quiet[i], s.quiet[p] = s.quiet[p], s.quiet[i]
		i = p
	}
	if at := s.quietAt(newest); at < s.nextQuiet {
		s.nextQuiet = at
		s.nextSweep = min(s.nextTTL, at)
	}
}

func (s *State) quietDown() {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(s.quiet) {
			return
		}
		if c+1 < len(s.quiet) && s.quiet[c+1].time < s.quiet[c].time {
			c++
		}
		if s.quiet[i].time <= s.quiet[c].time {
			return
		}
		s.quiet[i], s.quiet[c] = s.quiet[c], s.quiet[i]
		i = c
	}
}
