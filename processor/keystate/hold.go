package keystate

import (
	"math"

	"odradek/detectors"
	"odradek/processor/keystate/reorder"
)

// hold adds a sample to its key's held ones.
func (s *State) hold(k *Key, sm *Sample) {
	if sm.Offset < s.next-1 { // an accepted suspect
		s.unblock(k, sm.Offset)
	}
	if k.held == nil {
		k.held = reorder.NewList(k, s.cfg.Dim, 0)
	}
	s.bytes -= k.held.Bytes()
	s.held.Add(k.held, sm.Time, sm.Offset, sm.Values)
	s.bytes += k.held.Bytes()
	if !s.restore.replaying {
		s.journal.cur.saveHeldIn(k, sm.Time, sm.Offset)
	}
}

// releaseFirst folds a key's earliest held sample.
func (s *State) releaseFirst(k *Key, b *detectors.Batch) {
	if k.unit != uint32(s.journal.unit) {
		s.touch(k)
	}
	w := k.held.At(0)
	if !s.restore.replaying {
		s.journal.cur.saveHeldOut(k, w)
	}
	time, offset := int64(w[0]), int64(w[1])
	for j := range s.scratch {
		s.scratch[j] = math.Float64frombits(w[2+j])
	}
	if s.held.Release(k.held) {
		s.bytes -= k.held.Bytes()
		k.held = nil
	}
	out := s.foldRow(k, time, offset, s.scratch, b)
	if !s.restore.replaying {
		s.Counts[out]++
	}
}

// releaseOverdue releases the samples whose offset is overdue. It returns false if b has
// no room for more.
func (s *State) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		k, time, ok := s.held.Overdue()
		if !ok {
			return true
		}
		for !k.dead && k.held.Len() > 0 && k.held.First() <= time {
			if limited && !s.tasks.room(b, s.need) {
				return false
			}
			s.releaseFirst(k, b)
			if !s.restore.replaying {
				s.Early++
			}
		}
		s.held.PopOverdue()
	}
}

// loadHeld reads the held samples of a head.
func (s *State) loadHeld(d *decoder, k *Key) {
	n := d.Len(2)
	if n == 0 {
		return
	}
	layout, dim := d.Bits(), d.Small()
	if d.Bad || dim < 1 || dim > maxDim || n > len(d.B)/(2+8*dim) {
		d.Fail()
		return
	}
	if layout == s.layout && dim == s.cfg.Dim {
		k.held = reorder.NewList(k, dim, n)
	} else {
		s.restore.load.mismatched(k, Mismatch{Fields: true, Window: layout})
	}
	lastTime, lastOffset := int64(minTime), int64(minTime)
	for range n {
		time, offset := d.Int(), d.Int()
		if time < lastTime || time == lastTime && offset <= lastOffset || offset < 0 {
			d.Fail()
		}
		lastTime, lastOffset = time, offset
		if k.held != nil {
			k.held.Append(time, offset)
		}
		for range dim {
			if v := d.Bits(); k.held != nil {
				k.held.Value(v)
			}
		}
	}
	if d.Bad {
		k.held = nil
	}
}
