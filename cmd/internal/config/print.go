package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"odradek/cmd/internal/config/settingsfile"
	"odradek/detectors"
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
// `docker run --env-file`. Secrets are left out, as comments; with mappings, whose defaults are other ones, what is not
// given is, too.
func (c *Config) PrintEnv() string {
	var b strings.Builder
	for _, s := range c.settings {
		switch {
		case s.value == "":
		case len(c.mapped) > 0 && !s.given():
			fmt.Fprintf(&b, "# %s=%s\n", s.name, s.value)
		case s.name == Prefix+"PRESET" && len(c.mapped) == 0: // it is its detectors, which follow
			fmt.Fprintf(&b, "# %s=%s\n", s.name, s.value)
		case strings.Contains(s.value, Hidden):
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
		if name, ok := strings.CutPrefix(s.name, short); ok && s.section == detectorSection+d.Name && s.source != "default" {
			parts = append(parts, name+"="+formatValue(s.field))
		}
	}
	return strings.Join(parts, " ")
}

// ChangedOf is Changed of the detector of a name; "" for none.
func (c *Config) ChangedOf(name string) string {
	for i := range c.Detectors {
		if c.Detectors[i].Name == name {
			return c.Changed(&c.Detectors[i])
		}
	}
	return ""
}

// Count returns the number of settings, and of those that the environment or a file gives.
func (c *Config) Count() (all, given int) {
	for _, s := range c.settings {
		if s.given() {
			given++
		}
	}
	return len(c.settings), given
}

// PrintYAML returns the effective configuration as a settings file: what is given, and as comments what the
// others are. Secrets are left out, but not the files that hold them.
func (c *Config) PrintYAML() string {
	list := c.fileSettings()
	return settingsfile.Format("Settings of Odradek, for worker run -config. What is a comment is not given: it is the default\n"+
		"or what the preset says. Variables of the environment override this file.", list)
}

// GivenSettings returns what the environment or a file gives, as a settings file would have it. Of secrets it has the files
// that hold them.
func (c *Config) GivenSettings() []settingsfile.Setting {
	preset := c.Detect.Preset
	given := map[string]bool{}
	for i := range c.settings {
		given[c.settings[i].name] = c.settings[i].given()
	}
	return slices.DeleteFunc(c.fileSettings(), func(s settingsfile.Setting) bool {
		return s.Off || s.Key == "preset" && s.Detector == "" && preset != noPreset && !given[Prefix+"PRESET"]
	})
}

// fileSettings returns the settings as a settings file has them: those that are not given are comments.
func (c *Config) fileSettings() (list []settingsfile.Setting) {
	said := map[string]bool{}
	var detectors, mapped, others []setting
	for _, s := range c.settings {
		switch {
		case strings.HasPrefix(s.section, detectorSection):
			detectors = append(detectors, s)
		case strings.HasPrefix(s.section, mappingSection):
			mapped = append(mapped, s)
		case s.name != configSetting && s.name != Prefix+"DETECTORS":
			others = append(others, s)
		}
	}
	for _, s := range slices.Concat(others, mapped, detectors) {
		out := settingsfile.Setting{Section: s.section, Key: strings.ToLower(strings.TrimPrefix(s.name, Prefix)), Value: s.value, List: s.list(),
			Comment: s.tag.Get("doc"), Off: !s.given() || s.value == "" || strings.Contains(s.value, Hidden)}
		if name, ok := strings.CutPrefix(s.section, detectorSection); ok {
			out.Section, out.Detector = "Detectors", name
			out.Key = strings.ToLower(strings.TrimPrefix(s.name, DetectorPrefix(name)))
		}
		if name, ok := strings.CutPrefix(s.section, mappingSection); ok {
			out.Section, out.Mapping = "Mappings", strings.ToLower(name)
			out.Key = strings.ToLower(strings.TrimPrefix(s.name, (&MappingNames{Prefix: Prefix}).Variable(name, "")))
		}
		if said[out.Key] {
			out.Comment = ""
		}
		said[out.Key] = true
		if out.Key == "preset" && c.Detect.Preset != noPreset {
			out.Off = false
		}
		if s.kept != "" {
			out.Key, out.Value, out.Off = out.Key+strings.ToLower(fileSuffix), s.kept, false
		}
		list = append(list, out)
	}
	return list
}

// EffectiveSetting is a setting in effect.
type EffectiveSetting struct {
	Section, Name, Value string
	Live                 bool // a changed value holds without a restart
	field                reflect.Value
}

// Same reports whether two values are the same, also of secrets.
func (e *EffectiveSetting) Same(o *EffectiveSetting) bool {
	return e.Value == o.Value && reflect.DeepEqual(e.field.Interface(), o.field.Interface())
}

// Effective lists the settings in the order of the docs. Secrets are hidden.
func (c *Config) Effective() (list []EffectiveSetting) {
	restart := map[string]bool{} // settings that are live for other detectors
	for i := range c.Detectors {
		if d := &c.Detectors[i]; d.searchesSide() {
			restart[DetectorPrefix(d.Name)+detectors.DirectionParam] = true
		}
	}
	for _, s := range c.settings {
		list = append(list, EffectiveSetting{s.section, s.name, s.value, s.tag.Get("live") != "" && !restart[s.name], s.field})
	}
	return list
}
