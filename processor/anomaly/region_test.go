package anomaly

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// rectangle returns a region of columns x0 to x1 and rows y0 to y1, both included.
func rectangle(x0, x1, y0, y1 int32) *Region {
	return &Region{ColumnFrom: x0, ColumnTo: x1, RowFrom: y0, RowTo: y1, X0: float64(x0), X1: float64(x1 + 1), Y0: float64(y0),
		Y1: float64(y1 + 1), Observed: 7, Expected: 2.5, Ratio: 3, P: math.NaN()}
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b *Region
		want float64
	}{
		{rectangle(0, 3, 0, 3), rectangle(0, 3, 0, 3), 1},
		{rectangle(0, 3, 0, 3), rectangle(4, 7, 0, 3), 0},
		{rectangle(0, 3, 0, 3), rectangle(0, 3, 5, 7), 0},
		{rectangle(0, 3, 0, 3), rectangle(9, 9, 9, 9), 0},
		{rectangle(0, 1, 0, 0), rectangle(1, 2, 0, 0), 1.0 / 3},
		{rectangle(0, 3, 0, 0), rectangle(0, 0, 0, 0), 0.25},
		{rectangle(0, 2, 0, 2), rectangle(2, 4, 2, 4), 1.0 / 17},
	} {
		if got, back := c.a.overlap(c.b), c.b.overlap(c.a); got != c.want || back != c.want {
			t.Errorf("%+v and %+v overlap by %v and %v, want %v", c.a, c.b, got, back, c.want)
		}
	}
}

// TestRegionFollows: an anomaly follows a region that moves on, and another region is another anomaly.
func TestRegionFollows(t *testing.T) {
	policy := &Policy{OpenAfter: 1, CloseAfter: 1, Release: 1}
	var s State
	ids := map[[16]byte]int{}
	for i, c := range []struct {
		region *Region // nil: the score is under
		want   string
	}{
		{rectangle(0, 1, 0, 1), "open"}, {rectangle(0, 1, 0, 1), ""}, {rectangle(1, 2, 0, 1), "update"}, {rectangle(2, 3, 0, 1), "update"},
		{rectangle(7, 8, 0, 1), "close open"}, {nil, "close"}, {nil, ""}, {rectangle(7, 8, 0, 1), "open"},
	} {
		in := &Input{Time: int64(i), Offset: int64(i), About: int64(i), Until: int64(i), Score: 5, Detector: "d", Region: c.region}
		if in.Exceeds = c.region != nil; !in.Exceeds {
			in.Ordinary = true // although it is above the threshold
			in.Region = rectangle(7, 8, 0, 1)
		}
		var got string
		add := func(change Change, changed bool) {
			if !changed {
				return
			}
			if got != "" {
				got += " "
			}
			got += [...]string{"open", "update", "close"}[change.Kind]
			ids[change.Anomaly.ID]++
			if change.Kind != Close && change.Anomaly.Region != c.region {
				t.Errorf("score %d: region %+v, want %+v", i, change.Anomaly.Region, c.region)
			}
		}
		add(s.Leave(in, true))
		add(s.Step(policy, in, true))
		if got != c.want {
			t.Errorf("score %d: %q, want %q", i, got, c.want)
		}
		b := s.Append(nil)
		back, rest, err := decoded(b)
		if err != nil || len(rest) > 0 || !bytes.Equal(back.Append(nil), b) {
			t.Errorf("score %d: decoded %+v, %v", i, back, err)
		}
		for n := range b {
			if _, _, err := decoded(b[:n]); err == nil {
				t.Errorf("score %d: a state cut off at %d of %d bytes is read", i, n, len(b))
			}
		}
		s = back
	}
	if len(ids) != 3 {
		t.Errorf("%d anomalies, want 3", len(ids))
	}

	var replayed State // opens nothing and closes nothing, but a pending one
	pending := &Policy{OpenAfter: 2, CloseAfter: 1, Release: 1}
	in := &Input{Exceeds: true, Score: 1, Region: rectangle(0, 0, 0, 0)}
	replayed.Step(pending, in, false)
	other := &Input{Exceeds: true, Score: 1, Region: rectangle(5, 5, 5, 5)}
	replayed.Leave(other, false)
	if !replayed.Idle() {
		t.Error("a pending anomaly goes on elsewhere")
	}
	replayed.Step(policy, in, true)
	before := replayed.Clone()
	if _, ok := replayed.Leave(other, false); ok || !reflect.DeepEqual(replayed.Anomaly().ID, before.Anomaly().ID) {
		t.Error("a replay closes an anomaly")
	}
}
