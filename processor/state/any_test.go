package state

import (
	"bytes"
	"testing"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// anyOf has two detectors, "high" and "steep", which has to exceed twice in a row, and with one an ensemble of any of the
// keys that begin with a.
func anyOf(one bool) *Config {
	cfg := watched()
	bound, unit := threshold.New(threshold.Fixed, 20), threshold.New(threshold.Fixed, 1)
	cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{
		Name: "steep", Detector: level{plain(3)}, Stride: 1, Fingerprint: 8, Threshold: &bound,
		Events: &anomaly.Policy{OpenAfter: 2, CloseAfter: 2, Release: 1},
	})
	if one {
		cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{
			Name: "one", Ensemble: &series.Ensemble{Members: []int{0, 1}, Any: true}, Fingerprint: 9, Threshold: &unit,
			Keys:   func(key []byte) bool { return key[0] == 'a' },
			Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 3, Release: 1},
		})
	}
	return cfg
}

// TestAnyTakesOver: an ensemble of any makes one anomaly for all that its members find, of the keys that it reads. Open
// anomalies of its members end when it takes over, and its own when it goes. In
// shadow mode it leaves the anomalies to the members.
func TestAnyTakesOver(t *testing.T) {
	x := newRig(t, anyOf(false))
	restart := func(one bool) {
		t.Helper()
		x.commit()
		x.all()
		x.restart(anyOf(one))
	}
	x.fold("a 1 0,b 1 0,a 2 5,b 2 5,a 3 30,b 3 30")
	x.want("a/high(0) open recovered@3#4 r1", "b/high(0) open recovered@3#5 r1")
	restart(true)
	x.fold("a 4 40,b 4 40") // 10 and 35: high does not exceed, and steep does for the first time that the ensemble hears of
	x.want("a/high(0) close removed@4#6 r2", "b/steep(1) open recovered@4#7 r1")
	x.fold("a 5 41,b 5 41")
	x.want("b/high(0) close recovered@5#9 r2")
	x.fold("a 6 80,a 7 80,a 8 80") // 39 and 50, 0 and 39, 0 and 0
	x.want("a/one(2) open recovered@6#10 r1")
	x.fold("a 9 80,a 10 80")
	x.want("a/one(2) close recovered@10#14 r2")
	x.fold("a 11 89,a 12 98,a 13 107,a 14 116,a 15 130") // steep alone has 9, 18, 18, 18 and 23, and high 14 at last
	x.want("a/one(2) open recovered@15#19 r1")
	shadow := func(on bool) {
		cfg := anyOf(true)
		cfg.Detectors[2].Shadow = on
		x.s.Rulings.Reconfigure(cfg.Detectors)
	}
	shadow(true)
	x.fold("a 16 150") // 20: the members make their own again, steep from the next on
	x.want("a/high(0) open recovered@16#20 r1", "a/one(2) close removed@16#20 r2",
		"a/one(2) open recovered@16#20 r1")
	shadow(false)
	x.commit()
	x.all()
	before := x.s.Export(nil)
	if x.restart(anyOf(true)); !bytes.Equal(before, x.s.Export(nil)) {
		t.Fatal("restored to another state")
	}
	x.fold("a 17 170")
	x.want("a/high(0) close removed@17#21 r2", "a/one(2) close removed@17#21 r2",
		"a/one(2) open recovered@17#21 r1")
	restart(false)
	x.fold("a 18 170,b 6 41")
	x.want("a/one(-2) close removed@18#22 r2", "b/steep(1) close recovered@6#23 r2")
}

// TestAnyLearns: an anomaly of an ensemble of any has the values and the range of the member that opened it, what its members have said
// survives a restart before it scores the sample, and false alarms of it teach.
func TestAnyLearns(t *testing.T) {
	cfg := anyOf(true)
	cfg.Detectors[0].Detector = broad{expecting{level{plain(3)}}}
	cfg.Detectors[1].Detector, cfg.Detectors[1].Stride = expecting{level{plain(3)}}, 4
	x := newRig(t, cfg)
	open := func() *anomaly.Anomaly { return x.s.Keys.Get([]byte("a")).Alerts.Detectors[2].Events.Anomaly() }
	restart := func() {
		t.Helper()
		x.commit()
		x.all()
		before := x.s.Export(nil)
		if x.restart(cfg); !bytes.Equal(before, x.s.Export(nil)) {
			t.Fatal("restored to another state")
		}
	}
	// Scores are the steps from two rows before; steep scores four samples at once, so the ensemble waits for it.
	x.fold("a 1 0,a 2 0,a 3 1,a 4 5,a 5 30")
	x.want()
	if a := &x.s.Keys.Get([]byte("a")).Alerts.Detectors[2].Events; !a.Waiting() || !a.Idle() {
		t.Fatal("the ensemble has heard nothing")
	}
	restart()
	x.fold("a 6 31,a 7 31")
	x.want("a/one(2) open recovered@5#4 r1")
	a := open()
	if own := a.Own(); own.Member != "high" || own.Score != 29 || own.Threshold != 10 || own.Samples != 2 || a.PeakScore != 2.9 ||
		a.Range == nil || a.Range.Low != 1 || a.Range.High != 31 || len(a.Actual) != 1 || a.Actual[0] != 30 || len(a.Expected) != 1 {
		t.Fatalf("%+v, leader %+v, range %+v", a, a.Leader, a.Range)
	}
	restart()
	label := rules.Label{Anomaly: a.ID, Alarm: rules.AlarmOf("one", []byte("a"), a)}
	label.Samples, label.Apart, label.Range, label.Held = 2, label.First, label.Initial, label.Early
	ruleList := rules.Derive("", []rules.Label{label}, 1)
	if len(ruleList) == 0 || ruleList[0].Detector != "one/high" {
		t.Fatalf("%+v", ruleList)
	}
	x.fold("a 8 31,a 9 31,a 10 31,a 11 31")
	x.want("a/one(2) close recovered@9#8 r2")
	x.s.Decide(Learned, nil, ruleList.Encode(), x.offset)
	x.fold("a 12 31,a 13 59,a 14 59,a 15 59")
	x.want("a/one(2) open recovered@13#12 r1")
	if a = open(); a.Like == nil || a.Severity != 0 {
		t.Errorf("%+v is not like what the label says", a)
	}
	restart()
	x.fold("a 16 59,a 17 59,a 18 120,a 19 120")
	x.want("a/one(2) close recovered@17#16 r2", "a/one(2) open recovered@18#17 r1")
	if a = open(); a.Like != nil || a.Own().Score != 61 {
		t.Errorf("%+v, like %+v: it is higher than what the label says", a, a.Like)
	}
	x.fold("a 20 120,a 21 120,a 22 120,a 23 120,a 24 120,a 25 120,a 26 120,a 27 120")
	x.want("a/one(2) close recovered@25#24 r2")
	// A mute rule about one side of the expected value goes by the member's.
	x.s.Decide(Mutes, nil, rules.MuteList{{Detector: "one", To: rules.Forever, Direction: rules.Below}}.Encode(), x.offset)
	x.fold("a 28 200,a 29 200,a 30 200,a 31 200")
	x.want("a/one(2) open recovered@28#27 r1")
	x.fold("a 32 200,a 33 200,a 34 200,a 35 200,a 36 200,a 37 200,a 38 200,a 39 200")
	x.want("a/one(2) close recovered@33#32 r2")
	x.s.Decide(Mutes, nil, rules.MuteList{{Detector: "one", To: rules.Forever, Direction: rules.Above}}.Encode(), x.offset)
	x.fold("a 40 300,a 41 300,a 42 300,a 43 300,a 44 300") // 300 was expected of the second one
	x.want("a/one(2) open recovered@41#40 r1")
}
