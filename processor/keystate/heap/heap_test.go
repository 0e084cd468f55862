package heap

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

func newRand(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("ODRADEK_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

type value struct{ id, place int }

// TestHeap compares a heap with a sorted list, through random pushes, updates and
// removals of values with many ties.
func TestHeap(t *testing.T) {
	rng := newRand(t)
	for round := range 200 {
		h := Heap[*value]{
			Compare: func(a, b *value) int { return cmp.Compare(a.id, b.id) },
			Moved:   func(v *value, place int) { v.place = place },
		}
		var want []Item[*value]
		order := func() {
			slices.SortFunc(want, func(a, b Item[*value]) int {
				return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Tie, b.Tie), cmp.Compare(a.Value.id, b.Value.id))
			})
		}
		add := func(id int) Item[*value] {
			item := Item[*value]{int64(rng.IntN(9)), int64(rng.IntN(3)), &value{id: id}}
			want = append(want, item)
			return item
		}
		for id := range rng.IntN(20) {
			item := add(id)
			h.Append(item.At, item.Tie, item.Value)
		}
		h.Order()
		for step := range 100 {
			switch n := rng.IntN(5); {
			case n < 2 || len(want) == 0:
				item := add(1000 + step)
				h.Push(item.At, item.Tie, item.Value)
			case n == 2:
				i := rng.IntN(len(want))
				h.Remove(want[i].Value.place)
				want = slices.Delete(want, i, i+1)
			case n == 3:
				item := &want[rng.IntN(len(want))]
				item.At, item.Tie = int64(rng.IntN(9)), int64(rng.IntN(3))
				h.Update(item.Value.place, item.At, item.Tie)
			default:
				order()
				if first := h.First(); *first != want[0] {
					t.Fatalf("round %d: the first is %+v, want %+v", round, *first, want[0])
				}
				h.Remove(0)
				want = want[1:]
			}
			if h.Len() != len(want) {
				t.Fatalf("round %d: %d items, want %d", round, h.Len(), len(want))
			}
			for _, item := range want {
				if got := h.items[item.Value.place]; got != item {
					t.Fatalf("round %d: %+v is at %d, where %+v should be", round, got, item.Value.place, item)
				}
			}
		}
		order()
		for _, item := range want {
			if first := h.First(); *first != item {
				t.Fatalf("round %d: the first is %+v, want %+v", round, *first, item)
			}
			h.Remove(0)
		}
		h.Push(1, 1, &value{})
		if h.Reset(); h.Len() != 0 {
			t.Fatal("something is left")
		}
	}
}
