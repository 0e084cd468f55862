package checkpoint

import (
	"errors"
	"slices"
	"testing"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// TestStaging: segments wait in order of window and number, with their memory, until they are
// discarded; segments are there by what they contain.
func TestStaging(t *testing.T) {
	set := setsOf(t, 2).For([]byte("k"))
	k, sw := series.NewKey([]byte("k"), set), &set.Windows[0]
	for i := range int64(window) {
		k.Windows[0].Reserve(sw)
		k.Windows[0].PushValue(sw, i, float64(i))
	}
	s := newStaging()
	want := []uint64{series.SegmentID(sw.SegmentRows, 0), series.SegmentID(sw.SegmentRows, sw.SegmentRows)}
	for _, first := range []int64{sw.SegmentRows, 0} {
		var e changelog.Encoder
		series.Writer{Encoder: &e}.Segment(&k.Series, 0, first, first+sw.SegmentRows)
		if err := s.addSegment(k.Name(), e.B, 1, series.SegmentID(sw.SegmentRows, first)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.stored(k.Name()); len(got) != 2 || got[0].Name.ID != want[0] || got[1].Name.ID != want[1] || s.Bytes() == 0 {
		t.Errorf("segments %v of %d bytes wait", got, s.Bytes())
	}
	if s.unstage(k.Name()); s.Bytes() != 0 || len(s.stored(k.Name())) > 0 {
		t.Errorf("%d bytes wait after all were discarded", s.Bytes())
	}
	segment := []byte("samples")
	name := HeldName{First: 5, Sum: HeldSum(segment)}
	if err := s.addHeld(k.Name(), segment, name.First, name.Sum+1); !errors.Is(err, changelog.ErrCorrupt) {
		t.Errorf("a segment of another content: %v", err)
	}
	if err := s.addHeld(k.Name(), segment, name.First, name.Sum); err != nil || !slices.Equal(s.held["k"][name], segment) {
		t.Errorf("a segment: %v, there are %v", err, s.held)
	}
	if err := s.addHeld(k.Name(), nil, name.First, name.Sum); err != nil || len(s.held["k"]) > 0 {
		t.Errorf("a deleted segment: %v, there are %v", err, s.held)
	}
}

// TestFindings: a difference is noted once, and its key is written again.
func TestFindings(t *testing.T) {
	f, k := newFindings(), series.NewKey([]byte("k"), series.None)
	list := []series.Difference{{Detector: "a", Window: 1}, {Detector: "b", Fields: true}, {Detector: "a", Window: 1}}
	f.differences(k, list)
	if m := f.Mismatches(k); !slices.Equal(m, []Mismatch{{Detector: "a", Window: 1}, {Detector: "b", Fields: true}}) {
		t.Errorf("mismatches %v", m)
	}
	cause := errors.New("a segment is missing")
	f.broken[k] = broken{err: cause}
	if again := slices.Collect(f.Rewritten); len(again) != 1 || again[0] != k || !errors.Is(f.Incomplete(k), cause) {
		t.Errorf("%v are written again, the key is incomplete: %v", again, f.Incomplete(k))
	}
	if f.drop(k); f.Incomplete(k) != nil || f.Mismatches(k) != nil || len(f.rewrite) > 0 {
		t.Errorf("findings %v after they were dropped", f)
	}
}
