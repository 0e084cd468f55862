package keystate

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// table finds keys by name: open addressing with linear probing. A map would
// hold every name twice and cost more memory than the names. The seed is random,
// as a map's; nothing depends on the order of slots.
type table struct {
	slots []tableSlot // a power of two, at most 3/4 full
	n     int
	seed  maphash.Seed
	a, b  uint64 // and two numbers made of it
}

type tableSlot struct {
	hash uint64
	key  *Key
}

func newTable() table {
	t := table{slots: make([]tableSlot, 16), seed: maphash.MakeSeed()}
	t.a, t.b = maphash.String(t.seed, "a"), maphash.String(t.seed, "b")
	return t
}

// hash is maphash's for long names. Short ones, as most are, take a third of
// its time: folded products with the seed's numbers, as in wyhash.
func (t *table) hash(name []byte) uint64 {
	n := len(name)
	var x, y uint64
	switch {
	case n > 16:
		return maphash.Bytes(t.seed, name)
	case n >= 8:
		x, y = binary.LittleEndian.Uint64(name), binary.LittleEndian.Uint64(name[n-8:])
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(name)), uint64(binary.LittleEndian.Uint32(name[n-4:]))
	case n > 0:
		x = uint64(name[0])<<16 | uint64(name[n/2])<<8 | uint64(name[n-1])
	}
	hi, lo := bits.Mul64(x^t.a, y^t.b^uint64(n))
	hi, lo = bits.Mul64(hi^lo^t.a, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

func (t *table) get(name []byte) *Key {
	h := t.hash(name)
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == nil {
			return nil
		}
		if s.hash == h && bytes.Equal(s.key.Name(), name) {
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
	t.place(tableSlot{t.hash(k.Name()), k})
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
	i := t.hash(k.Name()) & mask
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
