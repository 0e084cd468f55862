// Package heap is the one binary heap that a partition's state orders its keys in: by
// the earliest held sample, by the last use and by the newest sample.
//
// An item may be out of date: its owner finds that out where the item is the first, and
// gives it its order then (SetFirst) or drops it. For that it is enough that no item
// is ordered later than it should be.
package heap

import "slices"

// Item is a value with what it is ordered by: At, then Tie.
type Item[V any] struct {
	At, Tie int64
	Value   V
}

// Heap is a binary heap, the least item first. The zero value is empty and ready.
type Heap[V any] struct {
	// Compare orders values of equal At and Tie; nil: in any order.
	Compare func(a, b V) int

	items []Item[V]
}

// Len is the number of items.
func (h *Heap[V]) Len() int { return len(h.items) }

// First is the least item, to be read only. The heap must not be empty.
func (h *Heap[V]) First() *Item[V] { return &h.items[0] }

// Reset empties the heap and keeps its memory.
func (h *Heap[V]) Reset() {
	clear(h.items)
	h.items = h.items[:0]
}

// Append adds an item without putting it in order: Order follows.
func (h *Heap[V]) Append(at, tie int64, v V) {
	h.items = append(h.items, Item[V]{at, tie, v})
}

// Order orders what Append has added.
func (h *Heap[V]) Order() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i, h.items[i])
	}
}

// Push adds an item.
func (h *Heap[V]) Push(at, tie int64, v V) {
	item := Item[V]{at, tie, v}
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
	h.down(0, Item[V]{at, tie, h.items[0].Value})
}

// Pop removes the first item.
func (h *Heap[V]) Pop() {
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = Item[V]{}
	if h.items = h.items[:last]; last > 0 {
		h.down(0, item)
	}
}

// Delete removes the items that unwanted says are not needed.
func (h *Heap[V]) Delete(unwanted func(Item[V]) bool) {
	h.items = slices.DeleteFunc(h.items, unwanted)
	h.Order()
}

// less is small enough to be inlined.
func (h *Heap[V]) less(a, b *Item[V]) bool {
	return a.At < b.At || a.At == b.At && h.tied(a, b)
}

// tied is less for items of equal At.
func (h *Heap[V]) tied(a, b *Item[V]) bool {
	if a.Tie != b.Tie || h.Compare == nil {
		return a.Tie < b.Tie
	}
	return h.Compare(a.Value, b.Value) < 0
}

// down puts an item in the gap at i, or where the gap is then: lesser items move up.
func (h *Heap[V]) down(i int, item Item[V]) {
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
