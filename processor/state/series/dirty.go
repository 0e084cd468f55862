package series

import (
	"cmp"
	"slices"
)

// DirtyQueue holds the keys with changes that are in no snapshot, in the order in which
// they became dirty.
type DirtyQueue struct {
	n    int // dirty keys
	list []dirtyKey
	head int
}

// dirtyKey is an entry of the queue, valid while since is the key's.
type dirtyKey struct {
	key   *Key
	since int64
}

// Add makes a key dirty since the mark at that offset, if it is not dirty already.
func (q *DirtyQueue) Add(k *Key, since int64) {
	if !k.dirty {
		k.dirty, k.since = true, since
		q.list = append(q.list, dirtyKey{k, since})
		q.n++
	}
}

// Clean marks a key clean: a snapshot contains its changes.
func (q *DirtyQueue) Clean(k *Key) {
	k.dirty = false
	q.n--
}

// Drop stops counting a key that was removed.
func (q *DirtyQueue) Drop(k *Key) {
	if k.dirty {
		q.n--
	}
}

// First returns the key that became dirty first, and the mark since which it is; nil if none is dirty.
func (q *DirtyQueue) First() (k *Key, since int64) {
	for q.head < len(q.list) {
		e := &q.list[q.head]
		if k = e.key; !k.Dead && k.dirty && k.since == e.since {
			if q.head > 1<<10 && q.head > len(q.list)/2 { // a busy partition's queue is never empty
				n := copy(q.list, q.list[q.head:])
				clear(q.list[n:])
				q.list, q.head = q.list[:n], 0
			}
			return k, k.since
		}
		*e = dirtyKey{}
		q.head++
	}
	q.list, q.head = q.list[:0], 0
	return nil, 0
}

// Rebuild fills the queue with the keys that are dirty.
func (q *DirtyQueue) Rebuild(keys *KeyTable) {
	clear(q.list)
	q.list, q.head = q.list[:0], 0
	for k := range keys.All {
		if k.dirty {
			q.list = append(q.list, dirtyKey{k, k.since})
		}
	}
	q.n = len(q.list)
	slices.SortFunc(q.list, func(a, b dirtyKey) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.key.LastOffset, b.key.LastOffset))
	})
}

// Len returns the number of dirty keys.
func (q *DirtyQueue) Len() int { return q.n }

// ChangedKeys lists the keys with an anomaly that has changed since the last snapshot: the next one must
// contain them.
type ChangedKeys struct {
	Keys  []*Key
	since int64 // in the unit that began there
}

// Add adds a key that has changed in the unit that began at since.
func (c *ChangedKeys) Add(k *Key, since int64) {
	if k.changed {
		return
	}
	if len(c.Keys) == 0 {
		c.since = since
	}
	k.changed = true
	c.Keys = append(c.Keys, k)
}

// Before reports whether a key has changed in a unit that began below offset.
func (c *ChangedKeys) Before(offset int64) bool { return len(c.Keys) > 0 && c.since < offset }

// Reset empties the list.
func (c *ChangedKeys) Reset() {
	for _, k := range c.Keys {
		k.changed = false
	}
	clear(c.Keys)
	c.Keys = c.Keys[:0]
}
