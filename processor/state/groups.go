package state

import (
	"bytes"
	"cmp"
	"slices"

	"odradek/processor/anomaly"
)

// This file puts anomalies of several series that open together, within a window of event time, into one
// group.
//
// Every series stores, for each detector, the group of its last anomaly (anomaly.State), and the group of its
// silence while it is silent. An Index holds these groups by the part of the key that the series have in common.
// It is derived from the series alone, and so restored with them. A group is forgotten
// with the last series that stores it.

// groupIndex holds the groups that series store. In the zero value only anomalies of the same event time share
// a group.
type groupIndex struct {
	Window int64 // microseconds that the openings of a group lie apart from its first, at most

	names map[string][]countedGroup // in order
}

// countedGroup is a group, and how often series store it.
type countedGroup struct {
	group *anomaly.Group
	n     int
}

// compare orders groups by the time of their first opening.
func (c countedGroup) compare(g *anomaly.Group) int {
	return cmp.Or(cmp.Compare(c.group.Since, g.Since), bytes.Compare(c.group.ID[:], g.ID[:]))
}

// Reset forgets all groups.
func (gi *groupIndex) Reset() { clear(gi.names) }

// Join returns the group of an anomaly that opens at an event time: of the groups of that name that began within
// the window of it, before or after, the last to begin, or else a new group with the anomaly's id.
// It does not add the group.
func (gi *groupIndex) Join(name string, id [16]byte, time int64) *anomaly.Group {
	list := gi.names[name]
	for i := len(list) - 1; i >= 0 && list[i].group.Since >= timeBefore(time, gi.Window); i-- {
		if timeBefore(list[i].group.Since, gi.Window) <= time {
			return list[i].group
		}
	}
	return &anomaly.Group{ID: id, Since: time}
}

// Add counts a group that is stored once more.
func (gi *groupIndex) Add(name string, g *anomaly.Group) {
	list := gi.names[name]
	at, there := slices.BinarySearchFunc(list, g, countedGroup.compare)
	if there {
		list[at].n++
		return
	}
	if gi.names == nil {
		gi.names = map[string][]countedGroup{}
	}
	gi.names[name] = slices.Insert(list, at, countedGroup{g, 1})
}

// Remove counts a group that is stored once less.
func (gi *groupIndex) Remove(name string, g *anomaly.Group) {
	list := gi.names[name]
	at, there := slices.BinarySearchFunc(list, g, countedGroup.compare)
	switch {
	case !there:
		panic("state: a group that nothing remembers is forgotten")
	case list[at].n > 1:
		list[at].n--
	case len(list) == 1:
		delete(gi.names, name)
	default:
		gi.names[name] = slices.Delete(list, at, at+1)
	}
}

// Len returns the number of groups.
func (gi *groupIndex) Len() (n int) {
	for _, list := range gi.names {
		n += len(list)
	}
	return n
}
