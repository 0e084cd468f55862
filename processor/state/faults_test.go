package state

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
)

// several returns a configuration of detectors whose score is how far a sample is above the one before, with fixed
// thresholds and some by the scores, of which those in shadow mode are named in capitals.
func several(names string) *Config {
	cfg := watched()
	cfg.Silence, cfg.DropMismatched = 30, true
	one := cfg.Detectors[0]
	cfg.Detectors = nil
	for i, name := range names {
		d := one
		params := threshold.New(threshold.Fixed, 5*math.Exp2(float64(i)))
		if i%2 == 0 { // one with a severity, which may become critical
			params = threshold.New(threshold.MAD, 3)
			params.History, params.Warmup, params.Decluster = 64, 2, 1
		}
		d.Name, d.Threshold, d.Shadow = string(name), &params, name < 'a'
		d.Events = &anomaly.Policy{OpenAfter: 1 + i%2, CloseAfter: 2 + i%3, Release: 1, UpdateEvery: 3}
		cfg.Detectors = append(cfg.Detectors, d)
	}
	return cfg
}

// knownFaults is what a reader of the anomalies topics knows of the faults.
type knownFaults struct {
	open map[[16]byte]anomaly.Anomaly // by id
	key  map[[16]byte]string
	seen map[string]int
}

// take checks the faults of the changes of a sample. The rule, once more: an anomaly is of the fault of one of its series and mode that is
// open, or that the same score has closed in its favour; of none that is like false alarms; without one it is its own.
func (f *knownFaults) add(t *testing.T, list []EventRow) {
	t.Helper()
	for i, e := range list {
		a, key := e.Change.Anomaly, string(e.Key.Name())
		if e.Change.Kind != anomaly.Open {
			if before := f.open[a.ID]; before.Fault != a.Fault {
				t.Fatalf("%s of %s: fault %x, and %x when it opened", e.Name, key, a.Fault, before.Fault)
			}
			if e.Change.Kind == anomaly.Close {
				delete(f.open, a.ID)
			}
			continue
		}
		want := map[[16]byte]bool{}
		for id, other := range f.open {
			if f.key[id] == key && other.Shadow == a.Shadow && other.Like == nil {
				want[other.Fault] = true
			}
		}
		if i > 0 && list[i-1].Name == e.Name && list[i-1].Change.Kind == anomaly.Close && list[i-1].Change.Reason == anomaly.Recovered {
			if left := list[i-1].Change.Anomaly; left.Shadow == a.Shadow && left.Like == nil && string(list[i-1].Key.Name()) == key {
				want[left.Fault] = true
				f.seen["left"]++
			}
		}
		what := "joins"
		if a.Like != nil {
			clear(want)
			what = "like"
		}
		if len(want) == 0 {
			want[a.ID] = true
			what += " none"
		}
		if len(want) > 1 || !want[a.Fault] {
			t.Fatalf("%s of %s: id %x, fault %x, want one of %x", e.Name, key, a.ID, a.Fault, slices.Collect(maps.Keys(want)))
		}
		if e.Detector == SilenceDetector {
			f.seen["silence "+what]++
			a.Like = &anomaly.Like{} // it gives its fault to none
		}
		f.open[a.ID], f.key[a.ID] = a, key
		f.seen[map[bool]string{true: "shadow "}[a.Shadow]+what]++
	}
}

// TestFaults: random anomalies of three series, of detectors of both modes that come and go at restarts, of silences, and such that are
// like false alarms, have the faults of the rule. A worker that goes back and restarts at any sample makes the same.
func TestFaults(t *testing.T) {
	r := seedtest.New(t)
	seen := map[string]int{}
	for range 30 {
		names := []string{"abcAB", "aAbBc", "ab", "cb", "bcA", "a", "BA"}
		pick := func() *Config { return several(names[r.IntN(len(names))]) }
		cfg := pick()
		x, y := newRig(t, cfg), newRig(t, cfg)
		f := knownFaults{map[[16]byte]anomaly.Anomaly{}, map[[16]byte]string{}, seen}
		now, values, worse := int64(0), map[string]int{}, []int(nil)
		for range 300 {
			if now += r.Int64N(4); r.IntN(60) == 0 {
				now += 60
			}
			key := string("xxxyz"[r.IntN(5)])
			step := []int{0, 1, 1, 1, 2, 2, -1, 3, 4, 7, 12, 25, 50, 100}[r.IntN(14)]
			if len(worse) > 0 { // what is slight becomes critical
				key, step, worse = "x", worse[0], worse[1:]
			} else if r.IntN(30) == 0 {
				worse = []int{9, 0, 1000}
			}
			values[key] += step
			sample := fmt.Sprintf("%s %d %d", key, now, values[key])
			changed := r.IntN(50) == 0
			if changed {
				cfg = pick()
			}
			var events [2][]flatEvent
			learn := r.IntN(20) == 0
			var learned rules.LearnedList
			if learn && r.IntN(3) > 0 {
				learned = rules.LearnedList{{Detector: string("abA"[r.IntN(3)]), Series: "x", Field: -1, From: math.Inf(-1), To: math.Inf(1),
					Bounds: anomaly.NoBounds(float64(20 + r.IntN(100))), Count: 3}}
			}
			for i, s := range []*rig{x, y} {
				if learn {
					s.s.Decide(Learned, nil, learned.Encode(), s.offset)
				}
				if s == x && !learn && r.IntN(3) == 0 {
					s.foldRaw(sample)
					if s.offset--; s.s.Rollback(s.offset) != nil {
						t.Fatal("no rollback")
					}
				}
				s.foldRaw(sample)
				if events[i] = flattenEvents(s.s.Events); s == x {
					f.add(t, s.s.Events)
				}
				s.s.Events = s.s.Events[:0]
				s.commit()
				s.all()
				if changed || s == x && r.IntN(4) == 0 {
					s.restart(cfg)
				}
			}
			if !slices.Equal(events[0], events[1]) || !bytes.Equal(x.s.Export(nil), y.s.Export(nil)) {
				t.Fatalf("events %v and %v, or another state", events[0], events[1])
			}
		}
	}
	t.Log(seen)
	for _, what := range []string{"joins", "joins none", "like none", "shadow joins", "shadow joins none", "left", "silence joins"} {
		if seen[what] < 5 {
			t.Errorf("%q %d times: the test tests too little", what, seen[what])
		}
	}
}
