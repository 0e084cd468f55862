package state

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
)

// grouped has anomalies of keys that begin with the same letter, and of one that is not x, in groups of 10 us.
func grouped() *Config {
	cfg := watched()
	cfg.Grouping = &Grouping{Window: 10, By: func(key []byte) []byte {
		if key[0] == 'x' {
			return nil
		}
		return key[:1]
	}}
	return cfg
}

// TestGroups: an anomaly joins the group of one of another series that opened within the window of it, open or
// closed, before it or after by event time, and is in the same one until it closes; a group ends with
// the window of its first anomaly, and another part of the key is another group.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name, samples string
		want          []string // key and time of the opening, key and time of the group's first
	}{
		{"two that open together", "a1 1 0,a2 1 0,a1 5 50,a2 15 50", []string{"a1@5 a1@5", "a2@15 a1@5"}},
		{"past the window", "a1 1 0,a2 1 0,a1 5 50,a2 16 50", []string{"a1@5 a1@5", "a2@16 a2@16"}},
		{"the window is of the first", "a1 1 0,a2 1 0,a3 1 0,a1 5 50,a2 15 50,a3 16 50", []string{"a1@5 a1@5", "a2@15 a1@5", "a3@16 a3@16"}},
		{"the first has closed", "a1 1 0,a2 1 0,a1 5 50,a1 6 50,a1 7 50,a2 15 50", []string{"a1@5 a1@5", "a2@15 a1@5"}},
		{"earlier by event time", "a1 1 0,a2 1 0,a1 20 50,a2 10 50", []string{"a1@20 a1@20", "a2@10 a1@20"}},
		{"much earlier", "a1 1 0,a2 1 0,a3 1 0,a1 20 50,a2 9 50,a3 25 50", []string{"a1@20 a1@20", "a2@9 a2@9", "a3@25 a1@20"}},
		{"the one series again", "a1 1 0,a1 5 50,a1 6 50,a1 7 50,a1 8 99", []string{"a1@5 a1@5", "a1@8 a1@5"}},
		{"the last to begin", "a1 1 0,a2 1 0,a3 1 0,a1 5 50,a2 16 50,a3 15 50", []string{"a1@5 a1@5", "a2@16 a2@16", "a3@15 a2@16"}},
		{"another group", "a1 1 0,b1 1 0,a1 5 50,b1 5 50", []string{"a1@5 a1@5", "b1@5 b1@5"}},
		{"no group", "x1 1 0,x2 1 0,x1 5 50,x2 5 50", []string{"x1@5", "x2@5"}},
		{"forgotten with the series", "a1 1 0,a1 5 50,b1 6 0,b2 6 0,b3 6 0,a2 6 0,a2 7 50", []string{"a1@5 a1@5", "a2@7 a2@7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := grouped()
			cfg.MaxKeys = 4
			x := newRig(t, cfg)
			names := map[string]string{}
			var got []string
			collect := func(list []EventRow) {
				for _, e := range list {
					a := &e.Change.Anomaly
					if e.Change.Kind != anomaly.Open {
						continue
					}
					opening := fmt.Sprintf("%s@%d", e.Key.Name(), e.Change.Time)
					names[hex.EncodeToString(a.ID[:])] = opening
					if a.Group != nil {
						opening += " " + names[hex.EncodeToString(a.Group.ID[:])]
					}
					got = append(got, opening)
				}
			}
			// A cycle each, every second of which is undone and done again, behind a restart.
			for i, sample := range bytes.Split([]byte(c.samples), []byte(",")) {
				if i%2 == 1 {
					x.foldRaw(string(sample))
					if x.offset--; x.s.Rollback(x.offset) != nil {
						t.Fatal("no rollback")
					}
				}
				x.foldRaw(string(sample))
				collect(x.s.Events)
				x.s.Events = x.s.Events[:0]
				x.commit()
				x.all()
				index := x.s.groups.index.Len()
				before := x.s.Export(nil)
				x.restart(cfg)
				if !bytes.Equal(before, x.s.Export(nil)) || x.s.groups.index.Len() != index {
					t.Fatalf("restored to another state, of %d groups, not %d", x.s.groups.index.Len(), index)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// foldRaw folds one sample and leaves its events.
func (rg *rig) foldRaw(sample string) {
	rg.t.Helper()
	var (
		key   string
		time  int64
		value float64
	)
	if _, err := fmt.Sscan(sample, &key, &time, &value); err != nil {
		rg.t.Fatal(err)
	}
	rg.s.Fold(&Sample{Key: []byte(key), Time: time, Offset: rg.offset, Values: []float64{value}}, rg.b)
	rg.offset++
	levels(rg.b)
	rg.s.Apply(rg.b)
	rg.b.Reset()
}

// TestGroupsOfSilence: series that fall silent together are in a group, with other anomalies of it, from the
// opening to the close.
func TestGroupsOfSilence(t *testing.T) {
	cfg := grouped()
	cfg.Silence = 10
	for _, batched := range []bool{false, true} {
		x := newRig(t, cfg)
		var got []EventRow
		for i, sample := range []string{"a1 1 0", "a2 1 0", "a3 1 0", "b1 2 0", "a3 5 50", "b1 12 0", "a1 13 0", "a2 14 0"} {
			var (
				key   string
				time  int64
				value float64
			)
			if _, err := fmt.Sscan(sample, &key, &time, &value); err != nil {
				t.Fatal(err)
			}
			x.s.Fold(&Sample{Key: []byte(key), Time: time, Offset: int64(i), Values: []float64{value}}, x.b)
			if !batched {
				levels(x.b)
				x.s.Apply(x.b)
				x.b.Reset()
			}
		}
		levels(x.b)
		x.s.Apply(x.b)
		got = x.s.Events
		if len(got) != 5 {
			t.Fatalf("batched %v: %d events", batched, len(got))
		}
		for _, e := range got {
			if g := e.Change.Anomaly.Group; g == nil || g.ID != got[0].Change.Anomaly.ID || g.Since != 5 {
				t.Errorf("batched %v: %s of %s is in group %+v", batched, e.Name, e.Key.Name(), g)
			}
		}
		if n := x.s.groups.index.Len(); n != 1 { // a3's
			t.Errorf("batched %v: %d groups", batched, n)
		}
	}
}

// TestGroupOfAnEvictedSeries: an anomaly that opens in a batch behind the eviction of its series, which
// comes later in the log, leaves its group with the series.
func TestGroupOfAnEvictedSeries(t *testing.T) {
	cfg := grouped()
	cfg.MaxKeys = 1
	x := newRig(t, cfg)
	x.fold("a1 1 0,a1 5 50,b1 6 0") // one batch
	x.want("a1/high(0) open recovered@5#1 r1", "a1/high(0) close evicted@6#2 r2")
	if n := x.s.groups.index.Len(); n != 0 {
		t.Errorf("%d groups", n)
	}
}

// TestGroupingChanged: the part of the key that makes a group changes at restarts, at any time: while series are in groups
// with open anomalies, with closed ones or with silences. A restart that changes nothing restores the same bytes and the
// same groups.
func TestGroupingChanged(t *testing.T) {
	r := seedtest.New(t)
	by := []func([]byte) []byte{
		nil, // no groups
		func([]byte) []byte { return nil },
		func(key []byte) []byte { return key[:1] },
		func(key []byte) []byte { return key[1:] },
		func(key []byte) []byte {
			if key[0] == 'b' {
				return nil
			}
			return key[:1]
		},
	}
	for range 60 {
		config := func() *Config {
			cfg := watched()
			if cfg.Silence = 10; r.IntN(4) == 0 {
				cfg.MaxKeys = 3
			}
			if f := by[r.IntN(len(by))]; f != nil {
				cfg.Grouping = &Grouping{By: f, Window: 20}
			}
			return cfg
		}
		cfg := config()
		x, y := newRig(t, cfg), newRig(t, cfg) // x restarts without a change, too
		now := int64(0)
		for range 80 {
			now += r.Int64N(6)
			sample := fmt.Sprintf("%c%d %d %d", "abx"[r.IntN(3)], r.IntN(2), now, 50*r.IntN(2))
			changed := r.IntN(6) == 0
			if changed {
				cfg = config()
			}
			for _, s := range []*rig{x, y} {
				s.foldRaw(sample)
				s.s.Events = s.s.Events[:0]
				s.commit()
				s.all()
				if changed || s == x && r.IntN(3) == 0 {
					s.restart(cfg)
				}
			}
			if !bytes.Equal(x.s.Export(nil), y.s.Export(nil)) {
				t.Fatal("restored to another state")
			}
			if x.s.groups != nil && x.s.groups.index.Len() != y.s.groups.index.Len() {
				t.Fatalf("restored to %d groups, not %d", x.s.groups.index.Len(), y.s.groups.index.Len())
			}
		}
	}
}
