package config

import (
	"fmt"
	"strconv"
	"strings"
)

// This file has numbers of bytes as settings write them.

// ByteSize is a number of bytes; in text also with KiB, MiB or GiB.
type ByteSize int64

var byteUnits = []struct {
	name string
	n    int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads 1048576, 1024KiB, 1MiB or 1.5MiB.
func (s *ByteSize) UnmarshalText(b []byte) error {
	t, unit := strings.TrimSpace(string(b)), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(t, u.name); ok {
			t, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		if n != 0 && (n*unit)/unit != n {
			return fmt.Errorf("%q is too large", b)
		}
		*s = ByteSize(n * unit)
		return nil
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || f*float64(unit) >= 1<<62 || f != f {
		return fmt.Errorf("%q is not a size: write it as 512MiB or 1.5GiB", b)
	}
	*s = ByteSize(f * float64(unit))
	return nil
}

// String returns the number with the largest unit of which it is a multiple.
func (s ByteSize) String() string {
	for _, u := range byteUnits {
		if s != 0 && u.n > 1 && int64(s)%u.n == 0 {
			return strconv.FormatInt(int64(s)/u.n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
