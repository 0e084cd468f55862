package state

import (
	"math/rand/v2"
	"testing"

	"odradek/processor/state/rules"
)

// randomMutes returns a list of rules about series, detectors and times of a random log.
func randomMutes(r *rand.Rand, cfg *Config, around int64) (l rules.MuteList) {
	for range r.IntN(4) {
		rule := rules.MuteRule{
			From:      around - int64(r.IntN(300)),
			To:        around + 1 + int64(r.IntN(600)),
			Direction: rules.Direction(max(0, r.IntN(5)-2)),
		}
		if r.IntN(3) == 0 {
			rule.To = rules.Forever
		}
		if r.IntN(2) == 0 {
			rule.Detector = cfg.Detectors[r.IntN(len(cfg.Detectors))].Name
		}
		if r.IntN(3) == 0 {
			rule.Keys = "a*"
		}
		l = append(l, rule)
	}
	return l
}

// TestMute: a rule holds from its decision on, for scores and silences in its time, and after a restart.
func TestMute(t *testing.T) {
	mutes := func(x *rig, l ...rules.MuteRule) {
		x.s.Decide(Mutes, nil, rules.MuteList(l).Encode(), x.offset)
	}
	x := newRig(t, watched())
	x.fold("a 1 0,a 2 30")
	x.want("a/high(0) open recovered@2#1 r1")
	mutes(x, rules.MuteRule{Keys: "a", From: 3, To: 6})
	x.fold("a 3 60,a 4 90") // above the threshold, and ordinary: they close it
	x.want("a/high(0) close recovered@4#3 r2")
	x.fold("a 5 120,b 5 0,b 6 30") // b is not muted
	x.want("b/high(0) open recovered@6#6 r1")
	for _, r := range x.s.Rows {
		if r.Score >= 30 && r.Threshold != 10 || r.Exceeds != (r.Offset == 1 || r.Offset == 6) {
			t.Errorf("row %+v", r)
		}
	}
	x.commit()
	x.all()
	x.restart(watched())
	x.fold("a 5 150") // still muted
	x.want()
	x.fold("a 6 180") // its time is over
	x.want("a/high(0) open recovered@6#8 r1")
	mutes(x)
	if c := x.s.Standing(Mutes, nil, x.offset); c != nil {
		t.Errorf("%d bytes of rules are in force after their withdrawal", len(c))
	}

	cfg := watched()
	cfg.Silence = 30
	x = newRig(t, cfg)
	x.fold("a 1 0,b 1 0")
	mutes(x, rules.MuteRule{Keys: "a", From: 0, To: 100})
	x.fold("c 50 0")
	x.want("b/silence(-1) open recovered@50#2 r1")
	x.fold("c 75 0,c 99 0")
	x.want()
	x.commit()
	x.all()
	for _, restart := range []bool{false, true} {
		if restart {
			if err := x.s.Rollback(5); err != nil {
				t.Fatal(err)
			}
			x.offset = 5
			x.restart(cfg)
		}
		x.fold("c 100 0")
		x.want("a/silence(-1) open recovered@100#5 r1")
	}
}
