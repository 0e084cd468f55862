package state

import (
	"bytes"
	"math"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
)

// TestIndex compares an index with a list of what is remembered, of which the group is found by looking at all.
func TestIndex(t *testing.T) {
	r := seedtest.New(t)
	type remembered struct {
		name string
		*anomaly.Group
	}
	joined, alone := 0, 0
	for range 50 {
		x := groupIndex{Window: r.Int64N(50)}
		far := r.IntN(5) == 0
		var all []remembered
		for step := range 300 {
			name := string(rune('a' + r.IntN(3)))
			time := r.Int64N(500)
			if far {
				time = []int64{math.MinInt64 + 1, math.MinInt64 + 30, -1, 0, math.MaxInt64 - 20, math.MaxInt64}[r.IntN(6)]
			}
			id := [16]byte{byte(r.IntN(256)), byte(step), byte(step >> 8)}
			var want *anomaly.Group
			for _, a := range all {
				apart := uint64(max(a.Since, time)) - uint64(min(a.Since, time))
				if a.name == name && apart <= uint64(x.Window) && (want == nil || a.Since > want.Since ||
					a.Since == want.Since && bytes.Compare(a.ID[:], want.ID[:]) > 0) {
					want = a.Group
				}
			}
			got := x.Join(name, id, time)
			switch {
			case want == nil:
				alone++
				if got.ID != id || got.Since != time {
					t.Fatalf("group %+v, want a new one", got)
				}
			case *got != *want:
				t.Fatalf("group %+v, want %+v", got, want)
			default:
				joined++
			}
			x.Add(name, got)
			all = append(all, remembered{name, got})
			for len(all) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(all))
				x.Remove(all[i].name, all[i].Group)
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
			}
			if len(all) == 0 && (x.Len() != 0 || len(x.names) != 0) {
				t.Fatal("groups that nothing remembers")
			}
		}
		names := map[string]bool{}
		for _, a := range all {
			names[a.name] = true
		}
		if len(x.names) != len(names) {
			t.Fatalf("%d names, want the %d that are left", len(x.names), len(names))
		}
	}
	if joined < 500 || alone < 500 {
		t.Errorf("%d joined a group, %d did not", joined, alone)
	}
}
