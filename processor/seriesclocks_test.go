package processor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"odradek/detectors/seedtest"
)

// TestSeriesClocks: the series whose clock is ahead is named, with disorder; none is where readings are sparse, come in batches or
// late, or where two series differ and either may be wrong.
func TestSeriesClocks(t *testing.T) {
	r := seedtest.New(t)
	second := int64(1e6)
	for _, c := range []struct {
		name   string
		series int
		record func(r *rand.Rand, i int) (series int, time int64)
		want   bool
	}{
		{"one ahead", 10, func(r *rand.Rand, i int) (int, int64) {
			at := int64(i)*second/10 + r.Int64N(second)
			if i%10 == 9 {
				at += 300 * second
			}
			return i % 10, at
		}, true},
		{"all right, with disorder", 10, func(r *rand.Rand, i int) (int, int64) { return i % 10, int64(i)*second/10 + r.Int64N(second) }, false},
		{"hourly readings", 25, func(_ *rand.Rand, i int) (int, int64) { return i % 25, int64(i) * 144 * second }, false},
		{"batches", 5, func(_ *rand.Rand, i int) (int, int64) { // of 20 readings, each series after the other
			batch := i / 20
			return batch % 5, int64(batch/5)*20*second + int64(i%20)*second
		}, false},
		{"one behind", 10, func(r *rand.Rand, i int) (int, int64) {
			at := int64(i)*second/10 + r.Int64N(second)
			if i%10 == 3 {
				at -= 3600 * second
			}
			return i % 10, at
		}, false},
		{"two", 2, func(_ *rand.Rand, i int) (int, int64) { return i % 2, int64(i)*second + int64(i%2)*300*second }, false},
	} {
		for _, n := range []int{25, 200} {
			var clocks SeriesClocks
			for i := range n {
				s, at := c.record(r, i)
				clocks.Add(fmt.Appendf(nil, "s%d", s), at)
			}
			name, by, ok := clocks.Ahead(time.Minute)
			if ok != c.want || ok && (name != "s9" || by < 290*time.Second || by > 300*time.Second) {
				t.Errorf("%s, %d records: %q by %v (%t)", c.name, n, name, by, ok)
			}
		}
	}
}
