package plan

import (
	"slices"
	"testing"
)

func TestIKASSTShapes(t *testing.T) {
	for w := 2; w <= ikasstMaxWindow; w++ {
		for _, k := range []int{2, 5, min(w, ikasstMaxKrylov)} {
			s, ps := ikasstBest(w, k, 2)
			if s.rows*s.lanes < w || s.lanes > 32 || s.lanes&(s.lanes-1) != 0 || !slices.Contains(ikasstRows, s.rows) {
				t.Errorf("w=%d: %+v", w, s)
			}
			if n := ikasstShared(s.rows, s.lanes, k); n > ikasstSharedMemory {
				t.Errorf("w=%d, k=%d: %d bytes of shared memory", w, k, n)
			}
			if ps < 10 || ps > 100_000_000 {
				t.Errorf("w=%d, k=%d: %d ps", w, k, ps)
			}
		}
	}
	for _, rows := range ikasstRows {
		if rows < 6 {
			t.Errorf("%d rows: the tridiagonal problem has no room in the basis", rows)
		}
	}
}
