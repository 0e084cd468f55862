package series

import (
	"testing"

	"odradek/detectors/seedtest"
)

// TestEven: what is known of the intervals before is right after new rows, and after rows that took the place of others.
func TestEven(t *testing.T) {
	r := seedtest.New(t)
	even, uneven := 0, 0
	for range 300 {
		need := 4 + r.Int32N(60)
		sw := &SetWindow{Columns: []int{0}, Need: need, pool: &pool{words: int(2 * need)}}
		var w Window
		now := int64(0)
		for range 400 {
			if r.IntN(20) == 0 && w.Rows > 0 {
				back := 1 + r.Int64N(int64(w.Rows))
				w.windUp(w.Count - back)
				if now = 0; w.Rows > 0 {
					now = w.Time(0)
				}
			}
			w.Reserve(sw)
			now += []int64{3 + r.Int64N(6), r.Int64N(40)}[min(1, r.IntN(30)/29)]
			w.PushValue(sw, now, 0)
			if w.Rows < 2 || r.IntN(3) > 0 {
				continue
			}
			n := 2 + r.Int32N(w.Rows-1)
			least, most := int64(1<<62), int64(0)
			for i := range n - 1 {
				d := w.Time(i) - w.Time(i+1)
				least, most = min(least, d), max(most, d)
			}
			bound, ok := w.Even(n, 10)
			if want := most <= 10*least && least > 0; ok != want || ok && (bound > least || most > 10*bound) {
				t.Fatalf("%d rows with intervals of %d to %d: even %v from %d on, want %v", n, least, most, ok, bound, want)
			}
			if ok {
				even++
			} else {
				uneven++
			}
		}
	}
	if even < 1000 || uneven < 1000 {
		t.Errorf("%d even, %d not", even, uneven)
	}
}
