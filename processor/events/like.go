package events

import (
	"encoding/binary"
	"math"

	"odradek/processor/keystate/changelog"
)

// An anomaly may open as one like false alarms that were labelled (Input.Like). It then lives as any other, but with severity 0. A score
// that is higher than those of the false alarms ends it (Leave), and may open another.

// Like says which false alarms an anomaly resembles.
type Like struct {
	Most   float64    // the highest score of one like them
	Count  uint32     // labelled false alarms
	Labels [][16]byte // the ids of the first of them
}

// alike is added to the length of the expected values of an anomaly like false alarms, which end it; earlier versions refuse it,
// for they would take it for any other.
const alike = 1 << 30

func (l *Like) append(b []byte) []byte {
	b = appendBits(b, l.Most)
	b = binary.AppendUvarint(b, uint64(l.Count))
	b = binary.AppendUvarint(b, uint64(len(l.Labels)))
	for _, id := range l.Labels {
		b = append(b, id[:]...)
	}
	return b
}

func decodeLike(d *changelog.Decoder) *Like {
	l := &Like{Most: math.Float64frombits(d.Bits()), Count: d.Uint32()}
	for range d.Len(16) {
		l.Labels = append(l.Labels, [16]byte(d.Take(16)))
	}
	return l
}

// outgrown reports whether a score over the threshold is too high for an open anomaly like false alarms, or an earlier one was that a
// replay has taken.
func (l *life) outgrown(in *Input) bool {
	return l.open && l.Like != nil && !(float64(max(l.PeakScore, in.Score)) <= l.Like.Most)
}
