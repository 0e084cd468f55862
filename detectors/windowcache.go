package detectors

import "errors"

// ErrCacheLost reports that the cached windows of a batch's Updates were lost with their
// device. The batch has to be packed again, with whole windows.
var ErrCacheLost = errors.New("detectors: the window cache is lost: pack the batch again, with all rows of its windows")

// CachingExecutor is an Executor that can cache windows between batches in its device's memory, so that
// a task brings only its fresh rows.
type CachingExecutor interface {
	Executor
	// WindowCache returns a cache for one goroutine and its batches; nil without one.
	WindowCache() *WindowCache
}

// WindowCache has the cached windows of one goroutine, in pools by their shape.
type WindowCache struct {
	find   func() CacheMemory                    // nil for no memory at present
	takes  func(d Detector, dim, fresh int) bool // reports which tasks' windows can be cached
	memory CacheMemory
	pools  []*WindowPool
}

// CacheMemory is memory for windows, which may get lost.
type CacheMemory interface {
	// Extend allocates n windows of the given size in bytes, the first at an address;
	// n is 0 if no memory is left.
	Extend(bytes int) (first uint64, n int)
	// Release frees everything that Extend allocated.
	Release()
	// Gone reports whether the memory is lost with its content.
	Gone() bool
}

// NewWindowCache returns a cache in the memory that find returns, nil if none is available, for the
// tasks for which takes returns true. Executors call it.
func NewWindowCache(find func() CacheMemory, takes func(d Detector, dim, fresh int) bool) *WindowCache {
	return &WindowCache{find: find, takes: takes}
}

// Pool returns a pool for the windows read by d's tasks of fresh rows of dim values; nil where the
// executor does not cache those.
func (c *WindowCache) Pool(d Detector, dim, fresh int) *WindowPool {
	if c == nil || d.Op().Elem() != F32 || !c.takes(d, dim, fresh) {
		return nil
	}
	s := &WindowPool{cache: c, rows: TaskRows(d, fresh), dim: dim}
	c.pools = append(c.pools, s)
	return s
}

// Memory returns the memory of the windows; nil before the first.
func (c *WindowCache) Memory() CacheMemory { return c.memory }

// Invalidate empties the cache. An owner calls it when its windows return to an earlier state.
func (c *WindowCache) Invalidate() {
	if c == nil {
		return
	}
	for _, s := range c.pools {
		for i := range s.slots {
			s.slots[i].stamp = 0
		}
		s.empty = len(s.slots)
	}
}

// Close frees the memory.
func (c *WindowCache) Close() {
	if c == nil {
		return
	}
	c.release()
	c.pools = nil
}

func (c *WindowCache) release() {
	if c.memory != nil {
		c.memory.Release()
	}
	c.memory = nil
	for _, s := range c.pools {
		s.slots, s.empty, s.hand, s.full = s.slots[:0], 0, 0, false
	}
}

// WindowPool caches windows of one shape, each in a slot. The owner of a window asks Missing for the
// number of rows that the slot lacks, packs these uncentred with GrowF64 and calls Update for the X of
// the task. Only the owner can identify its window: its SlotRef has the series' number of rows at the
// last update, and any other number is a miss.
type WindowPool struct {
	cache     *WindowCache
	rows, dim int
	slots     []slot
	empty     int // slots without a window, at most
	hand      int // of the clock that chooses the slot to reuse
	misses    uint
	stamp     uint64
	full      bool // there is no more memory

	// Hits and Misses count the windows that were cached, and that were not.
	Hits, Misses uint64
}

// slot is the memory of one window.
type slot struct {
	at    uint64 // its address
	stamp uint64 // that of the SlotRef to it; 0: none
	batch uint64 // the last one that it was used in
	used  bool   // since the hand last passed
}

// SlotRef refers to the slot of a window; the window's owner keeps it. The zero SlotRef
// refers to none.
type SlotRef struct {
	stamp uint64
	count int64 // rows that the series had
	batch uint64
	slot  uint32
	last  uint32 // 1 + index of its last update in that batch
}

// WindowUpdate has the new rows of a cached window. The task's X is not in the batch: the executor
// makes it as Pack does, the window's values less the centers of their columns (Centers, of the rows of
// CenterRows).
type WindowUpdate struct {
	At    uint64 // the window's address: a ring of its rows, float64
	Rows  Span   // in In, float64: the newest rows, oldest first
	Task  uint32
	First uint32 // row of the ring that is the window's oldest
	Next  uint32 // 1 + index of the next update of the same window, which comes after this one
	Later bool   // the batch has an earlier update of the same window
	// Common are the rows that X is centred on, counted from the window's oldest.
	Common Span
}

// InCache is set in the offset of an X that is in the window cache, not in an arena of the
// batch.
const InCache = 1 << 31

// Missing returns the number of a window's newest rows that a task has to bring, for a series of count
// rows so far: all of them where none are cached. ok is false where there is no slot for the window;
// its task is then packed as a whole.
func (s *WindowPool) Missing(b *Batch, p *SlotRef, count int64) (rows int, ok bool) {
	c := s.cache
	if c.memory == nil || c.memory.Gone() {
		c.release()
		if c.memory = c.find(); c.memory == nil {
			return 0, false
		}
	}
	if b.Cache != nil && (b.Cache != c || b.memory != c.memory) {
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
		*p = SlotRef{stamp: s.stamp, slot: uint32(at), count: never}
	}
	if rows < s.rows {
		s.Hits++
	} else {
		s.Misses++
	}
	return rows, true
}

// take finds a slot for another window, by a clock algorithm. Series take turns, so the least recently
// used window is the next to be read, and evicting it for every new window would leave no hits. So the
// hand advances with every eighth new window only, and takes a slot that has not been used since its
// last pass.
func (s *WindowPool) take(b *Batch) (at int, ok bool) {
	if s.empty == 0 {
		if s.misses++; s.full && s.misses%8 != 0 {
			return 0, false
		}
		first, n := s.cache.memory.Extend(s.bytes()) // again: other caches may have released memory
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

// bytes returns the size of a window.
func (s *WindowPool) bytes() int { return (8*s.rows*s.dim + 255) &^ 255 }

// never is the count of a slot that has had no update.
const never = -1 << 62

// Update adds the update for a task of the batch and returns the task's X. fresh has the rows that
// Missing requested.
func (s *WindowPool) Update(b *Batch, p *SlotRef, count int64, fresh Span, task int) (x Span) {
	t := &s.slots[p.slot]
	r := WindowUpdate{
		At: t.at, Rows: fresh, Task: uint32(task),
		First: uint32(uint64(count-int64(s.rows)) % uint64(s.rows)),
	}
	from, common := CenterRows(s.rows, count)
	r.Common = Span{uint32(from), uint32(common)}
	if p.last > 0 && p.batch == b.Serial() {
		b.Updates[p.last-1].Next = uint32(len(b.Updates)) + 1
		r.Later = true
	}
	b.Updates = append(b.Updates, r)
	p.count, p.batch, p.last = count, b.Serial(), uint32(len(b.Updates))
	t.used, t.batch = true, b.Serial()
	b.Cache, b.memory = s.cache, s.cache.memory
	n := s.rows * s.dim
	b.CachedX += n
	return Span{InCache | uint32(b.CachedX-n), uint32(n)}
}
