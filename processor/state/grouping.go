package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// Grouping gives anomalies of several series that open together one group id; see groups.go. An
// anomaly joins its group in the turn of its score, behind the tasks that were packed before it,
// so that groups do not depend on batches. A series that is evicted leaves its groups in its turn, too.
type Grouping struct {
	// By returns what the series of a group have in common, a part of their key; nil: the series is in
	// no group.
	By     func(key []byte) []byte
	Window int64 // microseconds of event time that the openings of a group lie apart from its first, at most
}

// grouping has the groups that the keys of a State remember; nil: there is no Grouping.
type grouping struct {
	by    func(key []byte) []byte // Grouping.By
	keys  *series.KeyTable
	index groupIndex
}

func newGrouping(g *Grouping, table *series.KeyTable) *grouping {
	if g == nil {
		return nil
	}
	return &grouping{g.By, table, groupIndex{Window: g.Window}}
}

// opened puts an anomaly into the group of the change that opens it. One in shadow mode, and one that labels have
// judged, is in none, so that the groups of the others are as if it were not there. What the state has of an earlier
// anomaly's group is replaced in any case: a restore knows nothing of it either.
func (g *grouping) opened(k *Key, events *anomaly.State, c *anomaly.Change) {
	name := g.name(k)
	var group *anomaly.Group
	if name != nil && !c.Anomaly.Shadow && c.Anomaly.Like == nil {
		group = g.index.Join(string(name), c.Anomaly.ID, c.Time)
	}
	g.replace(name, events.Group(), group)
	events.SetGroup(group)
	c.Anomaly.Group = group
}

// name returns what the series of a key's groups have in common; nil: it is in none. That may have changed since the key
// stored its groups, which are then not in the index.
func (g *grouping) name(k *Key) []byte {
	if g == nil {
		return nil
	}
	return g.by(k.Name())
}

// silenced puts a silence into its group.
func (g *grouping) silenced(k *Key, a *anomaly.Anomaly) {
	if name := g.name(k); name != nil {
		a.Group = g.index.Join(string(name), a.ID, a.OpenedAt)
		g.replace(name, nil, a.Group)
	}
}

// endSilence removes a silence that has ended from its group.
func (g *grouping) endSilence(k *Key, a *anomaly.Anomaly) {
	if a.Group != nil {
		g.replace(g.name(k), a.Group, nil)
	}
}

// replace notes that one group is remembered in place of another.
func (g *grouping) replace(name []byte, former, group *anomaly.Group) {
	if name == nil {
		return
	}
	if former != nil {
		g.index.Remove(string(name), former)
	}
	if group != nil {
		g.index.Add(string(name), group)
	}
}

// forget removes a key from its groups.
func (g *grouping) forget(k *Key) { g.each(k, g.index.Remove) }

// each visits the groups that a key remembers.
func (g *grouping) each(k *Key, visit func(name string, group *anomaly.Group)) {
	if k.Alerts == nil {
		return
	}
	name := g.name(k)
	if name == nil {
		return
	}
	for i := range k.Alerts.Detectors {
		if group := k.Alerts.Detectors[i].Events.Group(); group != nil {
			visit(string(name), group)
		}
	}
	if a := k.Alerts.Silent; a != nil && a.Group != nil {
		visit(string(name), a.Group)
	}
}

// rebuild derives the groups from the keys.
func (g *grouping) rebuild() {
	if g == nil {
		return
	}
	g.index.Reset()
	for k := range g.keys.All {
		g.each(k, g.index.Add)
	}
}
