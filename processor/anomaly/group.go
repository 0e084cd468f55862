package anomaly

import (
	"encoding/binary"

	"odradek/processor/state/changelog"
)

// Group identifies anomalies of several series that open together. A State has the
// group of the last anomaly that opened, also when that is closed.
type Group struct {
	ID    [16]byte // of the anomaly that opened first
	Since int64    // event time at which it did
}

// Group returns the group of the last anomaly that opened; nil: none.
func (s *State) Group() *Group { return s.group }

// SetGroup sets the group of the anomaly that Step has just opened, nil for none.
func (s *State) SetGroup(g *Group) { s.group, s.life.anomaly.Group = g, g }

func (g *Group) append(b []byte) []byte {
	return binary.AppendVarint(append(b, g.ID[:]...), g.Since)
}

func decodeGroup(d *changelog.Decoder) *Group {
	g := new(Group)
	copy(g.ID[:], d.Slice(len(g.ID)))
	g.Since = d.Int()
	return g
}
