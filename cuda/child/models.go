package child

import (
	"cmp"
	"slices"
	"sync"
)

// modelAlign is the alignment of models in a device's memory, in bytes.
const modelAlign = 256

// Models is the directory of the models in a child's memory, by their content. It keeps unused models
// until another needs their room, and evicts the least recently used first. It is lost with the child.
type Models struct {
	mu      sync.Mutex
	bytes   int      // of the memory
	list    []*model // in order of at
	clock   uint64
	uploads uint64

	reserving sync.Mutex
	reserved  bool // the child has the memory
}

// model is a model's place in the memory.
type model struct {
	sum       [32]byte
	at, bytes int
	users     int
	ready     bool // it is on the device
	used      uint64
}

// Use finds a place for a model of the given size in bytes, for a batch about to be executed. The model
// stays there until Done. upload reports that the batch has to bring the content; ok is false where
// there is no room.
func (m *Models) Use(sum [32]byte, bytes int) (at int, upload, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	i := slices.IndexFunc(m.list, func(o *model) bool { return o.sum == sum })
	if i < 0 {
		if i = m.find(bytes); i < 0 {
			return 0, false, false
		}
		m.list[i].sum = sum
	}
	o := m.list[i]
	o.users++
	o.used = m.clock
	if !o.ready {
		m.uploads++
	}
	return o.at, !o.ready, true
}

// Done ends the use of models; there reports that they are on the device now.
func (m *Models) Done(sums [][32]byte, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sum := range sums {
		i := slices.IndexFunc(m.list, func(o *model) bool { return o.sum == sum })
		o := m.list[i]
		o.users--
		o.ready = o.ready || there
		if !o.ready && o.users == 0 {
			m.list = slices.Delete(m.list, i, i+1)
		}
	}
}

// Uploads returns how often a batch has brought a model.
func (m *Models) Uploads() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uploads
}

// find makes room for a model by evicting unused ones; it returns its index in the list, or
// -1.
func (m *Models) find(bytes int) int {
	bytes = (bytes + modelAlign - 1) / modelAlign * modelAlign
	for {
		at := 0
		for i, o := range m.list {
			if o.at-at >= bytes {
				m.list = slices.Insert(m.list, i, &model{at: at, bytes: bytes})
				return i
			}
			at = o.at + o.bytes
		}
		if m.bytes-at >= bytes {
			m.list = append(m.list, &model{at: at, bytes: bytes})
			return len(m.list) - 1
		}
		free := slices.DeleteFunc(slices.Clone(m.list), func(o *model) bool { return o.users > 0 })
		if len(free) == 0 {
			return -1
		}
		oldest := slices.MinFunc(free, func(a, b *model) int { return cmp.Compare(a.used, b.used) })
		m.list = slices.DeleteFunc(m.list, func(o *model) bool { return o == oldest })
	}
}
