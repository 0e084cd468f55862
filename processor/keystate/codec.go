package keystate

import "odradek/processor/keystate/changelog"

// version is the first byte of every value, but for heads of a key with thresholds,
// anomalies or silence: these have more at the end.
const (
	version       = changelog.Version
	versionAlerts = 2
	// versionSummaries is that of a head that ends with summaries. Before them
	// is 1 and what a head of versionAlerts ends with, or 0.
	versionSummaries = 3
	// versionHeld is that of a head with held samples: see package heldblock. Before its
	// anomalies and summaries are 1 or 0 for each, and then those that there are.
	versionHeld = 4
	// versionTraces is that of a head that ends with traces. Before its held samples, as in
	// versionHeld, is 1 or 0, and before anomalies and summaries for each, and then those that there are.
	versionTraces = 5
)

// encoder writes the content of a key for the changelog.
type encoder struct{ changelog.Encoder }

// decoder reads the output of encoder.
type decoder struct{ changelog.Decoder }

func newDecoder(value []byte) decoder { return decoder{changelog.Decoder{B: value}} }

// headStart begins a head and each of its fragments: version, number of fragments
// with their generation, asOf, born.
func (e *encoder) headStart(k *Key, asOf int64) {
	switch {
	case k.Traced():
		e.Byte(versionTraces)
	case k.held.Len() > 0:
		e.Byte(versionHeld)
	case k.Summarised():
		e.Byte(versionSummaries)
	case !k.Alerts.Empty():
		e.Byte(versionAlerts)
	default:
		e.Byte(version)
	}
	e.Uint(uint64(k.fragments)*changelog.Generations + uint64(k.gen))
	e.Uint(uint64(asOf))
	e.Uint(uint64(k.Born))
}

// head is a head's body:
//
//	last offset, last time
//	windows: number, and for each
//	    fingerprint, columns, rows of a segment, rows ever, rows there,
//	    where in its segment the first one begins (if there are segments),
//	    the rows after the last full segment
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
//	held samples, if the version is 4: see package heldblock; before, their number,
//	    and if there are any, which versions before 4 have written,
//	    fingerprint of the values, values a sample, and for each time, offset, values
//	thresholds, anomalies and silence, if the version is 2: see series.EncodeAlerts
//	1 and these, or 0, and summaries, if the version is 3: see series.EncodeSummaries
//	1 or 0 for each of held samples, thresholds and summaries, those that there are, and traces, if the
//	    version is 5: see series.EncodeTraces
func (e *encoder) head(s *State, k *Key) {
	k.EncodeRows(&e.Encoder)
	k.EncodeProgress(&e.Encoder)
	full, summarised, held, traced := !k.Alerts.Empty(), k.Summarised(), k.held.Len() > 0, k.Traced()
	if traced {
		e.Flag(held)
	}
	if held {
		s.heldOut.AppendHead(&e.Encoder, k.held, s.blocks[k])
	} else if !traced {
		e.Uint(0)
	}
	if held || summarised || traced {
		e.Flag(full)
	}
	if held || traced {
		e.Flag(summarised)
	}
	if full {
		k.EncodeAlerts(&e.Encoder)
	}
	if summarised {
		k.EncodeSummaries(&e.Encoder)
	}
	if traced {
		k.EncodeTraces(&e.Encoder)
	}
}

func (e *encoder) held(w []uint64) {
	e.Int(int64(w[0]))
	e.Int(int64(w[1]))
	for _, v := range w[2:] {
		e.Bits(v)
	}
}
