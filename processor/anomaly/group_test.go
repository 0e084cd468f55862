package anomaly

import (
	"bytes"
	"reflect"
	"testing"
)

// TestGroup: an anomaly has its group in all of its records, and a State remembers it when the anomaly is closed, also
// over its codec and in a copy; the next anomaly has none until it is set.
func TestGroup(t *testing.T) {
	policy := &Policy{OpenAfter: 2, CloseAfter: 1, UpdateEvery: 1, Release: 1}
	groups := []*Group{{ID: [16]byte{1}, Since: -70}, {ID: [16]byte{2}, Since: 1 << 50}}
	var s State
	opened := 0
	for i, exceeds := range []bool{false, true, true, true, false, false, true, false, true, true, true, false} {
		in := &Input{Time: int64(i), Score: 1, Threshold: 2, Exceeds: exceeds, Actual: []float64{float64(i)}}
		c, changed := s.Step(policy, in, true)
		switch {
		case changed && c.Kind == Open:
			if c.Anomaly.Group != nil {
				t.Errorf("score %d: it opens in group %v", i, c.Anomaly.Group)
			}
			s.SetGroup(groups[opened])
			opened++
		case changed && c.Anomaly.Group != groups[opened-1]:
			t.Errorf("score %d: group %v, want %v", i, c.Anomaly.Group, groups[opened-1])
		}
		var want *Group
		if opened > 0 {
			want = groups[opened-1]
		}
		if clone := s.Clone(); clone.Group() != want || s.Group() != want {
			t.Errorf("score %d: it remembers %v, and a copy %v, want %v", i, s.Group(), clone.Group(), want)
		}
		b := s.Append(nil)
		back, rest, err := decoded(append(b, 7))
		if err != nil || !bytes.Equal(rest, []byte{7}) || !reflect.DeepEqual(back.Group(), want) || !bytes.Equal(back.Append(nil), b) ||
			!reflect.DeepEqual(back.Anomaly(), s.Anomaly()) {
			t.Errorf("score %d: decoded %+v, %v", i, back, err)
		}
		for n := range b {
			if _, _, err := decoded(b[:n]); err == nil {
				t.Errorf("score %d: a state cut off at %d of %d bytes is read", i, n, len(b))
			}
		}
	}
	if opened != 2 {
		t.Errorf("%d anomalies", opened)
	}
	var plain State
	if b := plain.Append(nil); !bytes.Equal(b, []byte{0}) {
		t.Errorf("without a group: % x", b)
	}
}
