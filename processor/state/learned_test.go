package state

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
)

// randomLearned returns rules about anomalies of a random log.
func randomLearned(r *rand.Rand, cfg *Config) (l rules.LearnedList) {
	for range r.IntN(4) {
		from := 4 * r.Float64()
		rule := rules.LearnedRule{Detector: cfg.Detectors[r.IntN(len(cfg.Detectors))].Name, All: true, Field: r.IntN(2) - 1,
			Side: rules.Direction(r.IntN(3)), From: from - 2, To: from + 4*r.Float64(), Bounds: anomaly.NoBounds(from + 4*r.Float64()), Count: 3,
			Labels: [][16]byte{{byte(r.Uint32())}}}
		if rule.Field < 0 {
			rule.Side = rules.BothDirections
		}
		if r.IntN(2) == 0 {
			rule.From, rule.To = math.Inf(-1), math.Inf(1)
			rule.Least, rule.After, rule.Samples = from, int64(r.IntN(20)), uint32(r.IntN(12))
			rule.First, rule.Apart, rule.Far = r.Float64(), 2*r.Float64(), 4*r.Float64()
		}
		if r.IntN(2) == 0 {
			rule.Initial, rule.Narrow, rule.Wide, rule.Steep = r.Float64(), 2*r.Float64(), 9*r.Float64(), 9*r.Float64()
		}
		if r.IntN(3) == 0 {
			rule.Early, rule.Short, rule.Long = uint32(r.IntN(2)), uint32(r.IntN(3)), uint32(1+r.IntN(4))
		}
		l = append(l, rule)
	}
	return l
}

// broad is a detector whose scores are about the two rows before the fresh one, too.
type broad struct{ expecting }

func (broad) Reach() (from, to int) { return 2, 0 }

// TestRange: an anomaly has the range of the values that its scores over the threshold cover, also after a restart, and one that is
// like false alarms ends with a score that makes its range wider than theirs.
func TestRange(t *testing.T) {
	cfg := watched()
	cfg.Detectors[0].Detector = broad{expecting{level{plain(3)}}}
	x := newRig(t, cfg)
	ranges := func(want ...float64) {
		t.Helper()
		a := x.s.Keys.Get([]byte("a")).Alerts.Detectors[0].Events.Anomaly()
		if a == nil || a.Range == nil || a.Range.Field != 0 || a.Range.Low != want[0] || a.Range.High != want[1] {
			t.Errorf("%+v, want the range %v", a, want)
		}
	}
	// Scores are the steps from the row before the last one.
	x.fold("a 1 0,a 2 0,a 3 1,a 4 5,a 5 30")
	x.want("a/high(0) open recovered@5#4 r1")
	ranges(1, 30)
	x.commit()
	x.all()
	x.restart(cfg)
	ranges(1, 30)
	x.fold("a 6 31")
	ranges(1, 31)
	x.fold("a 7 8") // not over the threshold
	ranges(1, 31)
	x.fold("a 8 -20")
	x.want("a/high(0) close recovered@8#7 r2")
	rule := rules.LearnedRule{Detector: "high", Series: "a", Field: 0, Side: rules.Above, From: math.Inf(-1), To: math.Inf(1), Initial: 20,
		Bounds: anomaly.NoBounds(100), Count: 3}
	rule.Wide, rule.Narrow = 60, 1
	x.s.Decide(Learned, nil, rules.LearnedList{rule}.Encode(), x.offset)
	x.fold("a 9 -20,a 10 -20,a 11 20,a 12 39")
	x.want("a/high(0) open recovered@11#10 r1")
	ranges(-20, 39)
	x.commit()
	x.all()
	x.restart(cfg)
	x.fold("a 13 45") // its range is wider than theirs, so the next range begins anew
	x.want("a/high(0) close recovered@13#12 r2", "a/high(0) open recovered@13#12 r1")
	ranges(20, 45)
}

// TestHeld: an anomaly has the most values that one of its scores covers and that are far from the median of those before the first of
// them, also after a restart and regardless of the other rows in a task; one that is like false alarms ends with a score that covers more
// than theirs, and the next one begins with a level of its own. A window without older values says nothing.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		window, stride int
		held           uint32
		level          float64
	}{{6, 1, 3, 2}, {6, 3, 3, 2}, {3, 1, 0, 0}} {
		cfg := watched()
		cfg.Detectors[0].Detector, cfg.Detectors[0].Stride = broad{expecting{level{plain(c.window)}}}, c.stride
		x := newRig(t, cfg)
		held := func(want uint32, level float64) {
			t.Helper()
			a := x.s.Keys.Get([]byte("a")).Alerts.Detectors[0].Events.Anomaly()
			if a == nil || a.Range == nil || a.Range.Held != want || a.Range.Level != level {
				t.Errorf("window %d, stride %d: %+v, want %d held from %v", c.window, c.stride, a, want, level)
			}
		}
		x.fold("a 1 0,a 2 0,a 3 0,a 4 5,a 5 5,a 6 0,a 7 4,a 8 2,a 9 3,a 10 4,a 11 40,a 12 41,a 13 47,a 14 80")
		x.want("a/high(0) open recovered@11#10 r1")
		held(c.held, c.level)
		x.commit()
		x.all()
		x.restart(cfg)
		held(c.held, c.level)
		if c.held == 0 || c.stride > 1 {
			continue
		}
		x = newRig(t, cfg)
		rule := rules.LearnedRule{Detector: "high", Series: "a", Field: 0, Side: rules.Above, From: math.Inf(-1), To: math.Inf(1), Early: 1,
			Bounds: anomaly.NoBounds(100), Count: 3}
		rule.Long, rule.Short = 2, 1
		x.s.Decide(Learned, nil, rules.LearnedList{rule}.Encode(), x.offset)
		x.fold("a 6 0,a 7 4,a 8 2,a 9 3,a 10 4,a 11 40,a 12 41")
		x.want("a/high(0) open recovered@11#5 r1")
		held(2, 2)
		x.commit()
		x.all()
		x.restart(cfg)
		x.fold("a 13 47")
		x.want("a/high(0) close recovered@13#7 r2", "a/high(0) open recovered@13#7 r1")
		held(3, 3)
	}
}

// TestLearned: an anomaly is like false alarms from its opening to its end, and a score that is higher than theirs opens another; the rules
// hold from their decision on, after a restart and until they are withdrawn.
func TestLearned(t *testing.T) {
	learn := func(x *rig, l ...rules.LearnedRule) {
		x.s.Decide(Learned, nil, rules.LearnedList(l).Encode(), x.offset)
	}
	rule := rules.LearnedRule{Detector: "high", Series: "a", Field: -1, From: 20, To: 40, Bounds: anomaly.NoBounds(50), Count: 3,
		Labels: [][16]byte{{1}, {2}, {3}}}
	x := newRig(t, watched())
	like := func(key string, want bool) {
		t.Helper()
		k := x.s.Keys.Get([]byte(key))
		a := k.Alerts.Detectors[0].Events.Anomaly()
		switch {
		case a == nil:
			t.Fatalf("%s: nothing is open", key)
		case (a.Like != nil) != want:
			t.Errorf("%s: like %v, severity %d", key, a.Like, a.Severity)
		case want && (a.Like.Count != 3 || len(a.Like.Labels) != 3 || a.Like.Most != 50):
			t.Errorf("%s: like %+v", key, a.Like)
		}
	}
	// Scores are the steps from one value to the next.
	x.fold("a 1 0,b 1 0,a 2 30")
	x.want("a/high(0) open recovered@2#2 r1")
	learn(x, rule)
	x.fold("a 3 60") // is open already
	like("a", false)
	x.fold("a 4 0,a 5 0")
	x.want("a/high(0) close recovered@5#5 r2")
	x.fold("a 6 30,b 6 30,a 7 80")
	x.want("a/high(0) open recovered@6#6 r1", "b/high(0) open recovered@6#7 r1")
	like("a", true)
	like("b", false) // another series
	x.commit()
	x.all()
	x.restart(watched())
	like("a", true)
	x.fold("a 8 131") // higher than those
	x.want("a/high(0) close recovered@8#9 r2", "a/high(0) open recovered@8#9 r1")
	like("a", false)
	x.fold("a 9 0,a 10 0,a 11 41") // opens higher
	x.want("a/high(0) close recovered@10#11 r2", "a/high(0) open recovered@11#12 r1")
	like("a", false)
	x.fold("a 12 0,a 13 0,a 14 25")
	x.want("a/high(0) close recovered@13#14 r2", "a/high(0) open recovered@14#15 r1")
	like("a", true)
	x.fold("a 15 0,a 16 0")
	x.want("a/high(0) close recovered@16#17 r2")
	rule.Samples = 3
	learn(x, rule)
	x.fold("a 17 25,a 18 50")
	x.want("a/high(0) open recovered@17#18 r1")
	like("a", true)
	x.commit()
	x.all()
	x.restart(watched())
	x.fold("a 19 75")
	x.want()
	like("a", true)
	x.fold("a 20 100") // there were never as many
	x.want("a/high(0) close recovered@20#21 r2", "a/high(0) open recovered@20#21 r1")
	like("a", false)
	x.fold("a 21 100,a 22 100")
	x.want("a/high(0) close recovered@22#23 r2")
	learn(x)
	x.fold("a 23 125")
	x.want("a/high(0) open recovered@23#24 r1")
	like("a", false)
	if c := x.s.Standing(Learned, nil, x.offset); c != nil {
		t.Errorf("%d bytes of rules are in force after their withdrawal", len(c))
	}
}
