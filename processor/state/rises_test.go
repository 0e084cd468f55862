package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
)

// TestRises: a state tells of each threshold that rises tenfold once, with the sample that it was judged with. One that goes back and
// restarts at any sample tells the same, and tells nothing of what it replays.
func TestRises(t *testing.T) {
	r := seedtest.New(t)
	n := 0
	for range 20 {
		cfg := watched()
		params := threshold.New([]threshold.Kind{threshold.Mean, threshold.Quantile}[r.IntN(2)], 0.9)
		params.History, params.Warmup, params.Decluster = 32, 2, 2
		cfg.Detectors[0].Threshold = &params
		x, y := newRig(t, cfg), newRig(t, cfg)
		scale, values, all := 1, map[string]int{}, []string(nil)
		type rise struct {
			key      string
			from, to float32
			offset   int64
		}
		for i := range 500 {
			if r.IntN(40) == 0 {
				scale = []int{1, 5, 100, 5000}[r.IntN(4)]
			}
			key := string("aab"[r.IntN(3)])
			values[key] += r.IntN(4 * scale)
			sample := fmt.Sprintf("%s %d %d", key, i, values[key])
			all = append(all, sample)
			var rises [2][]rise
			for i, s := range []*rig{x, y} {
				if s == x && r.IntN(3) == 0 {
					s.foldRaw(sample)
					if s.offset--; s.s.Rollback(s.offset) != nil {
						t.Fatal("no rollback")
					}
				}
				s.foldRaw(sample)
				for _, v := range s.s.Rises {
					if rises[i] = append(rises[i], rise{string(v.Key.Name()), v.From, v.To, v.Offset}); v.Detector != "high" || !(v.To >= 10*v.From) {
						t.Fatalf("%+v", v)
					}
				}
				s.s.Rises, s.s.Events = s.s.Rises[:0], s.s.Events[:0]
				s.commit()
				s.all()
				if s == x && r.IntN(4) == 0 {
					if s.restart(cfg); len(s.s.Rises) > 0 {
						t.Fatalf("a restore tells %+v", s.s.Rises)
					}
				}
			}
			if !slices.Equal(rises[0], rises[1]) || !bytes.Equal(x.s.Export(nil), y.s.Export(nil)) {
				t.Fatalf("rises %v and %v, or another state", rises[0], rises[1])
			}
			n += len(rises[0])
		}
		z := newRig(t, cfg)
		z.s = New(cfg)
		z.s.SetSource("in", 3)
		if err := z.s.BeginReplay(Floor{MaxTime: NoTime}, x.offset, false); err != nil {
			t.Fatal(err)
		}
		for _, sample := range all {
			z.foldRaw(sample)
		}
		if z.s.EndReplay(); len(z.s.Rises) > 0 || len(z.s.Events) > 0 {
			t.Fatalf("a replay tells %+v", z.s.Rises)
		}
	}
	if t.Logf("%d rises", n); n < 20 {
		t.Errorf("%d rises: the test tests too little", n)
	}
}
