package anomaly

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// TestShadow: an anomaly keeps the mode in which it opened, over its codec too, and a score of the other mode closes it; a
// pending one opens in the mode of the score that completes it. A replay closes nothing, and neither does NaN.
func TestShadow(t *testing.T) {
	policy := &Policy{OpenAfter: 2, CloseAfter: 1, Release: 1}
	var s State
	region := &Region{ColumnTo: 1, RowTo: 1, Observed: 3}
	for i, c := range []struct {
		score        float32
		shadow, emit bool
		want         string
	}{
		{2, true, true, ""},
		{2, false, true, "open"}, // pending in shadow
		{2, false, true, ""},
		{2, true, false, ""},                         // in a replay
		{float32(math.NaN()), true, true, ""},        // no score
		{2, true, true, "close"},                     // and pending
		{2, true, true, "OPEN"},                      //
		{0, true, false, ""},                         // in a replay
		{0, true, true, "CLOSE"},                     // of itself
		{2, true, true, ""}, {2, true, true, "OPEN"}, //
		{0, false, true, "CLOSE"},
		{0, false, true, ""},
	} {
		var got string
		add := func(change Change, changed bool) {
			if !changed {
				return
			}
			kinds := []string{"open", "update", "close"}
			if change.Anomaly.Shadow {
				kinds = []string{"OPEN", "UPDATE", "CLOSE"}
			}
			got += kinds[change.Kind]
			own := change.Kind == Close && change.Anomaly.Shadow == c.shadow
			if want := map[bool]Reason{true: Recovered, false: DetectorRemoved}[own || change.Kind == Open]; change.Reason != want {
				t.Errorf("score %d: reason %d, want %d", i, change.Reason, want)
			}
		}
		in := &Input{Time: int64(i), Offset: int64(i), Score: c.score, Threshold: 1, Exceeds: c.score > 1, Shadow: c.shadow,
			Detector: "d", Contribution: [][]float64{nil, {1, 2}}[i%2], Region: region}
		add(s.Leave(in, c.emit))
		add(s.Step(policy, in, c.emit))
		if got != c.want {
			t.Errorf("score %d: %q, want %q", i, got, c.want)
		}
		b := s.Append(nil)
		back, rest, err := decoded(b)
		if err != nil || len(rest) > 0 || !bytes.Equal(back.Append(nil), b) || !reflect.DeepEqual(back.Anomaly(), s.Anomaly()) {
			t.Errorf("score %d: decoded %+v, want %+v: %v", i, back.Anomaly(), s.Anomaly(), err)
		}
		s = back
	}
}
