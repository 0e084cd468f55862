package changelog

// Versions of a head that is not only of rows and progress: it has more at the end.
const (
	VersionAlerts = 2
	// VersionSummaries is that of a head that ends with summaries. Before them
	// is 1 and what a head of VersionAlerts ends with, or 0.
	VersionSummaries = 3
	// VersionHeld is that of a head with held samples: see package heldblock. Before its
	// anomalies and summaries are 1 or 0 for each, and then those that there are.
	VersionHeld = 4
	// VersionTraces is that of a head that ends with traces. Before its held samples, as in
	// VersionHeld, is 1 or 0, and before anomalies and summaries for each, and then those that there are.
	VersionTraces = 5
)

// HeadStart begins a head and each of its fragments.
type HeadStart struct {
	Version    byte
	Fragments  uint16 // 0: the head is whole
	Generation uint8  // of the fragments
	AsOf       int64  // offsets below are in the head
	Born       int64  // offset of the key's first sample
}

// HeadStart appends the start of a head or of one of its fragments.
func (e *Encoder) HeadStart(h *HeadStart) {
	e.Byte(h.Version)
	e.Uint(uint64(h.Fragments)*Generations + uint64(h.Generation))
	e.Uint(uint64(h.AsOf))
	e.Uint(uint64(h.Born))
}

// HeadStart reads the start of a head or of one of its fragments.
func (d *Decoder) HeadStart() HeadStart {
	h := HeadStart{Version: d.Byte()}
	if h.Version < Version || h.Version > VersionTraces {
		d.Fail()
	}
	n := d.Small()
	if n/Generations > MaxFragments {
		d.Fail()
	}
	h.Fragments, h.Generation = uint16(n/Generations), uint8(n%Generations)
	h.AsOf, h.Born = d.Offset(), d.Offset()
	return h
}
