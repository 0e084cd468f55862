package checkpoint

import (
	"fmt"
	"testing"

	"odradek/detectors/simple"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// head returns the head of a key whose last sample has an offset, with a body of about so many bytes.
func head(last int64, bytes int) []byte {
	var e changelog.Encoder
	e.HeadStart(&changelog.HeadStart{AsOf: last + 1})
	e.Int(last)
	e.B = append(e.B, make([]byte, bytes)...)
	return e.B
}

// TestCut keeps the keys that were used last, as many as fit.
func TestCut(t *testing.T) {
	z, err := simple.NewZScore(1000)
	if err != nil {
		t.Fatal(err)
	}
	v := NewSurvey(series.NewSets([]series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		[]series.DetectorConfig{{Name: "z", Detector: z, Stride: 1, Fingerprint: 2}}, 1<<20))
	name := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	put := func(i int, value []byte) { v.Add(changelog.AppendKey(nil, changelog.Head, name(i)), value) }
	for i := range 10 {
		put(i, head(int64(100-i), 500))
	}
	put(3, nil)             // deleted
	put(9, head(1000, 500)) // used again
	v.Add([]byte{}, nil)    // no record
	keep, drop := v.Cut(1 << 40)
	if keep != 9 || drop != 0 || v.Drops(name(8)) {
		t.Fatalf("without a limit %d stay, %d go", keep, drop)
	}
	size := v.keys[v.hash(name(0))].size
	if keep, drop = v.Cut(3*size + 20); keep != 3 || drop != 6 {
		t.Fatalf("in %d bytes %d stay, %d go", 3*size+20, keep, drop)
	}
	for i, want := range []bool{false, false, true, false, true, true, true, true, true, false} {
		if v.Drops(name(i)) != want {
			t.Errorf("key %d is dropped: %v, want %v", i, !want, want)
		}
	}
}
