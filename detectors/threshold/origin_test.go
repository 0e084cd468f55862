package threshold

import "testing"

// TestOrigin: every kind but Off says where its bounds come from, with its numbers.
func TestOrigin(t *testing.T) {
	const ceiled = "; while clear faults are rare, at most about 20 spreads above the usual bound"
	for _, tt := range []struct {
		params Params
		want   string
	}{
		{New(Off, 0), ""},
		{New(Fixed, 3.5), "the number of the settings"},
		{New(Mean, 1.5), "1.5 times the mean of all earlier scores of the series"},
		{Params{Kind: Quantile, Value: 0.95, Margin: 1.5, History: 2048}, "1.5 times the 95 % quantile of the series' own last 2048 scores"},
		{Params{Kind: Quantile, Value: 0.995, History: 512}, "the 99.5 % quantile of the series' own last 512 scores"},
		{New(MAD, 6), "the median of the series' own last 512 scores plus 6 of their scaled median absolute deviations"},
		{Params{Kind: Conformal, Value: 0.0015, History: 2048},
			"the score that 0.15 % exceed of the series' own last 2048 scores; above the highest of them it is a fit of their tail" + ceiled},
		{Params{Kind: Conformal, Value: 0.0008, Margin: 2, History: 512},
			"the score that 0.08 % exceed of the series' own last 512 scores; above the highest of them it is a fit of their tail; " +
				"at most about 2 spreads above the usual bound"},
		{Params{Kind: PerDay, Value: 2, History: 2048, Span: 72 * 3600 * 1e6},
			"the score that 2048 of the series' own scores in the last 3 days exceed 2 times a day; " +
				"above the highest of them it is a fit of their tail" + ceiled},
	} {
		if got := tt.params.Origin(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.params, got, tt.want)
		}
	}
}
