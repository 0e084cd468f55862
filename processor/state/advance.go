package state

import (
	"encoding/binary"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// The watermark moves with the samples of the partition. Where none comes any more, the partition's owner decides that it
// moves all the same: a decision of kind Advance, whose content is the largest event time from then on, as if a sample of
// no series had it. It takes effect before the record at its offset, the next one of the log, which need not be there
// yet. Held samples are released, windows of grids end and series become silent, in that order. Series past their TTL
// stay until the next sample that raises the watermark: an eviction is a decision of its own.
//
// The decision and what it brings about follow the last mark and precede the next sample. So they are committed with a
// Snapshot without a new mark, in a cycle that commits the same offset again (snapshots.Snapshot), and a restore of that
// offset includes what the changelog has of them. Of several at one offset the changelog keeps the last, which leads to
// the same state.

// Advances moves the watermark of an idle partition.
type Advances struct {
	cfg       *Config
	at        *position
	journal   *journal
	held      *held
	grids     *Grids
	silences  *silences
	decisions *Decisions
	gate      *gate
}

// Decide decides that the largest event time of an idle partition is to, at least, and begins with what follows from it;
// State.Fits does the rest, as for a sample. Everything folded has to be Committed, and a Snapshot has to follow. Nothing
// is decided before the first sample, in a backfill, or for a time that is not later; then Decide returns false.
func (a *Advances) Decide(to int64) bool {
	if a.at.maxTime == NoTime || to <= a.at.maxTime || !a.at.publishes() {
		return false
	}
	record := a.cfg.Record(a.at.next)
	if a.journal.Newest() != a.journal.Open || a.at.next != a.journal.Open.Start() {
		panic(fmt.Sprintf("state: an advance at offset %d, behind samples that are not committed", record))
	}
	a.decisions.Make(Advance, nil, encodeAdvance(to), record)
	return true
}

// NextDue returns the least largest event time at which something follows from the watermark: held samples are released, a
// window of a grid ends, or a series becomes silent. MaxInt64: nothing does.
func (a *Advances) NextDue() int64 {
	at := a.silences.watch.Earliest()
	if k, ok := a.held.Due(math.MaxInt64); ok {
		at = min(at, k.Held.First())
	}
	if _, end, ok := a.grids.due(math.MaxInt64); ok {
		at = min(at, end)
	}
	if at > math.MaxInt64-a.at.order.Lateness {
		return math.MaxInt64
	}
	return at + a.at.order.Lateness
}

// replay applies the loaded decisions that take effect up to the record at offset, and releases what an advance among them
// reaches before the next of them.
func (a *Advances) replay(offset int64, b *detectors.Batch) {
	for d := a.decisions.log.Next(offset); d != nil; d = a.decisions.log.Next(offset) {
		a.act(d, b)
	}
}

// act applies a decision, and releases what it reaches.
func (a *Advances) act(d *rules.Decision, b *detectors.Batch) {
	if a.decisions.act(d); a.gate.advancing {
		a.gate.release(b, false)
	}
}

// advance raises the largest event time, as a decision says.
func (g *gate) advance(to int64) {
	if to > g.at.maxTime {
		g.at.maxTime, g.advancing = to, true
	}
}

// endAdvance ends an advance of which everything is released.
func (g *gate) endAdvance() {
	g.advancing = false
	if g.at.publishes() {
		g.silences.open(g.at.turn())
	}
	g.sweeps.plan()
}

func encodeAdvance(to int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(to)) }

func decodeAdvance(content []byte) (any, error) {
	if len(content) != 8 {
		return nil, changelog.ErrCorrupt
	}
	return int64(binary.BigEndian.Uint64(content)), nil
}
