package series

import (
	"cmp"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

type key struct {
	held *HeldSamples[*key]
	last int64 // of what was released
}

type sample struct {
	time, offset int64
	value        float64
	key          *key
}

// TestBuffer compares a buffer with a list of samples that is sorted and searched:
// releases by the watermark, of overdue samples, and Rebuild in between.
func TestBuffer(t *testing.T) {
	rng := seedtest.New(t)
	for round := range 300 {
		const most = 20
		b := NewReorderBuffer(most, func(k *key, time int64) bool { return time <= k.last })
		keys := make([]*key, 1+rng.IntN(5))
		for i := range keys {
			keys[i] = &key{last: -1}
		}
		var held []sample
		release := func(k *key, remove func(*HeldSamples[*key]) bool, due bool) {
			w := k.held.At(0)
			i := slices.IndexFunc(held, func(s sample) bool { return s.key == k && s.offset == int64(w[1]) })
			if i < 0 || held[i].time != int64(w[0]) || k.held.First() != held[i].time {
				t.Fatalf("round %d: released %v, which is not held", round, w)
			}
			held = slices.Delete(held, i, i+1)
			k.last = int64(w[0])
			l, entries := k.held, b.first.Len()
			if remove(l) {
				k.held = nil
			}
			if due && (l.Len() == 0 && b.first.Len() != entries-1 || l.Len() > 0 && l.time != l.First()) {
				t.Fatalf("round %d: the entry of the released sample is still there", round)
			}
		}
		order := func(s []sample) {
			slices.SortFunc(s, func(a, b sample) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset)) })
		}
		for offset := range int64(200) {
			b.Pass(offset)
			k := keys[rng.IntN(len(keys))]
			if at := k.last + 1 + rng.Int64N(30); !k.held.Has(at) || rng.IntN(2) == 0 {
				if k.held == nil {
					k.held = NewHeldSamples(k, 1, 0)
				}
				b.Add(k.held, at, offset, []float64{1}, 0)
				held = append(held, sample{at, offset, 1, k})
			}
			for watermark := rng.Int64N(20 + offset/2); ; {
				k, due := b.Due(watermark)
				order(held)
				if due != (len(held) > 0 && held[0].time <= watermark) || due && k != held[0].key {
					t.Fatalf("round %d, offset %d: due %v at %d, held %+v", round, offset, due, watermark, held)
				}
				if !due {
					break
				}
				if rng.IntN(8) == 0 {
					release(k, b.Release, false)
				} else {
					release(k, b.ReleaseDue, true)
				}
			}
			for {
				k, at, ok := b.Overdue()
				if !ok {
					break
				}
				for k.held.Len() > 0 && k.held.First() <= at {
					release(k, b.Release, false)
				}
				b.PopOverdue()
			}
			if i := slices.IndexFunc(held, func(s sample) bool { return s.offset <= offset-most }); i >= 0 {
				t.Fatalf("round %d: %+v is held at offset %d", round, held[i], offset)
			}
			if rng.IntN(20) == 0 {
				b.Rebuild(func(yield func(*HeldSamples[*key]) bool) {
					for _, k := range keys {
						yield(k.held)
					}
				})
			}
			n := 0
			for _, k := range keys {
				n += k.held.Len()
			}
			if n := b.first.Len(); n > 2*len(keys)+65 {
				t.Fatalf("round %d: %d entries of %d lists", round, n, len(keys))
			}
			if n != len(held) || b.N != len(held) {
				t.Fatalf("round %d: %d samples in lists and %d counted, want %d", round, n, b.N, len(held))
			}
		}
	}
}

// TestList undoes what it does: samples that are inserted are removed, and those that
// are released come back.
func TestList(t *testing.T) {
	rng := seedtest.New(t)
	l := NewHeldSamples("k", 2, 3)
	for i := range int64(50) {
		at := rng.Int64N(10)
		before := slices.Clone(l.words[l.gone:])
		l.insert(at, i, []float64{1, 2})
		if !l.Has(at) || l.Remove(at, i+1) || !l.Remove(at, i) || !slices.Equal(before, l.words[l.gone:]) {
			t.Fatalf("sample %d at %d: %v, want %v", i, at, l.words[l.gone:], before)
		}
		l.insert(at, i, []float64{1, 2})
		if rng.IntN(3) == 0 {
			before, first := slices.Clone(l.words[l.gone:]), slices.Clone(l.At(0))
			l.drop(0)
			if l.Restore(first); !slices.Equal(before, l.words[l.gone:]) {
				t.Fatalf("%v after a release was undone, want %v", l.words[l.gone:], before)
			}
		}
		for k := range l.Len() - 1 {
			if a, b := l.At(k), l.At(k+1); a[0] > b[0] || a[0] == b[0] && a[1] > b[1] {
				t.Fatalf("%v before %v", a, b)
			}
		}
		if l.Newest() != int64(l.At(l.Len() - 1)[0]) {
			t.Fatal("not the newest")
		}
	}
}
