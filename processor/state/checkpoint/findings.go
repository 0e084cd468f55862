package checkpoint

import (
	"slices"

	"odradek/processor/state/series"
)

// findings are the faults and differences of the last heads of keys.
type findings struct {
	mismatch map[*series.Key][]Mismatch // content that another configuration made
	rewrite  map[*series.Key]struct{}   // keys with such content, to be written again
	broken   map[*series.Key]broken     // keys whose head is not complete
}

// broken is a head with missing segments or fragments. They may follow: after a cycle that
// was cut off, the next one wrote them again.
type broken struct {
	err   error
	value []byte
}

// newFindings returns findings of no key.
func newFindings() findings {
	return findings{mismatch: map[*series.Key][]Mismatch{}, rewrite: map[*series.Key]struct{}{}, broken: map[*series.Key]broken{}}
}

// Incomplete returns why the key's last head is not complete, after Finish; nil if it is.
func (f *findings) Incomplete(k *series.Key) error { return f.broken[k].err }

// Mismatches returns the content of the key's last head that another configuration made.
func (f *findings) Mismatches(k *series.Key) []Mismatch { return f.mismatch[k] }

// Rewritten visits the keys that have to be written again.
func (f *findings) Rewritten(yield func(*series.Key) bool) {
	for k := range f.rewrite {
		if !yield(k) {
			return
		}
	}
}

// mismatched notes that loaded content of a key comes from another configuration.
func (f *findings) mismatched(k *series.Key, m Mismatch) {
	if list := f.mismatch[k]; !slices.Contains(list, m) {
		f.mismatch[k] = append(list, m)
	}
	f.rewrite[k] = struct{}{}
}

// differences notes what another configuration has made of a key's state.
func (f *findings) differences(k *series.Key, list []series.Difference) {
	for _, d := range list {
		f.mismatched(k, Mismatch{Detector: d.Detector, Fields: d.Fields, Window: d.Window, Params: d.Params})
	}
}

// drop discards what was found of a key.
func (f *findings) drop(k *series.Key) {
	delete(f.mismatch, k)
	delete(f.rewrite, k)
	delete(f.broken, k)
}
