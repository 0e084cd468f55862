package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestReadingFaults: each fault of what a record becomes is named once, under its setting.
func TestReadingFaults(t *testing.T) {
	for _, c := range []struct {
		settings string
		want     []string
	}{
		{"VALID=value=5..1", []string{"VALID"}},
		{"VALID=x=1..2", []string{"VALID"}},
		{"MISSING_IF=value=1e400", []string{"MISSING_IF"}},
		{"TIME_ZONE=Mars", []string{"TIME_ZONE"}},
		{"TIME_LAYOUT=yyyy", []string{"TIME_LAYOUT"}},
		{"TIME_LAYOUT=%Y-%m-%d", []string{"TIME_LAYOUT"}},
		{"TOMBSTONES=drop", []string{"TOMBSTONES"}},
		{"TEXT_VALUES=yes", []string{"TEXT_VALUES"}},
		{"DECIMALS=value=x", []string{"DECIMALS"}},
		{"DECIMALS=v=2", []string{"DECIMALS"}},
		{"DECIMALS=value=-2 TEXT_VALUES=number", nil},
		{"COMPUTE=x=raw", []string{"COMPUTE"}},
		{"VALUE_FIELDS=x COMPUTE=x=raw+", []string{"COMPUTE"}},
		{"VALUE_FIELDS=x,y,z COMPUTE=x=math.greatest(a,b),y=a[\"k,\"]*2.0 VALID=x=0..5 MISSING_IF=y=-1", nil},
		{"SERIES_FIELDS=x,y COMPUTE=x=raw*2.0", nil},
		{`ONLY_IF=quality="GOOD"`, []string{"ONLY_IF"}},
		{"ONLY_IF=1+1", []string{"ONLY_IF"}},
		{`READINGS_FIELD=points VALUE_FIELDS=points.v ONLY_IF=points.q>0.0`, nil},
		{`ONLY_IF=quality=="GOOD"`, nil},
		{"VALID=value=5..1 MISSING_IF=value=x TIME_ZONE=Mars TIME_LAYOUT=yyyy", []string{"MISSING_IF", "TIME_LAYOUT", "TIME_ZONE", "VALID"}},
		{"VALUE_FIELDS=a,b[2] VALID=a=..5,b=0.. MISSING_IF=b=-1|-2 TIME_ZONE=UTC TIME_LAYOUT=%F_%T TOMBSTONES=skip", []string{"TIME_LAYOUT"}},
		{"VALUE_FIELDS=a,b[2] VALID=a=..5,b=0.. MISSING_IF=b=-1|-2 TIME_ZONE=UTC TIME_LAYOUT=%FT%T TOMBSTONES=skip", nil},
		{"TRANSFORM=value=cube", []string{"TRANSFORM"}},
		{"TRANSFORM=rate", []string{"TRANSFORM"}},
		{"TRANSFORM=x=rate", []string{"TRANSFORM"}},
		{"TRANSFORM=value=rate,value=log", []string{"TRANSFORM"}},
		{"VALUE_FIELDS=a,b[2] TRANSFORM=b[2]=rate,b=rate", []string{"TRANSFORM"}},
		{"VALUE_FIELDS=x,y DETECTORS=s DETECTOR_S_OP=scan DETECTOR_S_COLUMNS=2 DETECTOR_S_WINDOW=4 DETECTOR_S_GRID=1h DETECTOR_S_GRID_BOX=0,0,1,1 " +
			"TRANSFORM=x=abs",
			[]string{"TRANSFORM"}},
		{"VALUE_FIELDS=a,b[2] TRANSFORM=b[2]=rate,a=log", nil},
		{"SERIES_FIELDS=a.x,b[2] TRANSFORM=b=rate", nil},
		{"EVERY=1m AGGREGATE=average", []string{"AGGREGATE"}},
		{"EVERY=1m AGGREGATE=x=sum", []string{"AGGREGATE"}},
		{"EVERY=1m AGGREGATE=sum,max", []string{"AGGREGATE"}},
		{"VALUE_FIELDS=a,b[2] EVERY=1m AGGREGATE=b=sum,b[2]=max", []string{"AGGREGATE"}},
		{"EVERY=1us EMPTY=none", []string{"EMPTY", "EVERY"}},
		{"VALUE_FIELDS=x,y DETECTORS=s DETECTOR_S_OP=scan DETECTOR_S_COLUMNS=2 DETECTOR_S_WINDOW=4 DETECTOR_S_GRID=1h " +
			"DETECTOR_S_GRID_BOX=0,0,1,1 EVERY=1m", []string{"EVERY"}},
		{"VALUE_FIELDS=a,b[2] EVERY=1m AGGREGATE=sum,b[2]=p95 EMPTY=zero", nil},
		{"SERIES_FIELDS=a.x,b EVERY=1m AGGREGATE=b=count", nil},
		{"SERIES_FIELDS=a.x,b VALID=a.x=0..1 MISSING_IF=b=-9999", nil},
	} {
		environ := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_FORMAT=json"}
		for _, s := range strings.Fields(c.settings) {
			environ = append(environ, Prefix+s)
		}
		_, faults, _ := Parse(environ)
		got := map[string]int{}
		for _, f := range faults {
			got[strings.TrimPrefix(f.Name, Prefix)]++
		}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) || len(faults) != len(got) {
			t.Errorf("%s: faults %v, want of %v", c.settings, faults, c.want)
		}
	}
}
