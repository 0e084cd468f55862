package series

import (
	"fmt"
	"math"
	"testing"

	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// transforming returns a series whose values a, b and c are transformed, of a set with one detector.
func transforming(entries ...string) *Series {
	sets := NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		[]DetectorConfig{{Name: "d", Detector: scorer{window: 3}, Stride: 1}}, 1<<10)
	sets.Prepare(&rules.Reading{Decoding: rules.Decoding{Fields: []string{"a", "b[2]", "c"}}, Order: rules.Order{Transforms: entries}})
	return &NewKey([]byte("k"), sets.For([]byte("k"))).Series
}

// TestTransform gives each transform a sequence of values, 2 s apart.
func TestTransform(t *testing.T) {
	none, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name         string
		values, want []float64
		resets       int
	}{
		{"rate", []float64{10, 14, none, 20, 3, 3, 9}, []float64{none, 2, none, 1.5, none, 0, 3}, 1},
		{"rate", []float64{none, 1, 2}, []float64{none, none, 0.5}, 0},
		{"rate", []float64{1, inf, 2}, []float64{none, none, 0.25}, 0},
		{"difference", []float64{10, 14, none, 20, 3}, []float64{none, 4, none, 6, -17}, 0},
		{"log", []float64{1, 0, -1, math.E, none}, []float64{0, none, none, 1, none}, 0},
		{"abs", []float64{-2, 0, 3, none}, []float64{2, 0, 3, none}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, resets := transforming("a="+c.name), 0
			for i, v := range c.values {
				got, reset := k.Transform(&k.Set.Transforms[0], int64(2e6*i), v)
				if reset {
					resets++
				}
				if want := c.want[i]; got != want && (got == got || want == want) {
					t.Errorf("value %d, %v, became %v, want %v", i, v, got, want)
				}
			}
			if resets != c.resets {
				t.Errorf("%d resets, want %d", resets, c.resets)
			}
		})
	}
	k := transforming("a=rate")
	for i, want := range []float64{none, none, 7} { // two values at one time: the later one counts
		if got, _ := k.Transform(&k.Set.Transforms[0], []int64{0, 0, 1e6}[i], []float64{1, 3, 10}[i]); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("value %d became %v, want %v", i, got, want)
		}
	}
}

// TestFormer writes and reads what transforms remember. A series without a value is not written, and one that is cleared has none.
func TestFormer(t *testing.T) {
	k := transforming("b=rate", "c=difference", "a=log")
	if k.Former.Any() || len(k.Set.Transforms) != 4 {
		t.Fatalf("%d transforms, and a value before the first sample: %v", len(k.Set.Transforms), k.Former.Any())
	}
	for i := range k.Set.Transforms {
		k.Transform(&k.Set.Transforms[i], 5, float64(i)+0.5)
	}
	var e changelog.Encoder
	Writer{&e}.Former(k)
	other := transforming("c=difference", "b[2]=rate")
	r := Reader{Decoder: changelog.Decoder{B: e.B}}
	if r.Former(other); r.Bad || len(r.B) > 0 {
		t.Fatal(r.Bad, len(r.B))
	}
	for i, want := range []float64{2, 3, 4} {
		s := &other.Set.Transforms[i]
		if got, _ := other.Transform(s, 1e6+5, float64(i)+1.5+want); got != want {
			t.Errorf("column %d: %v, want %v", s.Column, got, want)
		}
	}
	foreign := transforming("b=difference")
	if (&Reader{Decoder: changelog.Decoder{B: e.B}}).Former(foreign); foreign.Former.Any() {
		t.Error("a difference remembers the values of a rate")
	}
	for n := range e.B {
		r := Reader{Decoder: changelog.Decoder{B: e.B[:n]}}
		if r.Former(other); !r.Bad {
			t.Errorf("the first %d of %d bytes are taken", n, len(e.B))
		}
	}
	if k.Clear(); k.Former.Any() {
		t.Error("a series that is cleared remembers a value")
	}
}

// TestTransformsOfSets: with each field a series of its own, the key decides; series of one transform share a set.
func TestTransformsOfSets(t *testing.T) {
	sets := NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		[]DetectorConfig{{Name: "d", Detector: scorer{window: 3}, Stride: 1}}, 1<<10)
	sets.Prepare(&rules.Reading{Decoding: rules.Decoding{Fields: []string{"load", "bytes", "x[2]"}, Series: true},
		Order: rules.Order{Transforms: []string{"bytes=rate", "x=difference"}}})
	for key, want := range map[string]string{"m/bytes": "[1]", "n/bytes": "[1]", "m/load": "[]", "m/x[1]": "[2]", "bytes/load": "[]"} {
		var got []int
		for _, s := range sets.For([]byte(key)).Transforms {
			got = append(got, int(s.Transform))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: transforms %v, want %s", key, got, want)
		}
	}
	if sets.For([]byte("m/bytes")) != sets.For([]byte("n/bytes")) || sets.For([]byte("m/bytes")) == sets.For([]byte("m/load")) {
		t.Error("sets are shared by other series than one transform's")
	}
}

func BenchmarkTransform(b *testing.B) {
	for _, name := range []string{"rate", "difference", "log", "abs"} {
		b.Run(name, func(b *testing.B) {
			k := transforming("a=" + name)
			s := &k.Set.Transforms[0]
			i, sum := int64(0), 0.0
			for b.Loop() {
				i++
				v, _ := k.Transform(s, i, float64(i))
				sum += v
			}
		})
	}
}
