package series

import (
	"fmt"
	"reflect"
	"testing"

	"odradek/detectors/seedtest"
)

// keysOf returns n keys without windows, and their table.
func keysOf(n int) (*KeyTable, []*Key) {
	t, list := NewKeyTable(), make([]*Key, n)
	for i := range list {
		list[i] = NewKey(fmt.Append(nil, "key", i), None)
		t.Add(list[i])
	}
	return &t, list
}

// TestTable compares the table with a map.
func TestTable(t *testing.T) {
	r := seedtest.New(t)
	tb, all := NewKeyTable(), map[string]*Key{}
	for range 20000 {
		name := fmt.Appendf(nil, "%d", r.IntN(700))
		k := tb.Get(name)
		if k != all[string(name)] {
			t.Fatalf("%s is %v", name, k)
		}
		if k == nil {
			k = NewKey(name, None)
			tb.Add(k)
			all[string(name)] = k
		} else if r.IntN(2) == 0 {
			tb.Delete(k)
			delete(all, string(name))
		}
	}
	n := 0
	for range tb.All {
		n++
	}
	if n != len(all) || tb.Len() != n {
		t.Errorf("%d keys, %d counted, %d put", n, tb.Len(), len(all))
	}
}

// TestDirtyQueue compares the queue with a search of all keys.
func TestDirtyQueue(t *testing.T) {
	rng := seedtest.New(t)
	for range 100 {
		table, keys := keysOf(12)
		var q DirtyQueue
		for since := range int64(300) {
			k := keys[rng.IntN(len(keys))]
			switch n := rng.IntN(10); {
			case n < 5:
				q.Add(k, since)
			case n < 8 && k.dirty:
				q.Clean(k)
			case n == 8:
				q.Rebuild(table)
			}
			want, dirty := (*Key)(nil), 0
			for _, k := range keys {
				if k.dirty {
					if dirty++; want == nil || k.since < want.since {
						want = k
					}
				}
			}
			got, at := q.First()
			if got != want || got != nil && at != want.since || q.Len() != dirty {
				t.Fatalf("the first of %d is %v since %d, want %v of %d", q.Len(), got, at, want, dirty)
			}
		}
	}
}

// TestDirtyQueueMemory holds the memory of a queue that is never empty: it does not grow with time.
func TestDirtyQueueMemory(t *testing.T) {
	const n = 4000
	_, keys := keysOf(n)
	var q DirtyQueue
	for since := range int64(60 * n) {
		q.Add(keys[since%n], since)
		if q.Len() > n/2 {
			k, at := q.First()
			if want := since - n/2; k != keys[want%n] || at != want {
				t.Fatalf("the first is dirty since %d, want %d", at, want)
			}
			q.Clean(k)
		}
	}
	if c := cap(q.list); c > 8*n {
		t.Errorf("room for %d entries where %d keys are", c, n)
	}
}

// TestPlaces holds the key's places and its dirty mark to what they were.
func TestPlaces(t *testing.T) {
	k := NewKey([]byte("k"), None)
	k.SetDirty(7)
	k.LastTime, k.LastOffset = 3, 4
	places := k.AppendPlaces(nil)
	var q DirtyQueue
	q.Clean(k)
	k.LastTime, k.LastOffset = 5, 6
	k.RestorePlaces(places)
	if since, dirty := k.Dirty(); since != 7 || !dirty || k.LastTime != 3 || k.LastOffset != 4 {
		t.Errorf("dirty %v since %d, last sample at %d, offset %d", dirty, since, k.LastTime, k.LastOffset)
	}
}

// TestChanged holds the list to one entry a key, and to the unit of the first.
func TestChanged(t *testing.T) {
	_, keys := keysOf(2)
	var c ChangedKeys
	if c.Before(100) {
		t.Error("an empty list has a change")
	}
	for _, since := range []int64{5, 9} {
		c.Add(keys[0], since)
		c.Add(keys[1], since)
	}
	if len(c.Keys) != 2 || c.Before(5) || !c.Before(6) {
		t.Errorf("%d keys, before 5 %v, before 6 %v", len(c.Keys), c.Before(5), c.Before(6))
	}
	c.Reset()
	if c.Add(keys[1], 12); len(c.Keys) != 1 || c.Before(12) {
		t.Errorf("after Reset %d keys, before 12 %v", len(c.Keys), c.Before(12))
	}
}

func TestKeysSizes(t *testing.T) {
	size := func(v any) int { return int(reflect.TypeOf(v).Size()) }
	if k := size(Key{}); k > KeyOverhead-32 || k < KeyOverhead-48 {
		t.Errorf("Key has %d bytes", k)
	}
}
