package rules

import (
	"cmp"
	"slices"
)

// actions holds the loaded decisions that act on the state, in the order in which they do.
type actions struct {
	list []*Decision
	done int // the number of them that have acted
}

// Acting reports whether Next has more to return.
func (a *actions) Acting() bool { return a.done < len(a.list) }

// Next returns the next loaded decision that acts on the state, if it takes effect up to
// the record at offset, and advances past it; nil without one.
func (a *actions) Next(offset int64) *Decision {
	if a.done == len(a.list) || a.list[a.done].Offset > offset {
		return nil
	}
	a.done++
	return a.list[a.done-1]
}

// NextBetween is Next for a decision that was made between records, up to offset.
func (a *actions) NextBetween(offset int64) *Decision {
	if a.done == len(a.list) || !a.list[a.done].Kind.BetweenRecords() {
		return nil
	}
	return a.Next(offset)
}

// order brings the decisions into their order when all are loaded.
func (a *actions) order() {
	slices.SortFunc(a.list, func(d, e *Decision) int {
		return cmp.Or(cmp.Compare(d.Offset, e.Offset), cmp.Compare(d.seq, e.seq))
	})
}

// rewind has Next return the decisions from the offset next on again.
func (a *actions) rewind(next int64) {
	a.done = 0
	for a.done < len(a.list) && a.list[a.done].Offset < next {
		a.done++
	}
}
