package rules

import (
	"testing"

	"odradek/schemas"
)

// TestWildcard: the same fields are wildcards here and where records are read.
func TestWildcard(t *testing.T) {
	for _, f := range []string{"*", "metrics.*", `metrics\.*`, `metrics.\*`, `a\\.*`, "a.b", "*.b", ".*", "",
		"a.*.b", `a\.*.b`, `a.\*.b`, `a\\.*.b`, "a.b*.c", "*.*"} {
		r := Reading{Decoding: Decoding{Fields: []string{f}}}
		if got := r.wildcard(); got != schemas.IsWildcard(f) {
			t.Errorf("field %q: a wildcard is %v, where records are read %v", f, got, !got)
		}
	}
}
