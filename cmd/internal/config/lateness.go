package config

import "fmt"

// The values of LATENESS_BY.
const (
	bySeries    = "series"
	byPartition = "partition"
)

// oneClock returns the setting for which samples of all series of a partition are in one order; "" without one.
func (c *Config) oneClock() string {
	if c.Detect.GroupBy != "" && c.Detect.Anomalies {
		return Prefix + "GROUP_BY"
	}
	for i := range c.Detectors {
		if d := &c.Detectors[i]; d.Grid.Span > 0 {
			return DetectorPrefix(d.Name) + "GRID"
		}
	}
	return ""
}

// LatenessText says which samples are late, and why, for people.
func (c *Config) LatenessText() string {
	k := &c.Keys
	switch need := c.oneClock(); {
	case k.Lateness == 0:
		return "a sample older than the newest of its series is late"
	case k.LatenessBy == bySeries:
		return fmt.Sprintf("%s: a sample is late if it is more than %v older than the newest of its series", bySeries, k.Lateness)
	case need != "" && c.isDefault("LATENESS_BY"):
		return fmt.Sprintf("%s, because of %s: a sample is late if it is more than %v older than the newest of its partition", byPartition,
			need, k.Lateness)
	default:
		return fmt.Sprintf("%s: a sample is late if it is more than %v older than the newest of its partition", byPartition, k.Lateness)
	}
}

// latenessBy checks by which clock samples are late.
func (ch *checker) latenessBy() {
	need := ch.c.oneClock()
	if !ch.ok("LATENESS", "LATENESS_BY", "GROUP_BY", "ANOMALIES") || ch.c.Keys.Lateness == 0 || ch.c.Keys.LatenessBy != bySeries ||
		need == "" {
		return
	}
	ch.add("LATENESS_BY", "series, but "+need+" needs the samples of all series in one order", "remove it, or write partition")
}
