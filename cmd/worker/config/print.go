package config

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Print returns the effective configuration as a table: name, value, where the value
// comes from. Secrets are hidden.
func (c *Config) Print() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	section := ""
	for _, s := range c.settings {
		if s.section != section {
			section = s.section
			fmt.Fprintf(w, "# %s\n", section)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.name, s.value, s.source)
	}
	w.Flush()
	return b.String()
}

// PrintEnv returns the effective configuration as environment lines, ready for
// `docker run --env-file`. Secrets are left out, as comments.
func (c *Config) PrintEnv() string {
	var b strings.Builder
	for _, s := range c.settings {
		switch {
		case s.value == "":
		case s.name == Prefix+"PRESET": // it is its detectors, which follow
			fmt.Fprintf(&b, "# %s=%s\n", s.name, s.value)
		case strings.Contains(s.value, hidden):
			fmt.Fprintf(&b, "# %s=%s\n", s.name, s.value)
		default:
			fmt.Fprintf(&b, "%s=%s\n", s.name, s.value)
		}
	}
	return b.String()
}

// Changed returns the settings of a detector that are given, or that its preset has, as NAME=value without the
// detector's prefix, separated by spaces.
func (c *Config) Changed(d *DetectorSettings) string {
	var parts []string
	short := DetectorPrefix(d.Name)
	for _, s := range c.settings {
		if name, ok := strings.CutPrefix(s.name, short); ok && s.source != "default" {
			parts = append(parts, name+"="+formatValue(s.field))
		}
	}
	return strings.Join(parts, " ")
}

// Count returns the number of settings, and of those that the environment or a file gives.
func (c *Config) Count() (all, given int) {
	for _, s := range c.settings {
		if s.source == "env" || s.source == "file" {
			given++
		}
	}
	return len(c.settings), given
}
