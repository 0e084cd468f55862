package config

import (
	"fmt"
	"regexp"

	"odradek/processor/state"
)

// grouping returns what puts anomalies into groups; nil without one.
func (c *Config) grouping() (*state.Grouping, error) {
	d := &c.Detect
	if d.GroupBy == "" || !d.Anomalies {
		return nil, nil
	}
	re, err := regexp.Compile(d.GroupBy)
	if err != nil {
		return nil, err
	}
	if re.NumSubexp() > 1 {
		return nil, fmt.Errorf("%q has %d parts in parentheses, of which one can be the group", d.GroupBy, re.NumSubexp())
	}
	by := func(key []byte) []byte {
		m := re.FindSubmatch(key)
		if m == nil {
			return nil
		}
		return m[len(m)-1]
	}
	return &state.Grouping{By: by, Window: d.GroupWindow.Microseconds()}, nil
}

// groups checks the settings of groups.
func (ch *checker) groups() {
	if ch.c.Detect.GroupBy == "" || !ch.ok("GROUP_BY", "GROUP_WINDOW", "ANOMALIES") {
		return
	}
	if !ch.c.Detect.Anomalies {
		ch.add("GROUP_BY", "set, but "+Prefix+"ANOMALIES is false", "set "+Prefix+"ANOMALIES=true or remove it")
		return
	}
	if _, err := ch.c.grouping(); err != nil {
		ch.add("GROUP_BY", err.Error(), "write a regular expression like ^[^/]+, and (?:...) for parentheses that are not the group")
	}
}
