package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"odradek/processor/state/changelog"
)

// This file reports where the configuration differs from the one that stored state was made by.

// ErrMismatch reports that the state was made by another configuration.
var ErrMismatch = errors.New("the stored state was made by another configuration")

// Mismatch is a difference between the configuration that stored state was made by
// and the present one. Fingerprints do not say what has changed; the settings record of the
// changelog does (processor/settings.go).
type Mismatch struct {
	Detector string // whose state it is; "" for held samples, which are of no detector
	// Fields reports that the fingerprint of the window differs or, for held samples, the fingerprint of
	// their values; otherwise the detector's own fingerprint differs.
	Fields bool
	// Window and Params are the stored fingerprints of the window and of the
	// detector; of held samples, of their values (state.Config.Layout) and 0.
	Window, Params uint64
	Keys           int // whose state it is
}

// String describes the difference in words.
func (m *Mismatch) String() string {
	switch {
	case m.Detector == "":
		return "the value fields have changed while samples were held"
	case m.Fields:
		return fmt.Sprintf("the fields of detector %s have changed", m.Detector)
	}
	return fmt.Sprintf("the parameters of detector %s have changed", m.Detector)
}

// MismatchError is Err with all differences.
type MismatchError struct {
	List    []Mismatch
	Keys    int    // with any of them
	Example string // digest of one
}

func (e *MismatchError) Error() string {
	texts := make([]string, len(e.List))
	for i := range e.List {
		texts[i] = e.List[i].String()
	}
	if e.Keys == 0 {
		return fmt.Sprintf("checkpoint: %s (in records that are read again): %v", strings.Join(texts, ", "), ErrMismatch)
	}
	return fmt.Sprintf("checkpoint: %s (%d keys, for example %s): %v", strings.Join(texts, ", "), e.Keys, e.Example, ErrMismatch)
}

func (e *MismatchError) Unwrap() error { return ErrMismatch }

// Mismatches gathers the differences of keys.
type Mismatches struct {
	keys    map[Mismatch]int
	changed int
	example []byte
}

// Add adds the differences of a key.
func (ms *Mismatches) Add(name []byte, list []Mismatch) {
	if len(list) == 0 {
		return
	}
	if ms.keys == nil {
		ms.keys = map[Mismatch]int{}
	}
	for _, m := range list {
		ms.keys[m]++
	}
	if ms.changed++; ms.example == nil || bytes.Compare(name, ms.example) < 0 {
		ms.example = slices.Clone(name)
	}
}

// Note adds a difference in the records that a replay reads, unless a key shows one of the same detector.
func (ms *Mismatches) Note(m Mismatch) {
	for seen := range ms.keys {
		if seen.Detector == m.Detector {
			return
		}
	}
	if ms.keys == nil {
		ms.keys = map[Mismatch]int{}
	}
	ms.keys[m] = 0
}

// Sorted returns the differences in order of the detectors' names.
func (ms *Mismatches) Sorted() []Mismatch {
	var list []Mismatch
	for m, n := range ms.keys {
		m.Keys = n
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Mismatch) int {
		return cmp.Or(strings.Compare(a.Detector, b.Detector), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Params, b.Params))
	})
	return list
}

// Err returns an *Error with the differences; nil where there are none.
func (ms *Mismatches) Err() error {
	if len(ms.keys) == 0 {
		return nil
	}
	return &MismatchError{List: ms.Sorted(), Keys: ms.changed, Example: changelog.Digest(ms.example)}
}
