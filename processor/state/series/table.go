package series

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// KeyTable finds keys by name: open addressing with linear probing. A map would
// hold every name twice and cost more memory than the names. The seed is random,
// as a map's; nothing depends on the order of slots.
type KeyTable struct {
	Bytes int64 // sum of Key.Size; what changes the size of a key adds to it

	slots []tableSlot // a power of two, at most 3/4 full
	n     int
	seed  maphash.Seed
	a, b  uint64 // and two numbers made of it
}

type tableSlot struct {
	hash uint64
	key  *Key
}

// NewKeyTable returns an empty table.
func NewKeyTable() KeyTable {
	t := KeyTable{slots: make([]tableSlot, 16), seed: maphash.MakeSeed()}
	t.a, t.b = maphash.String(t.seed, "a"), maphash.String(t.seed, "b")
	return t
}

// Hash returns maphash's hash of long names. Short ones, as most are, take a third of
// its time: folded products with the seed's numbers, as in wyhash.
func (t *KeyTable) Hash(name []byte) uint64 {
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

// Get returns the key of a name; nil if there is none.
func (t *KeyTable) Get(name []byte) *Key {
	h := t.Hash(name)
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

// Add takes a key whose name is not in the table.
func (t *KeyTable) Add(k *Key) {
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
	t.Bytes += k.Size()
	t.place(tableSlot{t.Hash(k.Name()), k})
}

func (t *KeyTable) place(s tableSlot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].key != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// Delete removes a key and closes the gap.
func (t *KeyTable) Delete(k *Key) {
	mask := uint64(len(t.slots) - 1)
	i := t.Hash(k.Name()) & mask
	for t.slots[i].key != k {
		if t.slots[i].key == nil {
			panic("series: a key that is not in the table is removed")
		}
		i = (i + 1) & mask
	}
	t.n--
	t.Bytes -= k.Size()
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

// All visits the keys in no order. yield must not change the table.
func (t *KeyTable) All(yield func(*Key) bool) {
	for i := range t.slots {
		if k := t.slots[i].key; k != nil && !yield(k) {
			return
		}
	}
}

// Len returns the number of keys.
func (t *KeyTable) Len() int { return t.n }
