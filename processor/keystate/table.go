package keystate

import (
	"bytes"
	"hash/maphash"
)

// table finds keys by name: open addressing with linear probing. A map would
// hold every name twice and cost more memory than the names. The seed is random,
// as a map's; nothing depends on the order of slots.
type table struct {
	slots []tableSlot // a power of two, at most 3/4 full
	n     int
	seed  maphash.Seed
}

type tableSlot struct {
	hash uint64
	key  *Key
}

func newTable() table {
	return table{slots: make([]tableSlot, 16), seed: maphash.MakeSeed()}
}

func (t *table) get(name []byte) *Key {
	h := maphash.Bytes(t.seed, name)
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == nil {
			return nil
		}
		if s.hash == h && bytes.Equal(s.key.name, name) {
			return s.key
		}
	}
}

// add takes a key whose name is not in the table.
func (t *table) add(k *Key) {
	if 4*(t.n+1) > 3*len(t.slots) {
		old := t.slots
		t.slots = make([]tableSlot, 2*len(old))
		for _, s := range old {
			if s.key != nil {
				t.place(s)
			}
		}
	}
	t.n++
	t.place(tableSlot{maphash.Bytes(t.seed, k.name), k})
}

func (t *table) place(s tableSlot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].key != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// del removes a key and closes the gap.
func (t *table) del(k *Key) {
	mask := uint64(len(t.slots) - 1)
	i := maphash.Bytes(t.seed, k.name) & mask
	for t.slots[i].key != k {
		if t.slots[i].key == nil {
			panic("keystate: a key that is not in the table is removed")
		}
		i = (i + 1) & mask
	}
	t.n--
	for j := i; ; {
		j = (j + 1) & mask
		s := t.slots[j]
		if s.key == nil {
			break
		}
		if (j-s.hash)&mask >= (j-i)&mask { // its probe path passes the gap
			t.slots[i] = s
			i = j
		}
	}
	t.slots[i] = tableSlot{}
}

// all visits the keys in no order. yield must not change the table.
func (t *table) all(yield func(*Key) bool) {
	for i := range t.slots {
		if k := t.slots[i].key; k != nil && !yield(k) {
			return
		}
	}
}
