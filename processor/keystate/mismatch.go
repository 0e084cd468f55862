package keystate

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// ErrMismatch says that the state was made by another configuration. Config.KeepMismatched
// drops just what the change covers.
var ErrMismatch = errors.New("the stored state was made by another configuration")

// Mismatch is a difference between the configuration that stored state was made by
// and the one there is. Fingerprints do not say what has changed; who has the
// settings that they were made of can look them up.
type Mismatch struct {
	Detector string // whose state it is; "" for held samples, which are of no detector
	// Fields: the fingerprint of the window differs, or, of held samples, that of
	// their values. Otherwise it is that of the detector itself.
	Fields bool
	// Window and Params are the stored fingerprints of the window and of the
	// detector; of held samples, of their values (Config.Layout) and 0.
	Window, Params uint64
	Keys           int // whose state it is
}

// String says what differs, in words.
func (m *Mismatch) String() string {
	switch {
	case m.Detector == "":
		return "the value fields are others, and samples were held"
	case m.Fields:
		return fmt.Sprintf("the fields of detector %s are others", m.Detector)
	}
	return fmt.Sprintf("the parameters of detector %s are others", m.Detector)
}

// MismatchError is ErrMismatch with all differences.
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
	return fmt.Sprintf("keystate: %s (%d keys, for example %s): %v", strings.Join(texts, ", "), e.Keys, e.Example, ErrMismatch)
}

func (e *MismatchError) Unwrap() error { return ErrMismatch }

// mismatches gathers the differences of keys that are not dropped.
type mismatches struct {
	keys    map[Mismatch]int
	changed int
	example *Key
}

func (g *mismatches) add(k *Key, list []Mismatch) {
	if len(list) == 0 {
		return
	}
	if g.keys == nil {
		g.keys = map[Mismatch]int{}
	}
	for _, m := range list {
		g.keys[m]++
	}
	if g.changed++; g.example == nil || string(k.Name()) < string(g.example.Name()) {
		g.example = k
	}
}

// list returns them in an order of its own: of the detectors' names.
func (g *mismatches) list() []Mismatch {
	var list []Mismatch
	for m, n := range g.keys {
		m.Keys = n
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Mismatch) int {
		return cmp.Or(strings.Compare(a.Detector, b.Detector), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Params, b.Params))
	})
	return list
}

// err is the refusal of what differs; nil where nothing does.
func (g *mismatches) err() error {
	if g.changed == 0 {
		return nil
	}
	return &MismatchError{List: g.list(), Keys: g.changed, Example: Digest(g.example.Name())}
}

// Layout is the fingerprint of Sample.Values, which held samples carry.
func (c *Config) Layout() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, c.Dim)
	for _, w := range c.Windows {
		fmt.Fprint(h, ";", w.Fingerprint, w.Columns)
	}
	return h.Sum64()
}
