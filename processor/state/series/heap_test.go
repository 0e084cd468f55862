package series

import (
	"cmp"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestHeap compares a heap with a sorted list, through random changes of items with
// many ties.
func TestHeap(t *testing.T) {
	rng := seedtest.New(t)
	for round := range 200 {
		h := Heap[int]{Compare: cmp.Compare[int]}
		var want []HeapItem[int]
		order := func() {
			slices.SortFunc(want, func(a, b HeapItem[int]) int {
				return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Tie, b.Tie), cmp.Compare(a.Value, b.Value))
			})
		}
		add := func(id int) HeapItem[int] {
			item := HeapItem[int]{rng.Int64N(9), rng.Int64N(3), id}
			want = append(want, item)
			order()
			return item
		}
		check := func() {
			t.Helper()
			if h.Len() != len(want) || len(want) > 0 && *h.First() != want[0] {
				t.Fatalf("round %d: %d items, want %d; %+v, want %+v", round, h.Len(), len(want), h.items, want)
			}
		}
		for id := range rng.IntN(20) {
			item := add(id)
			h.Append(item.At, item.Tie, item.Value)
		}
		h.Order()
		check()
		for step := range 100 {
			switch n := rng.IntN(6); {
			case n < 3 || len(want) == 0:
				item := add(1000 + step)
				h.Push(item.At, item.Tie, item.Value)
			case n == 3:
				h.Pop()
				want = want[1:]
			case n == 4:
				first := &want[0]
				first.At, first.Tie = first.At+rng.Int64N(3), first.Tie+rng.Int64N(3)
				h.SetFirst(first.At, first.Tie)
				order()
			case step%10 == 0:
				odd := func(item HeapItem[int]) bool { return item.Value%2 == 1 }
				h.Delete(odd)
				want = slices.DeleteFunc(want, odd)
			}
			check()
		}
		for h.Len() > 0 {
			check()
			h.Pop()
			want = want[1:]
		}
		h.Push(1, 1, 1)
		if h.Reset(); h.Len() != 0 {
			t.Fatal("something is left")
		}
	}
}
