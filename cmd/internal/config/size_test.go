package config

import "testing"

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
	}{{"0", 0}, {"1", 1}, {"64KiB", 65536}, {" 1.5 MiB ", 3 << 19}, {"1GiB", 1 << 30}, {"12B", 12}} {
		var s ByteSize
		if err := s.UnmarshalText([]byte(c.in)); err != nil || int64(s) != c.want {
			t.Errorf("%q: %d, %v", c.in, s, err)
		}
		var again ByteSize
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%q prints as %q", c.in, s)
		}
	}
	for _, bad := range []string{"", "MiB", "1MB", "x", "NaN", "9999999999GiB", "1e300"} {
		var s ByteSize
		if err := s.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q reads as %d", bad, s)
		}
	}
}
