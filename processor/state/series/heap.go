package series

import "slices"

// HeapItem is a value with its order: At, then Tie.
type HeapItem[V any] struct {
	At, Tie int64
	Value   V
}

// Heap is the binary heap by which a partition's state orders its keys, the least item first: by the earliest held sample, by the
// last use and by the newest sample. The zero value is empty and ready.
//
// An item may be out of date: its owner checks the first item, and then gives it its present order (SetFirst) or removes it. This
// is correct as long as no item is ordered later than it should be.
type Heap[V any] struct {
	// Compare orders values of equal At and Tie; nil: in any order.
	Compare func(a, b V) int

	items []HeapItem[V]
}

// Len returns the number of items.
func (h *Heap[V]) Len() int { return len(h.items) }

// First returns the least item, to be read only. The heap must not be empty.
func (h *Heap[V]) First() *HeapItem[V] { return &h.items[0] }

// Reset empties the heap and keeps its memory.
func (h *Heap[V]) Reset() {
	clear(h.items)
	h.items = h.items[:0]
}

// Append adds an item without putting it in order: Order follows.
func (h *Heap[V]) Append(at, tie int64, v V) {
	h.items = append(h.items, HeapItem[V]{at, tie, v})
}

// Order orders what Append has added.
func (h *Heap[V]) Order() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i, h.items[i])
	}
}

// Push adds an item.
func (h *Heap[V]) Push(at, tie int64, v V) {
	item := HeapItem[V]{at, tie, v}
	h.items = append(h.items, item)
	i := len(h.items) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(&item, &h.items[p]) {
			break
		}
		h.items[i] = h.items[p]
		i = p
	}
	h.items[i] = item
}

// SetFirst gives the first item a later order.
func (h *Heap[V]) SetFirst(at, tie int64) {
	h.down(0, HeapItem[V]{at, tie, h.items[0].Value})
}

// Pop removes the first item.
func (h *Heap[V]) Pop() {
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = HeapItem[V]{}
	if h.items = h.items[:last]; last > 0 {
		h.down(0, item)
	}
}

// Delete removes the items for which unwanted returns true.
func (h *Heap[V]) Delete(unwanted func(HeapItem[V]) bool) {
	h.items = slices.DeleteFunc(h.items, unwanted)
	h.Order()
}

// less is small enough to be inlined.
func (h *Heap[V]) less(a, b *HeapItem[V]) bool {
	return a.At < b.At || a.At == b.At && h.tied(a, b)
}

// tied reports whether a is less than b where their At are equal.
func (h *Heap[V]) tied(a, b *HeapItem[V]) bool {
	if a.Tie != b.Tie || h.Compare == nil {
		return a.Tie < b.Tie
	}
	return h.Compare(a.Value, b.Value) < 0
}

// down moves the gap at i down past lesser items, and puts the item there.
func (h *Heap[V]) down(i int, item HeapItem[V]) {
	items := h.items
	for {
		c := 2*i + 1
		if c >= len(items) {
			break
		}
		if c+1 < len(items) && h.less(&items[c+1], &items[c]) {
			c++
		}
		if !h.less(&items[c], &item) {
			break
		}
		items[i] = items[c]
		i = c
	}
	items[i] = item
}
