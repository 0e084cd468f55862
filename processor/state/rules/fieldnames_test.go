package rules

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestFieldNames: each transform and aggregate of a series of the reading has the name of its field.
func TestFieldNames(t *testing.T) {
	for want, r := range map[string]Reading{
		"accel temp": {Decoding: Decoding{Fields: []string{"accel[2]", "temp"}}, Order: Order{Transforms: []string{"accel=rate", "temp=log"}}},
		"load temp": {Decoding: Decoding{Fields: []string{"temp", "load"}, Series: true},
			Order: Order{Every: 1e6, Aggregates: []string{"load=max", "mean"}}},
		"metrics.* metrics.bytes": {Decoding: Decoding{Fields: []string{"metrics.*"}, Series: true},
			Order: Order{Every: 1e6, Aggregates: []string{"mean"}, Transforms: []string{"metrics.bytes=rate"}}},
	} {
		names := r.FieldNames()
		all := slices.Compact(slices.Sorted(maps.Values(names)))
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%v: %s, want %s", r, got, want)
		}
		for _, key := range []string{"k/accel", "k/temp", "k/load", "k/metrics.bytes", "k/metrics.other"} {
			for _, a := range r.AggregatesOf([]byte(key)) {
				name := names[a.ID]
				if field := key[2:]; r.Series && slices.Contains(all, field) && name != field {
					t.Errorf("%v: an aggregate of %s is one of %q", r, key, name)
				}
			}
		}
	}
}
