package keystate

import (
	"math"
	"sort"

	"odradek/detectors"
)

// heldList are one key's held samples in order of time and offset, size words
// each: time, offset, the bits of the values. A nil list is empty.
type heldList struct {
	size  int
	words []uint64
	gone  int   // words of released samples at the front
	place int32 // in the heap of keys with held samples
}

func (h *heldList) len() int {
	if h == nil {
		return 0
	}
	return (len(h.words) - h.gone) / h.size
}

// at is the i-th sample.
func (h *heldList) at(i int) []uint64 {
	return h.words[h.gone+i*h.size:][:h.size:h.size]
}

// after is the number of samples whose time is not later than time.
func (h *heldList) after(time int64) int {
	n := h.len()
	if n == 0 || int64(h.at(n - 1)[0]) <= time {
		return n // in order, as most come
	}
	return sort.Search(n, func(i int) bool { return int64(h.at(i)[0]) > time })
}

// has reports whether a sample of that time is held.
func (h *heldList) has(time int64) bool {
	i := h.after(time)
	return i > 0 && int64(h.at(i - 1)[0]) == time
}

// open makes a gap of one sample before the i-th and returns it.
func (h *heldList) open(i int) []uint64 {
	if i == 0 && h.gone > 0 {
		h.gone -= h.size
		return h.at(0)
	}
	if len(h.words)+h.size > cap(h.words) && 2*h.gone >= len(h.words) {
		h.words = h.words[:copy(h.words, h.words[h.gone:])]
		h.gone = 0
	}
	n := len(h.words)
	for range h.size {
		h.words = append(h.words, 0)
	}
	from := h.gone + i*h.size
	copy(h.words[from+h.size:], h.words[from:n])
	return h.at(i)
}

// drop removes the i-th sample.
func (h *heldList) drop(i int) {
	if i == 0 {
		h.gone += h.size
		return
	}
	from := h.gone + i*h.size
	h.words = append(h.words[:from], h.words[from+h.size:]...)
}

// hold puts a sample among its key's held ones.
func (s *State) hold(k *Key, sm *Sample) {
	if sm.Offset < s.next-1 { // an accepted suspect
		s.unblock(k, sm.Offset)
	}
	s.holdBack(k, sm.Time, sm.Offset, sm.Values)
	s.heldN++
	s.arrived(k, sm.Time, sm.Offset)
	if !s.replaying {
		s.cur.saveHeldIn(k, sm.Time, sm.Offset)
	}
}

func (s *State) holdBack(k *Key, time, offset int64, values []float64) {
	if k.held == nil {
		k.held = &heldList{size: 2 + s.cfg.Dim}
	}
	was := cap(k.held.words)
	// A later offset comes after all of the same time.
	i := k.held.after(time)
	w := k.held.open(i)
	s.bytes += 8 * int64(cap(k.held.words)-was)
	w[0], w[1] = uint64(time), uint64(offset)
	for j, v := range values {
		w[2+j] = math.Float64bits(v)
	}
	if k.held.len() == 1 {
		s.heapPush(k)
	} else if i == 0 {
		s.heap[k.held.place].time, s.heap[k.held.place].offset = time, offset
		s.heapUp(int(k.held.place))
	}
}

// releaseFirst folds a key's earliest held sample.
func (s *State) releaseFirst(k *Key, b *detectors.Batch) {
	if k.unit != uint32(s.unit) {
		s.touch(k)
	}
	w := k.held.at(0)
	if !s.replaying {
		s.cur.saveHeldOut(k, w)
	}
	time, offset := int64(w[0]), int64(w[1])
	for j := range s.scratch {
		s.scratch[j] = math.Float64frombits(w[2+j])
	}
	s.heldN--
	if k.held.drop(0); k.held.len() > 0 {
		w = k.held.at(0)
		i := int(k.held.place)
		s.heap[i].time, s.heap[i].offset = int64(w[0]), int64(w[1])
		s.heapDown(i)
	} else {
		s.unheap(k)
		s.bytes -= 8 * int64(cap(k.held.words))
		k.held = nil
	}
	out := s.foldRow(k, time, offset, s.scratch, b)
	if !s.replaying {
		s.Counts[out]++
	}
}

// loadHeld reads the held samples of a head.
func (s *State) loadHeld(d *decoder, k *Key) {
	n := d.len(2)
	if n == 0 {
		return
	}
	layout, dim := d.bits(), d.small()
	if d.bad || dim < 1 || dim > maxDim || n > len(d.b)/(2+8*dim) {
		d.fail()
		return
	}
	if layout == s.layout && dim == s.cfg.Dim {
		k.held = &heldList{size: 2 + dim, words: make([]uint64, 0, n*(2+dim))}
	} else {
		s.mismatched(k, Mismatch{Fields: true, Window: layout})
	}
	lastTime, lastOffset := int64(minTime), int64(minTime)
	for range n {
		time, offset := d.int(), d.int()
		if time < lastTime || time == lastTime && offset <= lastOffset || offset < 0 {
			d.fail()
		}
		lastTime, lastOffset = time, offset
		if k.held != nil {
			k.held.words = append(k.held.words, uint64(time), uint64(offset))
		}
		for range dim {
			if v := d.bits(); k.held != nil {
				k.held.words = append(k.held.words, v)
			}
		}
	}
	if d.bad {
		k.held = nil
	}
}

// heldFirst is a key's earliest held sample, in a heap of all keys'.
type heldFirst struct {
	time, offset int64
	key          *Key
}

func (a *heldFirst) before(b *heldFirst) bool {
	return a.time < b.time || a.time == b.time && a.offset < b.offset
}

func (s *State) heapPush(k *Key) {
	w := k.held.at(0)
	s.heap = append(s.heap, heldFirst{int64(w[0]), int64(w[1]), k})
	k.held.place = int32(len(s.heap) - 1)
	s.heapUp(len(s.heap) - 1)
}

// unheap takes a key out of the heap.
func (s *State) unheap(k *Key) {
	i, last := int(k.held.place), len(s.heap)-1
	if i != last {
		s.heap[i] = s.heap[last]
		s.heap[i].key.held.place = int32(i)
	}
	s.heap[last] = heldFirst{}
	if s.heap = s.heap[:last]; i != last {
		s.heapUp(i)
		s.heapDown(i)
	}
}

func (s *State) heapUp(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !s.heap[i].before(&s.heap[p]) {
			return
		}
		s.heapSwap(i, p)
		i = p
	}
}

func (s *State) heapDown(i int) {
	for {
		c := 2*i + 1
		if c >= len(s.heap) {
			return
		}
		if c+1 < len(s.heap) && s.heap[c+1].before(&s.heap[c]) {
			c++
		}
		if !s.heap[c].before(&s.heap[i]) {
			return
		}
		s.heapSwap(i, c)
		i = c
	}
}

func (s *State) heapSwap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].key.held.place, s.heap[j].key.held.place = int32(i), int32(j)
}
