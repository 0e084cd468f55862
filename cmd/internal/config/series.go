package config

import (
	"slices"
	"strconv"
	"strings"
)

// ParseSeries parses the settings for recorded series of dim values a sample: the
// environment lines (NAME=value), with the value fields x0, x1, ..., with any fields and readings in a record, and with anomalies.
// Mappings, lateness, TTL, the largest jump and the largest number of series do not apply: rows are
// taken in order. It returns the faults of detectors, of missing values, and of the settings that
// also names as FaultsOf does; such a run does not need the others.
func ParseSeries(environ []string, dim int, also ...string) (*Config, []Fault) {
	fields := make([]string, dim)
	for i := range fields {
		fields[i] = SeriesField(i)
	}
	own := []string{Prefix + "VALUE_FIELDS=" + strings.Join(fields, ","), Prefix + "ANOMALIES=true"}
	c, faults, _ := parse(append(slices.Clone(environ), own...), false)
	if faults = FaultsOf(faults, append([]string{"PRESET", "DETECTOR", "MISSING", "LATENESS"}, also...)); len(faults) > 0 {
		return c, faults
	}
	c.Mapping.SeriesFields, c.Mapping.ReadingsField = nil, ""
	c.Keys.TTL, c.Keys.MaxKeys, c.Keys.Lateness, c.Keys.MaxJump = 0, 0, 0, 0
	return c, nil
}

// SeriesField returns the name of value i of a sample of recorded series.
func SeriesField(i int) string { return "x" + strconv.Itoa(i) }
