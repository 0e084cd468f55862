package backtest

import (
	"fmt"
	"math"
	"testing"

	"odradek/processor/state"
	"odradek/processor/state/series"
)

// TestBeside compares anomalies with published ones by hand-counted spans: of the detector of the same name, or of all
// where none of that name has published, in the same series, within its rows.
func TestBeside(t *testing.T) {
	span := func(from, to, openedAt int64) publishedSpan { return publishedSpan{Span{from, to}, openedAt} }
	c := &Config{State: &state.Config{Detectors: []series.DetectorConfig{{Name: "level"}, {Name: "new"}}}, Published: Published{
		"level": {
			"a": {span(10, 20, 12), span(30, math.MaxInt64, 31), span(1, 3, 2)}, // found, open, before the rows
			"b": {span(10, 20, 12)},                                             // not found
			"c": {span(10, 20, 12)},                                             // a series without rows
		},
		"shape": {"a": {span(22, 25, 23)}},
	}}
	var all []*seriesTrack
	for _, name := range []string{"a", "b"} {
		s := newSeries([]byte(name), c, c.State, 0)
		s.first, s.last = 5, 100
		all = append(all, s)
	}
	for _, own := range []struct {
		series, detector int
		span             Span
	}{
		{0, 0, Span{20, 21}}, {0, 0, Span{22, 23}}, {0, 0, Span{90, 91}}, {1, 0, Span{21, 22}},
		{0, 1, Span{22, 23}}, {1, 1, Span{50, 60}},
	} {
		all[own.series].dets[own.detector].compare(own.span)
	}
	for d, want := range []string{
		"3 published by level: 2 of them found, 1 not; 2 anomalies of the backtest among them, 2 new",
		"4 published by any detector: 1 of them found, 3 not; 1 anomalies of the backtest among them, 1 new",
	} {
		if got := fmt.Sprint(c.sumBeside(c.State.Detectors[d].Name, all)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.Published = nil
	if b := c.sumBeside("level", all); b != nil {
		t.Errorf("compared with nothing: %v", b)
	}
}
