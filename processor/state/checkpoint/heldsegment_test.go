package checkpoint

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// words returns the samples of a list.
func words(l *series.HeldSamples[string]) (all [][]uint64) {
	for i := range l.Len() {
		all = append(all, l.At(i))
	}
	return all
}

func equal(a, b *series.HeldSamples[string]) bool {
	return slices.EqualFunc(words(a), words(b), slices.Equal)
}

// TestHeldSegments holds and releases samples at random and reads what was written. Between two
// snapshots no sample is written twice, and each head can be read with the segments that were
// there when it was written.
func TestHeldSegments(t *testing.T) {
	rng := seedtest.New(t)
	named, late := 0, 0
	for range 100 {
		f := HeldFormat{Layout: rng.Uint64(), Dim: 1 + rng.IntN(3)}
		w := NewHeldWriter(f, 2*8*(2+f.Dim)*(1+rng.IntN(6)))
		size := f.Size(2 * 8 * (2 + f.Dim) * w.size)
		if size != w.size {
			t.Fatalf("segments of %d samples, want %d", w.size, size)
		}
		buffer := series.NewReorderBuffer[string](0, nil)
		held := series.NewHeldSamples("k", f.Dim, 0)
		records, segments := map[HeldName][]byte{}, []HeldSegment(nil)
		born, lastTime, offset := rng.Int64N(100), int64(math.MinInt64), int64(100)
		for range 30 {
			for range rng.IntN(10) {
				offset += 1 + rng.Int64N(3)
				values := make([]float64, f.Dim)
				for i := range values {
					values[i] = rng.NormFloat64()
				}
				buffer.Add(held, max(lastTime, -1000)+1+rng.Int64N(50), offset, values, 0)
			}
			for range min(held.Len(), rng.IntN(12)) {
				lastTime = held.First()
				buffer.Release(held)
			}
			for held.Len() > 0 && held.First() <= lastTime {
				buffer.Release(held)
			}
			if rng.IntN(8) == 0 && len(segments) > 0 { // a sample from between a segment's
				before, rest := SplitHeld(segments, segments[len(segments)-1].last-1)
				if len(rest) != 1 || len(before) != len(segments)-1 {
					t.Fatalf("%d segments are before the last one of %d", len(before), len(segments))
				}
				segments = before
				late++
			}
			old := segments
			segments = w.Segments(old, held, lastTime, born, func(name HeldName, value []byte) {
				if ContainsHeld(old, name) {
					t.Fatalf("segment %v is written again", name)
				}
				if HeldSum(value) != name.Sum {
					t.Fatalf("segment %v has another sum", name)
				}
				records[name] = slices.Clone(value)
			})
			if slices.ContainsFunc(segments, func(b HeldSegment) bool { return b.newest <= lastTime }) {
				t.Fatalf("segments %v are named, samples up to %d are released", segments, lastTime)
			}
			if rest := len(w.tail); rest >= w.size && held.Len() > 0 {
				t.Fatalf("%d samples are in no segment, which has %d", rest, w.size)
			}
			var e changelog.Encoder
			w.AppendHead(&e, held, segments)
			find := func(name HeldName) []byte {
				named++
				if !ContainsHeld(segments, name) {
					t.Fatalf("the head names %v", name)
				}
				return records[name]
			}
			d := changelog.Decoder{B: e.B}
			l := f.Read(&d, lastTime, born, find)
			if d.Bad || len(d.B) > 0 || l.Other || l.Missing || !slices.Equal(l.Segments, segments) {
				t.Fatalf("%+v, %d bytes are left, bad: %v", l, len(d.B), d.Bad)
			}
			if again := LoadedSamples("k", f.Dim, &l); !equal(again, held) {
				t.Fatalf("%v is read as %v", words(held), words(again))
			}
			for end := range e.B {
				d := changelog.Decoder{B: e.B[:end]}
				if f.Read(&d, lastTime, born, find); !d.Bad {
					t.Fatalf("%d of %d bytes are taken", end, len(e.B))
				}
			}
			if len(segments) == 0 {
				continue
			}
			d = changelog.Decoder{B: e.B}
			other := HeldFormat{f.Layout + 1, f.Dim}
			if l := other.Read(&d, lastTime, born, nil); d.Bad || len(d.B) > 0 || !l.Other || l.Layout != f.Layout ||
				len(l.Foreign) != len(segments) || LoadedSamples("k", f.Dim, &l).Len() > 0 {
				t.Fatalf("of another layout: %+v", l)
			}
			for i, find := range []func(HeldName) []byte{
				func(HeldName) []byte { return nil },
				func(name HeldName) []byte { return records[name][:len(records[name])-1] },
				func(name HeldName) []byte { return append(slices.Clone(records[name]), 0) },
			} {
				d = changelog.Decoder{B: e.B}
				if l := f.Read(&d, lastTime, born, find); d.Bad || !l.Missing {
					t.Fatalf("%d: a segment is missing: %+v", i, l)
				}
			}
			d = changelog.Decoder{B: e.B}
			if l := f.Read(&d, lastTime, born+1, find); d.Bad || !l.Missing {
				t.Fatalf("the segment of another life of the key is taken: %+v", l)
			}
		}
	}
	if named == 0 || late == 0 {
		t.Errorf("%d segments were named, %d broken up", named, late)
	}
}
