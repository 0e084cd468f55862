package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

type silenceTestKey struct {
	name         string
	offset, time int64
	gone, silent bool
}

// silenceTestPartition returns n keys.
func silenceTestPartition(n int) []*silenceTestKey {
	keys := make([]*silenceTestKey, n)
	for i := range keys {
		keys[i] = &silenceTestKey{name: fmt.Sprint("key", i), time: math.MinInt64}
	}
	return keys
}

// watchOf returns the watch of a list of keys.
func watchOf(limit int64, keys *[]*silenceTestKey) silenceWatch[*silenceTestKey] {
	return newSilenceWatch(limit, watchable[*silenceTestKey]{
		All: func(yield func(*silenceTestKey) bool) {
			for _, k := range *keys {
				if !yield(k) {
					return
				}
			}
		},
		Len:    func() int { return len(*keys) },
		Newest: func(k *silenceTestKey) int64 { return k.time },
		Silent: func(k *silenceTestKey) bool { return k.silent },
		Gone:   func(k *silenceTestKey) bool { return k.gone },
		Compare: func(a, b *silenceTestKey) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.name, b.name))
		},
	})
}

// TestSilenceWatch compares the keys that become silent with a search of all keys.
func TestSilenceWatch(t *testing.T) {
	rng := seedtest.New(t)
	for range 50 {
		keys := silenceTestPartition(1 + rng.IntN(12))
		w := watchOf(20, &keys)
		w.Plan(true)
		for watermark := range int64(300) {
			k := keys[rng.IntN(len(keys))]
			k.offset = watermark
			if k.time = max(k.time, watermark+rng.Int64N(5)); k.silent {
				if k.silent = false; !w.Ends(k.time, watermark) {
					t.Fatalf("a sample of %d does not end a silence at %d", k.time, watermark)
				}
				w.Add(k, k.time)
			}
			if n := rng.IntN(100); n == 0 { // undone
				w.Reset()
				w.Plan(true)
			} else if n == 1 && len(keys) > 3 {
				k.gone = true
				keys = slices.DeleteFunc(keys, func(o *silenceTestKey) bool { return o == k })
			}
			var want []*silenceTestKey
			for _, k := range keys {
				if !k.silent && k.time < watermark-20 {
					want = append(want, k)
				}
			}
			slices.SortFunc(want, w.keys.Compare)
			if w.Next() > watermark {
				if len(want) > 0 {
					t.Fatalf("at %d keys become silent, they are looked for at %d", watermark, w.Next())
				}
				continue
			}
			got := w.Due(watermark)
			if !slices.Equal(got, want) {
				t.Fatalf("%d keys become silent at %d, want %d", len(got), watermark, len(want))
			}
			for _, k := range got {
				k.silent = true
			}
			if w.Plan(true); w.Next() <= watermark {
				t.Fatalf("at %d, keys are looked for again at %d", watermark, w.Next())
			}
		}
		if w.Plan(false); w.Next() != math.MaxInt64 {
			t.Fatalf("keys are looked for at %d while none becomes silent", w.Next())
		}
	}
}

// TestKeysThatAreGone: keys that come and go do not pile up.
func TestKeysThatAreGone(t *testing.T) {
	keys := silenceTestPartition(10)
	w := watchOf(1e15, &keys)
	for i := range int64(20000) {
		keys[0].gone = true
		keys = append(keys[1:], &silenceTestKey{time: i})
		if w.Add(keys[9], i); i >= w.Next() {
			w.Due(i)
		}
		w.Plan(true)
	}
	if n := w.quiet.Len(); n > 100 {
		t.Errorf("%d entries of %d keys", n, len(keys))
	}
}

// TestAnomaly compares the silences of a few lengths with what they should be.
func TestAnomaly(t *testing.T) {
	w := newSilenceWatch(1_000_000, watchable[*silenceTestKey]{})
	id := [16]byte{7}
	open := w.Open(id, 0, 1_500_000)
	if open.ID != id || open.Start != 0 || open.End != 1_500_000 || open.OpenedAt != 1_500_000 || open.PeakTime != 1_500_000 ||
		open.PeakScore != 1.5 || open.Threshold != 1 || open.Severity != 50 || open.Revision != 1 {
		t.Errorf("opened as %+v", open)
	}
	for until, severity := range map[int64]uint8{
		-5: 50, 1_999_999: 50, 2_000_000: 67, 4_000_000: 84, 7_999_999: 84, 8_000_000: 100, math.MaxInt64: 100,
	} {
		a := w.Close(open, until)
		end := max(until, 0)
		if a.ID != id || a.End != end || a.PeakTime != end || a.PeakScore != float32(float64(end)/1e6) || a.Severity != severity ||
			a.OpenedAt != 1_500_000 || a.Revision != 2 {
			t.Errorf("closed at %d as %+v, want severity %d", until, a, severity)
		}
	}
	if open.Revision != 1 {
		t.Error("the open anomaly is changed")
	}
}
