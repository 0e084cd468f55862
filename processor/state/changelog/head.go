package changelog

// Versions of heads that have more than rows and progress.
const (
	VersionAlerts = 2
	// VersionSummaries is the version of a head that ends with summaries. Before them
	// is 1 and the end of a head of VersionAlerts, or 0.
	VersionSummaries = 3
	// VersionHeld is the version of a head with held samples: see package heldblock. Before its
	// anomalies and summaries are 1 or 0 for each of the two, and then those with a 1.
	VersionHeld = 4
	// VersionTraces is the version of a head that ends with traces. Before them are 1 or 0 for each of held
	// samples, anomalies and summaries, and then those with a 1, as in VersionHeld.
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
