package schemas

import (
	"fmt"
	"testing"
)

func TestSplitter(t *testing.T) {
	s := NewSplitter([]string{"temperature", "v"})
	for _, key := range []string{"press-1", "a/b", "x"} {
		r := Reading{Key: []byte(key), Time: 7, Values: []float64{1, 2}}
		var got []string
		for i := range s.Samples(&r) {
			k, at, v := s.Sample(&r, i)
			got = append(got, fmt.Sprint(string(k), at, v))
		}
		if want := fmt.Sprint([]string{key + "/temperature7 [1]", key + "/v7 [2]"}); fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		if n := s.KeyBytes(&r); n != len(key)+12 {
			t.Errorf("keys of %q have up to %d bytes", key, n)
		}
	}
	r := Reading{Key: []byte("k"), Values: []float64{1, 2}}
	var none *Splitter
	k, _, v := none.Sample(&r, 0)
	if NewSplitter(nil) != nil || none.Samples(&r) != 1 || string(k) != "k" || len(v) != 2 || none.KeyBytes(&r) != 1 {
		t.Error("a reading that is not split is one sample as it is")
	}
	if n := testing.AllocsPerRun(100, func() {
		for i := range s.Samples(&r) {
			s.Sample(&r, i)
		}
	}); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

// TestSplitterOfReadings: of a record of several readings, each gives as many samples as there are names.
func TestSplitterOfReadings(t *testing.T) {
	r := Reading{Values: make([]float64, 2)}
	r.items = &items{}
	for i := range 3 {
		r.items.item = Reading{Key: fmt.Append(nil, "k", i/2), Time: int64(i), Values: []float64{float64(i), float64(-i)}}
		r.items.add()
	}
	s := NewSplitter([]string{"a", "b"})
	var got []string
	for i := range s.Samples(&r) {
		k, at, v := s.Sample(&r, i)
		got = append(got, fmt.Sprint(string(k), " ", at, v))
	}
	if want := "[k0/a 0 [0] k0/b 0 [0] k0/a 1 [1] k0/b 1 [-1] k1/a 2 [2] k1/b 2 [-2]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if n := s.KeyBytes(&r); n != 4 {
		t.Errorf("keys of up to %d bytes", n)
	}
	r.newItems()
	if s.Samples(&r) != 0 || s.KeyBytes(&r) != 0 {
		t.Error("a record without readings has samples")
	}
}
