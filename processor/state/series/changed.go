package series

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
