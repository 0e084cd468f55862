package checkpoint

import (
	"fmt"

	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// This file reads the keys of a partition from its changelog: the opposite of snapshot.go. The caller knows
// which keys must be complete, and what the input after the changelog adds to them.

// LoadTarget is what a Loader fills.
type LoadTarget struct {
	Keys      *series.KeyTable
	Records   *Writer
	Decisions *rules.DecisionLog
	// Translate says how held samples of another layout become samples of the present one, of a Format; ok is false where
	// no decision has a reading of that layout, or they are samples of other series.
	Translate func(layout uint64) (from HeldFormat, t rules.Translation, ok bool)
}

// Loader reads the records of a changelog.
type Loader struct {
	to      LoadTarget
	sets    *series.Sets
	silence bool // the configuration asks for events of silence
	drops   func(name []byte) bool

	staging
	findings
	head    series.Reader
	LeftOut int64 // memory of keys that are dropped
	whole   bool  // everything is loaded
}

// NewLoader returns a Loader for the series that sets has detectors for. drops reports the keys of which only
// what their eviction needs is loaded; nil: none.
func NewLoader(to LoadTarget, sets *series.Sets, silence bool, drops func(name []byte) bool) *Loader {
	return &Loader{to: to, sets: sets, silence: silence, drops: drops, staging: newStaging(), findings: newFindings()}
}

// Load reads a record. value is nil for a deletion. Load retains neither slice.
func (l *Loader) Load(key, value []byte) error {
	kind, name, suffix, err := changelog.SplitKey(key)
	if err != nil {
		return err
	}
	switch kind {
	case changelog.Head:
		err = l.loadHead(name, value)
	case changelog.Fragment:
		err = l.fragments.Add(name, value, suffix[0])
	case changelog.Segment:
		if value != nil && !l.dropped(name) { // the heads name the segments that count
			err = l.addSegment(name, value, suffix[0], suffix[1])
		}
	case changelog.Held:
		err = l.addHeld(name, value, suffix[0], suffix[1])
	case changelog.Eviction:
		err = l.to.Decisions.LoadEviction(name, value)
	case changelog.Decision:
		err = l.to.Decisions.Load(name, value, suffix[0])
	default: // of a later version: a worker writes whole records
		if value != nil {
			err = fmt.Errorf("type %q: %w", kind, changelog.ErrNewer)
		}
	}
	if err != nil {
		return fmt.Errorf("checkpoint: changelog record %c of key %s: %w", kind, changelog.Digest(name), err)
	}
	return nil
}

// Finish reads the heads again that were not complete, with all that has followed them.
func (l *Loader) Finish() error {
	l.whole = true
	for k, b := range l.broken {
		if err := l.loadHead(k.Name(), b.value); err != nil {
			return fmt.Errorf("checkpoint: changelog record H of key %s: %w", changelog.Digest(k.Name()), err)
		}
	}
	return nil
}

// Rewrite has a loaded key be written again.
func (l *Loader) Rewrite(k *series.Key) { l.rewrite[k] = struct{}{} }

// RewriteHeld has the held samples of a loaded key be written again.
func (l *Loader) RewriteHeld(k *series.Key) {
	l.to.Records.DropHeldFrom(k, -1)
	l.Rewrite(k)
}

// Unload removes a key, and returns the records of it that are in the changelog beside its head.
func (l *Loader) Unload(k *series.Key) (stale []Record) {
	stale = l.to.Records.Stale(k)
	l.to.Keys.Bytes -= k.Held.Bytes()
	k.Held = nil
	if k.Dropped {
		l.LeftOut -= k.Size()
	}
	l.to.Keys.Delete(k)
	k.Dead = true
	k.Release()
	l.forget(k)
	return stale
}

// forget forgets what was found of a key's last head.
func (l *Loader) forget(k *series.Key) {
	l.drop(k)
	l.to.Records.Forget(k)
}

// dropped reports whether there is no room for a key.
func (l *Loader) dropped(name []byte) bool { return l.drops != nil && l.drops(name) }

// strip takes what a dropped key does not need out of it.
func strip(k *series.Key) {
	k.Clear()
	for i := range k.Progress {
		k.Progress[i] = series.Progress{}
	}
	k.Held = nil
	if a := k.Alerts; a != nil {
		open := a.Silent != nil || len(a.Orphans) > 0
		for i := range a.Detectors {
			a.Detectors[i].History = nil
			open = open || a.Detectors[i].Events.Open()
		}
		if a.Summaries, a.ScoreStates = nil, nil; !open {
			k.Alerts = nil
		}
	}
	k.Dropped = true
}
