package schemas

import (
	"fmt"
	"testing"
)

func TestSplitter(t *testing.T) {
	s := NewSplitter([]string{"temperature", "v"})
	for _, key := range []string{"press-1", "a/b", "x"} {
		r := Reading{Key: []byte(key), Values: []float64{1, 2}}
		var got []string
		for i := range s.Samples() {
			k, v := s.Sample(&r, i)
			got = append(got, fmt.Sprint(string(k), v))
		}
		if want := fmt.Sprint([]string{key + "/temperature[1]", key + "/v[2]"}); fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		if n := s.KeyBytes(&r); n != len(key)+12 {
			t.Errorf("keys of %q have up to %d bytes", key, n)
		}
	}
	r := Reading{Key: []byte("k"), Values: []float64{1, 2}}
	var none *Splitter
	k, v := none.Sample(&r, 0)
	if NewSplitter(nil) != nil || none.Samples() != 1 || string(k) != "k" || len(v) != 2 || none.KeyBytes(&r) != 1 {
		t.Error("a reading that is not split is one sample as it is")
	}
	if n := testing.AllocsPerRun(100, func() {
		for i := range s.Samples() {
			s.Sample(&r, i)
		}
	}); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}
