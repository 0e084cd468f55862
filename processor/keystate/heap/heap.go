// Package heap is the one binary heap that a partition's state orders its keys in: by
// the earliest held sample, by the last use and by the newest sample.
package heap

// Item is a value with what it is ordered by: At, then Tie.
type Item[V any] struct {
	At, Tie int64
	Value   V
}

func (a *Item[V]) before(b *Item[V]) bool { return a.At < b.At || a.At == b.At && a.Tie < b.Tie }

// Heap is a binary heap, the least item first. The zero value is empty and ready.
type Heap[V any] struct {
	// Compare orders values of equal At and Tie; nil: in any order.
	Compare func(a, b V) int
	// Moved hears of each new place of a value, for Update and Remove; nil: nobody.
	Moved func(v V, place int)

	items []Item[V]
}

// Len is the number of items.
func (h *Heap[V]) Len() int { return len(h.items) }

// First is the least item, to be read only. The heap must not be empty.
func (h *Heap[V]) First() *Item[V] { return &h.items[0] }

// At is the item at place, to be read only.
func (h *Heap[V]) At(place int) *Item[V] { return &h.items[place] }

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
		h.down(i)
	}
	if h.Moved != nil {
		for i := range h.items {
			h.Moved(h.items[i].Value, i)
		}
	}
}

// Push adds an item.
func (h *Heap[V]) Push(at, tie int64, v V) {
	h.items = append(h.items, Item[V]{at, tie, v})
	h.up(len(h.items) - 1)
}

// Update gives the item at place another order.
func (h *Heap[V]) Update(place int, at, tie int64) {
	item := &h.items[place]
	later := at > item.At || at == item.At && tie > item.Tie
	if item.At, item.Tie = at, tie; later {
		h.down(place)
	} else {
		h.up(place)
	}
}

// Remove removes the item at place.
func (h *Heap[V]) Remove(place int) {
	last := len(h.items) - 1
	moved := h.items[last]
	h.items[last] = Item[V]{}
	if h.items = h.items[:last]; place == last {
		return
	}
	h.items[place] = moved
	if place > 0 && h.less(place, (place-1)/2) {
		h.up(place)
	} else {
		h.down(place)
	}
}

func (h *Heap[V]) less(i, j int) bool {
	a, b := &h.items[i], &h.items[j]
	if h.Compare != nil && a.At == b.At && a.Tie == b.Tie {
		return h.Compare(a.Value, b.Value) < 0
	}
	return a.before(b)
}

func (h *Heap[V]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(i, p) {
			break
		}
		h.swap(i, p)
		i = p
	}
	h.moved(i)
}

func (h *Heap[V]) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.items) {
			break
		}
		if c+1 < len(h.items) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			break
		}
		h.swap(i, c)
		i = c
	}
	h.moved(i)
}

// swap tells the place of the item that it moves to i; the other's is not final yet.
func (h *Heap[V]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(i)
}

func (h *Heap[V]) moved(i int) {
	if h.Moved != nil {
		h.Moved(h.items[i].Value, i)
	}
}
