package detectors

import "errors"

// ErrForgotten is that an executor does not have windows any more that a batch's
// Runs count on: its device was lost. The batch has to be packed anew, without its
// shelves.
var ErrForgotten = errors.New("windows that the executor kept are gone: pack the batch again, with all of their rows")

// Keeper is an Executor that can keep windows between batches, near where it
// computes, so that a task brings no more than its fresh rows.
type Keeper interface {
	Executor
	// Keep is what the executor keeps for one goroutine and its batches; nil for
	// nothing at all.
	Keep() *Keep
}

// Keep is the windows of one goroutine that an executor keeps, on shelves.
type Keep struct {
	find    func() KeepMemory
	takes   func(d Detector, dim, fresh int) bool
	memory  KeepMemory
	shelves []*Shelf
}

// KeepMemory is memory for windows, which may get lost.
type KeepMemory interface {
	// Extend gives room for n windows of so many bytes, the first at an address;
	// n is 0 where there is no more.
	Extend(bytes int) (first uint64, n int)
	// Release gives all back that Extend gave.
	Release()
	// Gone reports whether the memory is lost, and all that was in it.
	Gone() bool
}

// NewKeep is a Keep in memory that find finds, nil for none at present, for tasks of
// the detectors that takes takes. For executors.
func NewKeep(find func() KeepMemory, takes func(d Detector, dim, fresh int) bool) *Keep {
	return &Keep{find: find, takes: takes}
}

// Shelf is a place for windows that tasks of fresh rows of dim values of d read; nil
// where the executor does not keep those.
func (k *Keep) Shelf(d Detector, dim, fresh int) *Shelf {
	if k == nil || d.Op().Elem() != F32 || !k.takes(d, dim, fresh) {
		return nil
	}
	s := &Shelf{keep: k, rows: d.Window() + fresh - 1, dim: dim}
	k.shelves = append(k.shelves, s)
	return s
}

// Memory is where the windows are; nil for nowhere.
func (k *Keep) Memory() KeepMemory { return k.memory }

// Forget makes all windows unknown. It has to be called where an owner's windows go
// back to an earlier state.
func (k *Keep) Forget() {
	if k == nil {
		return
	}
	for _, s := range k.shelves {
		for i := range s.slots {
			s.slots[i].stamp = 0
		}
		s.empty = len(s.slots)
	}
}

// Close gives the memory back.
func (k *Keep) Close() {
	if k == nil {
		return
	}
	k.leave()
	k.shelves = nil
}

func (k *Keep) leave() {
	if k.memory != nil {
		k.memory.Release()
	}
	k.memory = nil
	for _, s := range k.shelves {
		s.slots, s.empty, s.hand, s.full = s.slots[:0], 0, 0, false
	}
}

// Shelf keeps windows of one shape. The owner of a window asks Bring how many rows
// it lacks, packs these as they are into F64 and has Add make the X of the task.
// Only the window's owner knows whether what is kept is what it has: Place has the
// number of rows that the series has had, and everything else is a miss.
type Shelf struct {
	keep      *Keep
	rows, dim int
	slots     []slot
	empty     int // slots without a window, at most
	hand      int
	misses    uint
	stamp     uint64
	full      bool // there is no more memory

	// Hits and Misses are windows that were there, and that were not.
	Hits, Misses uint64
}

// slot is room for a window.
type slot struct {
	at    uint64 // its address
	stamp uint64 // the place that has it has the same; 0: none
	batch uint64 // the last one that it was used in
	used  bool   // since the hand came by
}

// Place is where a window lies on a shelf, as the window's owner remembers it. The
// zero Place is nowhere.
type Place struct {
	stamp uint64
	count int64 // rows that the series had
	batch uint64
	slot  uint32
	run   uint32 // 1 + index of its last Run in that batch
}

// Run is what a batch brings of a window that the executor keeps. X of the task is
// not in the batch: the executor makes it, the window's values less the median of
// its first, middle and last row, column by column, in float64 and then rounded.
type Run struct {
	At    uint64 // the window's address: a ring of its rows, float64
	Rows  Span   // in F64: the newest rows, oldest first
	Task  uint32
	First uint32 // row of the ring that is the window's oldest
	Next  uint32 // 1 + index of the next Run of the same window, which comes after this one
	Later bool   // there is one before
}

// Away is set in the offset of an X that is in no arena of the batch.
const Away = 1 << 31

// Bring says how many of a window's newest rows a task has to bring, when the
// series has had count rows: all of them where none are kept. ok is false where
// there is no room for the window; its task is then packed as a whole.
func (s *Shelf) Bring(b *Batch, p *Place, count int64) (rows int, ok bool) {
	k := s.keep
	if k.memory == nil || k.memory.Gone() {
		k.leave()
		if k.memory = k.find(); k.memory == nil {
			return 0, false
		}
	}
	if b.Kept != nil && (b.Kept != k || b.memory != k.memory) {
		return 0, false // of another memory
	}
	rows = s.rows
	if p.stamp != 0 && int(p.slot) < len(s.slots) && s.slots[p.slot].stamp == p.stamp {
		if n := count - p.count; n >= 0 && n < int64(s.rows) {
			rows = int(n)
		}
	} else {
		at, ok := s.take(b)
		if !ok {
			s.Misses++
			return 0, false
		}
		s.stamp++
		s.slots[at].stamp = s.stamp
		*p = Place{stamp: s.stamp, slot: uint32(at), count: never}
	}
	if rows < s.rows {
		s.Hits++
	} else {
		s.Misses++
	}
	return rows, true
}

// take finds a slot for another window. Series come round in turn, so the one that
// was used longest ago is the one that comes next, and to give it away for every
// newcomer would leave no hits at all. So the hand moves on with every eighth
// newcomer only, and takes a slot that nobody has used since it came by before.
func (s *Shelf) take(b *Batch) (at int, ok bool) {
	if s.empty == 0 {
		if s.misses++; s.full && s.misses%8 != 0 {
			return 0, false
		}
		first, n := s.keep.memory.Extend(s.bytes()) // again, for others give theirs back
		if s.full = n == 0; !s.full {
			s.hand, s.empty = len(s.slots), n
			for i := range n {
				s.slots = append(s.slots, slot{at: first + uint64(i*s.bytes())})
			}
		}
	}
	for range len(s.slots) {
		at := s.hand
		s.hand = (s.hand + 1) % len(s.slots)
		t := &s.slots[at]
		if t.stamp == 0 {
			s.empty = max(s.empty-1, 0)
			return at, true
		}
		if s.empty > 0 {
			continue
		}
		used := t.used || t.batch == b.Serial()
		t.used = false
		return at, !used
	}
	s.empty = 0
	return 0, false
}

// bytes is the size of a window.
func (s *Shelf) bytes() int { return (8*s.rows*s.dim + 255) &^ 255 }

// never is the count of a place that nothing was brought to.
const never = -1 << 62

// Add adds the run of a task of the batch and gives the task's X. fresh are the
// rows that Bring asked for, in F64.
func (s *Shelf) Add(b *Batch, p *Place, count int64, fresh Span, task int) (x Span) {
	t := &s.slots[p.slot]
	r := Run{
		At: t.at, Rows: fresh, Task: uint32(task),
		First: uint32(uint64(count-int64(s.rows)) % uint64(s.rows)),
	}
	if p.run > 0 && p.batch == b.Serial() {
		b.Runs[p.run-1].Next = uint32(len(b.Runs)) + 1
		r.Later = true
	}
	b.Runs = append(b.Runs, r)
	p.count, p.batch, p.run = count, b.Serial(), uint32(len(b.Runs))
	t.used, t.batch = true, b.Serial()
	b.Kept, b.memory = s.keep, s.keep.memory
	n := s.rows * s.dim
	b.AwayX += n
	return Span{Away | uint32(b.AwayX-n), uint32(n)}
}
