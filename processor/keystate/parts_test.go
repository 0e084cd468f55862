package keystate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
)

// keysOf is a table of n keys without windows.
func keysOf(n int) (*table, []*Key) {
	t, keys := newTable(), make([]*Key, n)
	for i := range keys {
		keys[i] = newKey(fmt.Append(nil, "key", i), emptySet)
		t.add(keys[i])
	}
	return &t, keys
}

// TestDirtyQueue compares the queue with a search of all keys.
func TestDirtyQueue(t *testing.T) {
	rng := seedOf(t)
	for range 100 {
		table, keys := keysOf(12)
		var q dirtyQueue
		for since := range int64(300) {
			k := keys[rng.IntN(len(keys))]
			switch n := rng.IntN(10); {
			case n < 5:
				q.add(k, since)
			case n < 8 && k.dirty:
				q.clean(k)
			case n == 8:
				q.rebuild(table)
			}
			want, dirty := (*Key)(nil), 0
			for _, k := range keys {
				if k.dirty {
					if dirty++; want == nil || k.since < want.since {
						want = k
					}
				}
			}
			if got := q.first(); got != want || q.n != dirty {
				t.Fatalf("the first of %d is %v, want %v of %d", q.n, got, want, dirty)
			}
		}
	}
}

// TestEvictor compares the least recently used key, and those past their TTL, with a
// search of all keys.
func TestEvictor(t *testing.T) {
	rng := seedOf(t)
	for range 50 {
		table, keys := keysOf(12)
		e := newEvictor(100)
		e.reset()
		for offset := int64(1); offset < 200; offset++ {
			k := keys[rng.IntN(len(keys))]
			k.lastOffset, k.lastTime = offset, offset+rng.Int64N(50)
			if len(keys) > 3 && rng.IntN(20) == 0 {
				var want *Key
				for _, k := range keys {
					if want == nil || k.lastOffset < want.lastOffset || k.lastOffset == want.lastOffset && string(k.name) < string(want.name) {
						want = k
					}
				}
				got := e.leastUsed(table, offset)
				if got != want {
					t.Fatalf("the least recently used is %s at %d, want %s at %d", got.name, got.lastOffset, want.name, want.lastOffset)
				}
				got.dead = true
				table.del(got)
				keys = slices.DeleteFunc(keys, func(k *Key) bool { return k == got })
			}
			watermark := offset + 10
			want := slices.DeleteFunc(slices.Clone(keys), func(k *Key) bool { return k.lastTime >= watermark-100 || k.lastOffset >= offset })
			slices.SortFunc(want, byLastOffset)
			if got := e.expired(table, watermark, offset); !slices.Equal(got, want) {
				t.Fatalf("%d keys are past their TTL, want %d", len(got), len(want))
			}
			if e.plan(watermark, false); e.next <= watermark || e.next > watermark+100/8+1 {
				t.Fatalf("the next look at %d is at %d", watermark, e.next)
			}
			e.oldest = NoTime // those that are past it stay here
		}
		if k := keys[0]; e.leastUsed(table, k.lastOffset) == k {
			t.Fatal("a key of the sample itself is evicted")
		}
	}
}

// TestSilenceWatch compares the keys that become silent with a search of all keys.
func TestSilenceWatch(t *testing.T) {
	rng := seedOf(t)
	for range 50 {
		table, keys := keysOf(12)
		w := silenceWatch{after: 20, next: math.MaxInt64}
		silent := map[*Key]bool{}
		for watermark := range int64(300) {
			k := keys[rng.IntN(len(keys))]
			if k.lastTime = max(k.lastTime, watermark+rng.Int64N(5)); silent[k] {
				delete(silent, k)
				w.add(k, k.lastTime, len(keys))
			}
			var want []*Key
			for _, k := range keys {
				if !silent[k] && k.lastTime < watermark-20 {
					want = append(want, k)
				}
			}
			slices.SortFunc(want, func(a, b *Key) int {
				return cmp.Or(cmp.Compare(a.lastOffset, b.lastOffset), cmp.Compare(string(a.name), string(b.name)))
			})
			if w.plan(false); len(want) > 0 && w.next > watermark {
				t.Fatalf("at %d keys become silent, they are looked for at %d", watermark, w.next)
			}
			got := w.due(table, watermark)
			if !slices.Equal(got, want) {
				t.Fatalf("%d keys become silent at %d, want %d", len(got), watermark, len(want))
			}
			for _, k := range got {
				silent[k] = true
			}
		}
	}
}

// TestUndoTo finds the units behind a mark.
func TestUndoTo(t *testing.T) {
	l := newUndoLog()
	l.begin(Floor{Offset: 10})
	for _, end := range []int64{20, 30, 40} {
		start := l.last().Offset
		l.cur.start = start
		l.close(Floor{Offset: end})
		l.open()
	}
	for _, c := range []struct {
		to    int64
		first int
		ok    bool
	}{{10, 0, true}, {20, 1, true}, {30, 2, true}, {40, 3, true}, {25, 0, false}, {5, 0, false}} {
		first, at, err := l.undoTo(c.to)
		if (err == nil) != c.ok || c.ok && (first != c.first || at != c.to) {
			t.Errorf("back to %d: from unit %d, at %d, %v", c.to, first, at, err)
		}
	}
	if l.newest().end != 40 || l.markAt(20).Offset != 20 {
		t.Error("not the newest unit, or not the mark")
	}
	l.committed = 30
	if l.forgetMarks(); l.marks[0].Offset != 30 || len(l.marks) != 2 {
		t.Errorf("marks %v are kept", l.marks)
	}
}
