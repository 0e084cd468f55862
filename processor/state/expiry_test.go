package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

type expiryTestKey struct {
	name         string
	offset, time int64
	stays        int64 // an offset
	gone         bool
}

// expiryTestPartition returns n keys.
func expiryTestPartition(n int) []*expiryTestKey {
	keys := make([]*expiryTestKey, n)
	for i := range keys {
		keys[i] = &expiryTestKey{name: fmt.Sprint("key", i)}
	}
	return keys
}

// TestEvictor compares the least recently used key, and those past their TTL, with a
// search of all keys.
func TestEvictor(t *testing.T) {
	rng := seedtest.New(t)
	for range 50 {
		keys := expiryTestPartition(12)
		byName := func(a, b *expiryTestKey) int { return cmp.Compare(a.name, b.name) }
		e := newExpiry(100, evictable[*expiryTestKey]{
			All: func(yield func(*expiryTestKey) bool) {
				for _, k := range keys {
					if !yield(k) {
						return
					}
				}
			},
			Len:     func() int { return len(keys) },
			Last:    func(k *expiryTestKey) lastUse { return lastUse{k.offset, k.time, k.gone} },
			Stays:   func(k *expiryTestKey, offset int64) bool { return k.stays == offset },
			Compare: byName,
		})
		e.Reset()
		for offset := int64(1); offset < 200; offset++ {
			k := keys[rng.IntN(len(keys))]
			k.offset, k.time = offset, offset+rng.Int64N(50)-200*(rng.Int64N(4)/3)
			for _, k := range keys {
				if rng.IntN(4) == 0 {
					k.stays = offset
				}
			}
			if len(keys) > 3 && rng.IntN(20) == 0 {
				var want *expiryTestKey
				for _, k := range keys {
					if k.stays == offset {
						continue
					}
					if want == nil || cmp.Or(cmp.Compare(k.offset, want.offset), byName(k, want)) < 0 {
						want = k
					}
				}
				if want != nil && want.offset == offset {
					want = nil
				}
				got, ok := e.LeastUsed(offset)
				if got != want || ok != (want != nil) {
					t.Fatalf("the least recently used is %v, want %v", got, want)
				}
				if !ok {
					continue
				}
				got.gone = true
				keys = slices.DeleteFunc(keys, func(k *expiryTestKey) bool { return k == got })
			}
			watermark := offset + 10
			want := slices.DeleteFunc(
				slices.Clone(keys),
				func(k *expiryTestKey) bool { return k.time >= watermark-100 || k.offset >= offset || k.stays == offset },
			)
			slices.SortFunc(want, func(a, b *expiryTestKey) int { return cmp.Or(cmp.Compare(a.offset, b.offset), byName(a, b)) })
			if got := e.Expired(watermark, offset); !slices.Equal(got, want) {
				t.Fatalf("%d keys are past their TTL, want %d", len(got), len(want))
			}
			if e.Plan(watermark, true); e.Next() <= watermark || e.Next() > watermark+100/8+1 {
				t.Fatalf("the next look at %d is at %d", watermark, e.Next())
			}
			e.Observe(noTime) // those that are past it stay here
		}
		for _, k := range keys {
			if got, ok := e.LeastUsed(k.offset); ok {
				if e.Add(got, got.offset); got == k {
					t.Fatal("a key of the sample itself is evicted")
				}
			}
		}
		if e.Plan(1000, false); e.Next() != math.MaxInt64 {
			t.Fatalf("keys that do not expire are looked for at %d", e.Next())
		}
	}
}
