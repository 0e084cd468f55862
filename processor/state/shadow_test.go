package state

import (
	"bytes"
	"slices"
	"testing"

	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// checkModes checks that each anomaly begins with its opening, has all of its changes in the mode in which it opened, and
// is in no group in shadow mode. It returns how many a change of the mode has ended, live and in shadow.
func checkModes(t *testing.T, list []flatEvent) (ended [2]int) {
	t.Helper()
	type mode struct{ shadow, closed bool }
	seen := map[[16]byte]*mode{}
	for _, e := range list {
		a := decodedAnomaly(t, e.anomaly)
		m := seen[a.ID]
		if e.kind == anomaly.Open {
			if m != nil {
				t.Fatalf("an anomaly of %s opens twice", e.name)
			}
			m = &mode{shadow: a.Shadow}
			seen[a.ID] = m
		}
		if m == nil || m.closed || m.shadow != a.Shadow || a.Shadow && (a.Group != nil || e.det < 0) {
			t.Fatalf("change %d of an anomaly of %s at %d: shadow is %v, group %v; before: %+v", e.kind, e.name, e.offset, a.Shadow, a.Group, m)
		}
		if m.closed = e.kind == anomaly.Close; m.closed && e.reason == anomaly.DetectorRemoved {
			i := 0
			if a.Shadow {
				i = 1
			}
			ended[i]++
		}
	}
	return ended
}

// decodedAnomaly returns the anomaly of a flatEvent.
func decodedAnomaly(t testing.TB, encoded string) anomaly.Anomaly {
	t.Helper()
	d := changelog.Decoder{B: []byte(encoded)}
	a := anomaly.DecodeAnomaly(&d)
	if d.Bad {
		t.Fatal(d.Err())
	}
	return a
}

// changed is a change of an anomaly: key, kind and time, in shadow mode in capitals, and its group.
func changed(list []EventRow) (got []string) {
	for _, e := range list {
		c := &e.Change
		kind := []string{"open", "update", "close"}[c.Kind]
		if c.Anomaly.Shadow {
			kind = []string{"OPEN", "UPDATE", "CLOSE"}[c.Kind]
		}
		if c.Reason == anomaly.DetectorRemoved {
			kind += " removed"
		}
		if c.Anomaly.Group != nil {
			kind += " grouped"
		}
		got = append(got, string(e.Key.Name())+" "+kind)
	}
	return got
}

// TestPromotionAndDemotion: an anomaly ends in the mode in which it opened, with the first score after the change, and
// another one begins if that score is over the threshold. Windows and histories go on. A restart at any
// sample leads to the same changes, regardless of the configuration it begins with.
func TestPromotionAndDemotion(t *testing.T) {
	shadow := func(on bool) *Config {
		cfg := grouped()
		cfg.Detectors[0].Shadow = on
		return cfg
	}
	steps := []struct {
		shadow bool
		sample string
		want   []string
	}{
		{true, "a1 1 0", nil},
		{true, "a2 1 0", nil},
		{true, "a1 2 50", []string{"a1 OPEN"}},
		{true, "a2 3 90", []string{"a2 OPEN"}},
		{false, "a1 4 99", []string{"a1 CLOSE removed", "a1 open grouped"}}, // promotion, and the score is over
		{false, "a1 5 99", nil},
		{false, "a2 5 90", []string{"a2 CLOSE removed"}}, // promotion, and it is not
		{false, "a2 6 190", []string{"a2 open grouped"}},
		{true, "a1 7 99", []string{"a1 close removed grouped"}}, // demotion
		{true, "a2 8 290", []string{"a2 close removed grouped", "a2 OPEN"}},
		{true, "a2 9 290", nil},
		{true, "a2 10 290", []string{"a2 CLOSE"}},
		{false, "a1 11 199", []string{"a1 open grouped"}},
		{false, "a1 12 199", nil},
		{false, "a1 13 199", []string{"a1 close grouped"}},
	}
	for restart := range len(steps) + 1 {
		x := newRig(t, shadow(steps[0].shadow))
		for i, step := range steps {
			x.s.Rulings.Reconfigure(shadow(step.shadow).Detectors)
			x.foldRaw(step.sample)
			if got := changed(x.s.Events); !slices.Equal(got, step.want) {
				t.Fatalf("restart at %d, sample %d: %q, want %q", restart, i, got, step.want)
			}
			x.s.Events = x.s.Events[:0]
			x.commit()
			if i == restart {
				x.all()
				before := x.s.Export(nil)
				if x.restart(shadow(i%2 == 0)); !bytes.Equal(before, x.s.Export(nil)) {
					t.Fatalf("restart at %d: restored to another state", restart)
				}
			}
		}
	}
}
