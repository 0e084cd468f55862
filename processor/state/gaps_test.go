package state

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/state/rules"
)

// wideSteady is a detector whose scores are of the rows from 4 before the fresh one on.
type wideSteady struct{ plain }

func (wideSteady) Reach() (from, to int) { return 4, 0 }

// TestGaps: of a series with gaps those rows have no score whose rows span one, by a plain reading of the samples' times; all others
// have the score that they have without MAX_GAP, in batches of any size.
func TestGaps(t *testing.T) {
	r := seedtest.New(t)
	withheld, scored := 0, 0
	for range 200 {
		window, stride := 5+r.IntN(60), 1+r.IntN(20)
		maxGap := []int64{rules.OwnGap, 50}[r.IntN(2)]
		var times []int64
		now := int64(0)
		for range 50 + r.IntN(1000) {
			if now += 1 + r.Int64N(9); r.IntN(60) == 0 {
				now += r.Int64N(300)
			}
			times = append(times, now)
		}
		rows := func(maxGap int64, batch int) []Row {
			cfg := benchConfig(window, stride)
			cfg.Detectors[0].Detector = wideSteady{plain(window)}
			cfg.Reading.MaxGap = maxGap
			s, b := New(cfg), &detectors.Batch{}
			apply := func() {
				levels(b)
				s.Apply(b)
				b.Reset()
			}
			for i, at := range times {
				s.Fold(&Sample{Key: []byte("k"), Time: at, Offset: int64(i), Values: []float64{float64(i * i % 7)}}, b)
				if i%batch == 0 {
					apply()
				}
			}
			apply()
			return s.Rows
		}
		all, got := rows(0, 1), rows(maxGap, 1+r.IntN(100))
		if len(all) != len(got) {
			t.Fatalf("%d rows, %d without gaps", len(got), len(all))
		}
		for i := range got {
			at, task := int(got[i].Offset), int(got[i].Offset)
			if all[i].State == RowScored { // the newest sample of its task
				first := window - 1
				task = first + (at-first)/stride*stride + stride - 1
			}
			limit := maxGap
			if maxGap == rules.OwnGap {
				limit = usualLimit(times[max(0, task+1-min(window+stride-1, usualRows+1)):min(len(times), task+1)])
			}
			spans, left := false, int32(0)
			for j := max(1, at-3); j <= at; j++ {
				if times[j]-times[j-1] > limit {
					spans, left = true, int32(5-(at-j+1))
				}
			}
			want := all[i]
			if want.State == RowScored {
				scored++
				if spans {
					want.State, want.Remaining, want.Score, want.Judged = RowWarmingUp, left, nan, nan
					withheld++
				}
			}
			want.Key, want.Behind, got[i].Behind = got[i].Key, 0, 0
			if a, b := flatten([]Row{got[i]}), flatten([]Row{want}); !slices.Equal(a, b) {
				t.Fatalf("window %d, stride %d, gap %d, sample %d: %+v, want %+v", window, stride, maxGap, at, a, b)
			}
		}
	}
	if withheld < 500 || scored < 10*withheld {
		t.Errorf("%d of %d scores span a gap", withheld, scored)
	}
}

// usualLimit is ten times the interval that one in a hundred, and at least one, is longer than; no limit for few intervals.
func usualLimit(times []int64) int64 {
	var all []int64
	for i := 1; i < len(times); i++ {
		all = append(all, times[i]-times[i-1])
	}
	if len(all) < 20 {
		return math.MaxInt64
	}
	slices.Sort(all)
	return 10 * all[len(all)-1-max(1, len(all)/100)]
}
