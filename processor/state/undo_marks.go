package state

import (
	"fmt"
	"slices"
	"sort"

	"odradek/processor/state/checkpoint"
)

// marks holds the marks since the committed floor, oldest first.
type marks struct{ list []checkpoint.Floor }

// Last returns the last mark.
func (m *marks) Last() *checkpoint.Floor { return &m.list[len(m.list)-1] }

// At returns the mark at an offset.
func (m *marks) At(offset int64) checkpoint.Floor {
	i := m.search(offset)
	if m.list[i].Offset != offset {
		panic(fmt.Sprintf("state: no mark at %d", offset))
	}
	return m.list[i]
}

// reset makes a mark the only one.
func (m *marks) reset(f checkpoint.Floor) { m.list = append(m.list[:0], f) }

// add adds the next mark.
func (m *marks) add(f checkpoint.Floor) { m.list = append(m.list, f) }

// commit discards the marks behind the committed floor: floors are marks, and those are not
// needed again.
func (m *marks) commit(floor int64) {
	m.list = slices.Delete(m.list, 0, min(m.search(floor), len(m.list)-1))
}

// cut discards the marks after an offset, but not the first one.
func (m *marks) cut(at int64) {
	for len(m.list) > 1 && m.Last().Offset > at {
		m.list = m.list[:len(m.list)-1]
	}
}

// search returns the index of the first mark that is not below an offset.
func (m *marks) search(offset int64) int {
	return sort.Search(len(m.list), func(i int) bool { return m.list[i].Offset >= offset })
}
