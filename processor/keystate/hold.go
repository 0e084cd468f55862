package keystate

import (
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/heldblock"
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
		saveHeldIn(s.journal.Open, k, sm.Time, sm.Offset)
	}
}

// releaseFirst folds a key's earliest held sample. due says that s.held.Due has returned the key last.
func (s *State) releaseFirst(k *Key, b *detectors.Batch, due bool) {
	if k.unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	w := k.held.At(0)
	if !s.restore.replaying {
		saveHeldOut(s.journal.Open, k, w)
	}
	time, offset := int64(w[0]), int64(w[1])
	for j := range s.scratch {
		s.scratch[j] = math.Float64frombits(w[2+j])
	}
	var empty bool
	if due {
		empty = s.held.ReleaseDue(k.held)
	} else {
		empty = s.held.Release(k.held)
	}
	if empty {
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
			if limited && !s.tasks.Fits(b) {
				return false
			}
			s.releaseFirst(k, b, false)
			if !s.restore.replaying {
				s.Early++
			}
		}
		s.held.PopOverdue()
	}
}

// emitHeld emits the blocks of held samples that have become full, and sets those that the
// key's head is to name.
func (s *State) emitHeld(c *emitter, k *Key) {
	s.setBlocks(k, s.heldOut.Blocks(s.blocks[k], k.held, k.LastTime, k.Born, func(name heldblock.Name, value []byte) {
		c.put(changelog.Held, k.Name(), value, name.First, name.Sum)
	}))
}

func (s *State) setBlocks(k *Key, blocks []heldblock.Block) {
	if len(blocks) == 0 {
		delete(s.blocks, k)
	} else {
		s.blocks[k] = blocks
	}
}

// unblock takes the samples behind offset out of their blocks, because one of that
// offset is held from now on. The next head names blocks that have it.
func (s *State) unblock(k *Key, offset int64) {
	before, rest := heldblock.Split(s.blocks[k], offset)
	if len(rest) == 0 {
		return
	}
	s.stale[k] = appendBlocks(slices.Clone(s.stale[k]), rest)
	s.setBlocks(k, before)
}

// appendBlocks appends the records of blocks to dst.
func appendBlocks(dst []staleSegment, blocks []heldblock.Block) []staleSegment {
	for i := range blocks {
		name := blocks[i].Name()
		dst = append(dst, staleSegment{changelog.Held, name.First, name.Sum})
	}
	return dst
}

// deleteBlocks deletes the blocks that the head does not name any more.
func (s *State) deleteBlocks(c *emitter, k *Key, old []heldblock.Block) {
	for i := range old {
		if name := old[i].Name(); !heldblock.Contains(s.blocks[k], name) {
			c.put(changelog.Held, k.Name(), nil, name.First, name.Sum)
		}
	}
}

// loadHeld reads the held samples of a head, with the blocks or, of a head that was written
// before there were blocks, without.
func (s *State) loadHeld(d *decoder, k *Key, blocks bool) {
	format := &s.heldOut.Format
	var l heldblock.Loaded
	if blocks {
		l = format.Read(&d.Decoder, k.LastTime, k.Born, func(name heldblock.Name) []byte {
			return s.restore.load.blocks[string(k.Name())][name]
		})
	} else {
		l = format.ReadFlat(&d.Decoder)
	}
	for _, name := range l.Foreign {
		s.stale[k] = append(s.stale[k], staleSegment{changelog.Held, name.First, name.Sum})
	}
	switch {
	case d.Bad:
	case l.Other:
		s.restore.load.mismatched(k, Mismatch{Fields: true, Window: l.Layout})
	case l.Missing:
		s.restore.load.broken[k] = broken{err: fmt.Errorf("samples that it holds are missing: %w", ErrCorrupt)}
	default:
		k.held = heldblock.List(k, s.cfg.Dim, &l)
		s.setBlocks(k, l.Blocks)
	}
}
