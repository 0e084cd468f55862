package state

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// xs folds a series of one key, and returns the X of each task's full window by the
// number of its newest row.
func xs(s *State, from int64, series []float64) map[int64][]float32 {
	b, out := &detectors.Batch{}, map[int64][]float32{}
	for i := from; i < int64(len(series)); i++ {
		s.Fold(&Sample{Key: []byte("k"), Offset: i, Time: i, Values: series[i : i+1]}, b)
	}
	for i := range s.tasks.Pending() {
		p := &s.tasks.Pending()[i]
		if p.Index < 0 {
			continue
		}
		if x := b.Rows(int(p.Index)).X; len(x) == int(p.Detector.Full) {
			fresh := s.tasks.copies.Fresh(p)
			out[fresh[len(fresh)-1].Offset+1] = slices.Clone(x)
		}
	}
	execute(b)
	s.Apply(b)
	return out
}

// keeps reports how far the differences of neighbours in X are from the differences of the rows
// first to last of the series (numbers from 1), at most.
func keeps(x []float32, series []float64, newest, first, last int64) float64 {
	worst := 0.0
	oldest := newest - int64(len(x)) + 1
	for i := max(first, oldest) + 1; i <= min(last, newest); i++ {
		got := float64(x[i-oldest]) - float64(x[i-oldest-1])
		worst = max(worst, math.Abs(got-(series[i-1]-series[i-2])))
	}
	return worst
}

// TestCenterKeepsDigits: X has its digits where the window's values are, with a
// spike at any row and after a step before any row of a run.
func TestCenterKeepsDigits(t *testing.T) {
	r := seedtest.New(t)
	for _, window := range []int{4, 9, 64, 100, 406} {
		run := int64(detectors.CenterRun(window))
		origin := (int64(window)/run + 3) * run // is the first of a run
		n := origin + int64(2*window)
		noise := func(level float64) []float64 {
			series := make([]float64, n)
			for i := range series {
				series[i] = level + 0.001*r.NormFloat64()
			}
			return series
		}
		const digits = 1e-6 // a float32 has more where values are within some units of 0
		t.Run(fmt.Sprint("level/", window), func(t *testing.T) {
			series := noise(1e9)
			for newest, x := range xs(New(one(&fake{window: window, least: window}, 1)), 0, series) {
				if d := keeps(x, series, newest, 1, n); d > digits {
					t.Errorf("the newest row is %d: differences are off by %v", newest, d)
				}
			}
		})
		t.Run(fmt.Sprint("spike/", window), func(t *testing.T) {
			for at := origin - run; at <= origin+run; at += max(1, run/8) {
				series := noise(5)
				series[at-1] = 1e12
				for newest, x := range xs(New(one(&fake{window: window, least: window}, 1)), 0, series) {
					if d := max(keeps(x, series, newest, 1, at-1), keeps(x, series, newest, at+1, n)); d > digits {
						t.Fatalf("a spike at row %d, the newest is %d: differences are off by %v", at, newest, d)
					}
				}
			}
		})
		t.Run(fmt.Sprint("step/", window), func(t *testing.T) {
			for _, at := range []int64{origin - 1, origin, origin + 1} { // the first row of the new level
				series := noise(5)
				for i := at - 1; i < n; i++ {
					series[i] += 1e9
				}
				for newest, x := range xs(New(one(&fake{window: window, least: window}, 1)), 0, series) {
					switch after := newest - at + 1; {
					case after <= int64(window)/4:
						if d := keeps(x, series, newest, 1, at-1); d > digits {
							t.Fatalf("a step at row %d, the newest is %d: differences before it are off by %v", at, newest, d)
						}
					case after > 3*int64(window)/4+1:
						if d := keeps(x, series, newest, at, n); d > digits {
							t.Fatalf("a step at row %d, the newest is %d: differences after it are off by %v", at, newest, d)
						}
					}
				}
			}
		})
	}
}

// TestCenterSurvives: X is the same to the bit where a state was restored, or rolled
// back, within a run; and is not if the rows are counted wrongly.
func TestCenterSurvives(t *testing.T) {
	r := seedtest.New(t)
	for range 20 {
		window := 4 + r.IntN(200)
		run := detectors.CenterRun(window)
		cfg := one(&fake{window: window, least: 1 + r.IntN(window), carry: r.IntN(2)}, 1+r.IntN(3))
		n := window + 1 + r.IntN(3*run)
		series := make([]float64, n+3*run+16)
		for i := range series {
			series[i] = 1e3 * r.NormFloat64()
		}
		for n%run == 0 {
			n++
		}
		fold := func(s *State, from, to int) {
			if s.journal.Started() {
				xs(s, int64(from), series[:to])
				return
			}
			s.Mark(0)
			xs(s, int64(from), series[:to])
		}
		want := func() map[int64][]float32 {
			s := New(cfg)
			fold(s, 0, n)
			return xs(s, int64(n), series)
		}()
		if len(want) == 0 {
			t.Errorf("window %d: no task has a full window", window)
		}
		rolled := New(cfg)
		fold(rolled, 0, n)
		var log []record
		commit := func(s *State) {
			s.Mark(int64(n))
			if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
				log = append(log, record{slices.Clone(k), slices.Clone(v)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.Committed(int64(n))
		}
		commit(rolled)
		fold(rolled, n, n+1+r.IntN(2*run))
		if err := rolled.Rollback(int64(n)); err != nil {
			t.Fatal(err)
		}
		restored := func() *State {
			s := New(cfg)
			for _, rec := range log {
				if err := s.Load(rec.key, rec.value); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.BeginReplay(Floor{Offset: int64(n), MaxTime: int64(n) - 1}, int64(n), false); err != nil {
				t.Fatal(err)
			}
			s.EndReplay()
			return s
		}
		for name, s := range map[string]*State{"rolled back": rolled, "restored": restored()} {
			if got := xs(s, int64(n), series); !maps32(got, want) {
				t.Errorf("window %d, %s at row %d: other X", window, name, n)
			}
		}
		wrong := restored()
		wrong.Keys.Get([]byte("k")).Windows[0].Count += int64(1 + r.IntN(run-1))
		if maps32(xs(wrong, int64(n), series), want) {
			t.Errorf("window %d: a wrong count of rows made no difference", window)
		}
	}
}

// maps32 compares X by their bits.
func maps32(a, b map[int64][]float32) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if !slices.EqualFunc(a[k], b[k], func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
			return false
		}
	}
	return len(a) > 0
}
