package keystate

import (
	"fmt"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/keystate/series"
)

// keysOf is a table of n keys without windows.
func keysOf(n int) (*table, []*Key) {
	t, keys := newTable(), make([]*Key, n)
	for i := range keys {
		keys[i] = newKey(fmt.Append(nil, "key", i), series.None)
		t.add(keys[i])
	}
	return &t, keys
}

// TestDirtyQueue compares the queue with a search of all keys.
func TestDirtyQueue(t *testing.T) {
	rng := seedtest.New(t)
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
