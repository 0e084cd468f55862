package keystate

import (
	"math"
	"math/bits"
	"slices"

	"odradek/processor/events"
	"odradek/processor/keystate/heap"
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

// silenceWatch orders the keys that are not silent, and determines when one may become silent.
type silenceWatch struct {
	after int64           // Config.Silence
	quiet heap.Heap[*Key] // the keys that are not silent
	built bool            // quiet is valid
	n     int             // keys that are silent
	next  int64           // the watermark at which a key may become so
}

// reset discards the order of the keys after they have been replaced.
func (w *silenceWatch) reset() {
	w.quiet.Reset()
	w.built, w.n = false, 0
}

// due returns the keys that the watermark makes silent, in order of their last sample.
func (w *silenceWatch) due(keys *table, watermark int64) []*Key {
	if !w.built {
		w.quiet.Reset()
		for k := range keys.all {
			if !k.isSilent() {
				w.quiet.Append(k.newest(), 0, k)
			}
		}
		w.quiet.Order()
		w.built = true
	}
	limit := minus(watermark, w.after)
	var due []*Key
	for w.quiet.Len() > 0 {
		first := w.quiet.First()
		if first.At >= limit {
			break
		}
		k := first.Value
		if newest := k.newest(); !k.dead && newest >= limit {
			w.quiet.SetFirst(newest, 0)
			continue
		}
		if w.quiet.Pop(); !k.dead {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, byLastOffset)
	return due
}

// plan sets the watermark at which a key may become silent.
func (w *silenceWatch) plan(replaying bool) {
	w.next = math.MaxInt64
	switch {
	case w.after == 0 || replaying:
	case !w.built:
		w.next = NoTime
	case w.quiet.Len() > 0:
		w.next = w.at(w.quiet.First().At)
	}
}

// at returns the watermark at which a key of that newest sample becomes silent.
func (w *silenceWatch) at(newest int64) int64 {
	if at := newest + w.after; at >= newest && at < math.MaxInt64 {
		return at + 1
	}
	return math.MaxInt64
}

// add adds a key that is not silent, and brings next forward if need be. keys is the
// number of all keys.
func (w *silenceWatch) add(k *Key, newest int64, keys int) {
	switch {
	case !w.built:
	case w.quiet.Len() > 2*keys+64: // most are of keys that are gone
		w.built, w.next = false, NoTime
	default:
		w.quiet.Push(newest, 0, k)
		w.next = min(w.next, w.at(newest))
	}
}

// measure sets the fields of an anomaly that grow with a silence; until is its latest known end.
func (w *silenceWatch) measure(a *events.Anomaly, until int64) {
	until = max(until, a.Start)
	a.Revision++
	a.End, a.PeakTime = until, until
	lasted := uint64(until) - uint64(a.Start)
	a.PeakScore = float32(float64(lasted) / 1e6)
	doublings := bits.Len64(lasted/uint64(w.after)) - 1
	a.Severity = uint8(min(100, 50+17*max(0, doublings)))
}

// newest returns the time of the key's newest sample, folded or held.
func (k *Key) newest() int64 {
	if k.held.Len() > 0 {
		return max(k.lastTime, k.held.Newest())
	}
	return k.lastTime
}

func (k *Key) isSilent() bool { return k.alerts != nil && k.alerts.silent != nil }

func (s *State) openSilence(k *Key, wm, offset int64) {
	if k.unit != uint32(s.journal.unit) {
		s.touch(k)
	}
	if k.alerts == nil {
		k.alerts = newAlerts(0)
		s.bytes += k.alerts.size()
	}
	newest := k.newest()
	a := &events.Anomaly{ID: events.ID(SilenceName, k.name, s.source, wm, offset), Start: newest, OpenedAt: wm,
		Threshold: seconds(s.cfg.Silence)}
	s.silence.measure(a, wm)
	s.journal.cur.silent = append(s.journal.cur.silent, nil)
	s.journal.cur.add(opSilent, k, 0, 0)
	k.alerts.silent = a
	s.silence.n++
	s.inTurn(EventRow{k, SilenceDetector, SilenceName, events.Change{Kind: events.Open, Time: wm, Offset: offset, Anomaly: *a}})
}

func seconds(us int64) float32 { return float32(float64(us) / 1e6) }

// heard ends the silence of a key with a sample.
func (s *State) heard(k *Key, sm *Sample) {
	if !k.isSilent() || sm.Time < minus(s.watermark(), s.cfg.Silence) {
		return
	}
	s.closeSilence(k, events.Recovered, sm.Time, sm.Offset)
	s.watch(k, sm.Time)
}

func (s *State) closeSilence(k *Key, reason events.Reason, time, offset int64) {
	if s.cfg.Silence == 0 {
		return // an orphan
	}
	open := k.alerts.silent
	s.journal.cur.silent = append(s.journal.cur.silent, open)
	s.journal.cur.add(opSilent, k, 0, 0)
	k.alerts.silent = nil
	s.silence.n--
	a := *open
	s.silence.measure(&a, time)
	s.inTurn(EventRow{k, SilenceDetector, SilenceName,
		events.Change{Kind: events.Close, Reason: reason, Time: time, Offset: offset, Anomaly: a}})
}

// watch adds a key that is not silent to the silence watch.
func (s *State) watch(k *Key, newest int64) {
	if s.restore.replaying {
		return
	}
	s.silence.add(k, newest, s.keys.n)
	s.nextSweep = min(s.evictor.next, s.silence.next)
}
