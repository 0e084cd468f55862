package state

import (
	"slices"
	"testing"
)

// addRecord folds a record of several samples.
func (p *partitionLog) addRecord(record int64, times ...int64) {
	latest := slices.Max(times)
	for i, at := range times {
		sm := Sample{Key: []byte("k"), Time: at, Ahead: latest - at, Offset: p.cfg.Place(record, i), Values: []float64{float64(i)}}
		p.log = append(p.log, sm)
		for !p.Fits(p.b) {
			p.flush()
		}
		p.Fold(&sm, p.b)
	}
	for !p.Fits(p.b) {
		p.flush()
	}
	p.flush()
}

// TestRecordThatLeaps: a record is judged by the latest time of its samples: where one of them leaps, none is folded before the votes
// of the next records, by their first samples, and all are accepted or rejected together.
func TestRecordThatLeaps(t *testing.T) {
	calm := []int64{0, second, 2 * second}
	newLog := func() *partitionLog {
		cfg := jumpConfig(hour)
		cfg.SampleBits = SeveralBits
		f := newPartitionLog(cfg)
		for r := range int64(4) {
			var times []int64
			for _, at := range calm {
				times = append(times, r*10*second+at)
			}
			f.addRecord(r, times...)
		}
		if len(f.folded()) != 12 || f.Suspects.Len() != 0 {
			t.Fatalf("%d samples folded, %d suspects: the first records confirm each other", len(f.folded()), f.Suspects.Len())
		}
		f.Rows = f.Rows[:0]
		return f
	}
	for _, c := range []struct {
		name     string
		next     [][]int64 // after the record that leaps, of three samples
		rejected int64
		folded   []int64
	}{
		{"alone", [][]int64{{50 * second, 51 * second}, {60 * second}, {70 * second, 69 * second}}, 3,
			[]int64{50 * second, 51 * second, 60 * second, 70 * second}}, // the last one is late
		{"confirmed", [][]int64{{year + 3*second, year + 2*second}, {year + 4*second, year + 5*second}}, 0,
			// together, in order of time
			[]int64{40 * second, 41 * second, year, year + 2*second, year + 3*second, year + 4*second, year + 5*second}},
	} {
		f := newLog()
		f.addRecord(4, 40*second, year, 41*second)
		if f.Suspects.Len() != 3 || len(f.Rows) != 0 || !f.Suspects.Has(4) {
			t.Errorf("%s: %d suspects, %d samples folded", c.name, f.Suspects.Len(), len(f.Rows))
		}
		for i, times := range c.next {
			f.addRecord(5+int64(i), times...)
		}
		if got := f.folded(); !slices.Equal(got, c.folded) || f.Tally.Counts[Rejected] != c.rejected || f.Suspects.Len() != 0 {
			t.Errorf("%s: folded %v, want %v; %d rejected, %d suspects", c.name, got, c.folded, f.Tally.Counts[Rejected], f.Suspects.Len())
		}
		all := int64(f.Suspects.Len())
		for _, n := range f.Tally.Counts {
			all += n
		}
		if all != int64(len(f.log)) {
			t.Errorf("%s: of %d samples %d have an outcome", c.name, len(f.log), all)
		}
	}
}
