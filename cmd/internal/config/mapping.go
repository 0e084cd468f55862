package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// mapped is a mapping with the settings that hold for its topics.
type mapped struct {
	*Mapping
	c *Config
}

const (
	mappingSection = "Mapping " // begins the section of the settings of a mapping
	inherited      = "inherited"
)

// ofRecords is the section of the settings that say how a record becomes samples: each mapping has them.
const ofRecords = "Records to samples"

// byMapping reports whether a mapping has the setting.
func (s *setting) byMapping() bool { return s.section == ofRecords || s.tag.Get("mapping") != "" }

// MappingSettings returns the names, less Prefix, of the settings that a mapping may have: records say how a record becomes
// samples, samples say what becomes of the samples of its topics. A command that reads records or rows checks them (FaultsOf).
func MappingSettings() (records, samples []string) {
	for _, s := range collect(reflect.ValueOf(new(Config)).Elem(), "", "") {
		switch {
		case s.section == ofRecords:
			records = append(records, s.name)
		case s.byMapping():
			samples = append(samples, s.name)
		}
	}
	return records, samples
}

// mappingNames returns the names of the settings that mappings have.
func (c *Config) mappingNames() *MappingNames {
	n := &MappingNames{Prefix: Prefix}
	for i := range c.settings {
		if s := &c.settings[i]; s.byMapping() {
			n.Settings = append(n.Settings, strings.TrimPrefix(s.name, Prefix))
		}
	}
	return n
}

// ForTopic returns the settings that hold for the records of a topic and their samples: of the mapping that names it, or has
// the longest pattern that matches it, else c itself.
func (c *Config) ForTopic(topic string) *Config {
	var entries []string
	for i := range c.mapped {
		entries = append(entries, c.mapped[i].Topics...)
	}
	best := BestMatch(entries, topic)
	for i := range c.mapped {
		if best != "" && slices.Contains(c.mapped[i].Topics, best) {
			return c.mapped[i].c
		}
	}
	return c
}

// Mappings returns the settings that ForTopic returns for the input topics, each once: c itself first, unless every input
// topic has a mapping.
func (c *Config) Mappings() (list []*Config) {
	if c.readsOwn() {
		list = append(list, c)
	}
	for i := range c.mapped {
		list = append(list, c.mapped[i].c)
	}
	return list
}

// MappingOf returns the name of a topic's mapping; "" without one.
func (c *Config) MappingOf(topic string) string { return c.ForTopic(topic).mappingName }

// MappingName returns the name of the mapping whose settings these are; "" outside of mappings.
func (c *Config) MappingName() string { return c.mappingName }

// MappingPrefix begins the names of the variables of these settings: a mapping's prefix, or Prefix.
func (c *Config) MappingPrefix() string {
	if c.mappingName == "" {
		return Prefix
	}
	return (&MappingNames{Prefix: Prefix}).Variable(c.mappingName, "")
}

// readsOwn reports whether an input topic has no mapping.
func (c *Config) readsOwn() bool {
	return len(c.mapped) == 0 || slices.ContainsFunc(c.Group.Topics, func(t string) bool {
		return !slices.ContainsFunc(c.mapped, func(m mapped) bool { return slices.Contains(m.Topics, t) })
	})
}

// AnyReadings reports whether records of some topic have an array of readings.
func (c *Config) AnyReadings() bool { return slices.ContainsFunc(c.Mappings(), (*Config).HasReadings) }

// addMappings reads the mappings of vars, adds their names to known, and returns the faults of their topics. given and
// file are what vars was made of.
func (c *Config) addMappings(vars, given map[string]string, file *fileOfSettings, known map[string]bool) (faults []Fault) {
	names := c.mappingNames()
	list, unknown := names.Find(vars)
	for _, m := range list {
		sub := &Config{mappingName: m.Name, picked: m.Detectors, inputs: c.inputs, root: c}
		subFile := &fileOfSettings{path: file.path, lines: over(m, file.lines, Prefix)}
		subKnown := sub.read(over(m, vars, Prefix), over(m, given, Prefix), subFile, &sub.parsed)
		c.mapped = append(c.mapped, mapped{m, sub})
		for _, s := range append([]string{settingTopics}, names.Settings...) {
			known[names.Variable(m.Name, s)] = true
		}
		for _, s := range sub.settings {
			name := strings.TrimPrefix(s.name, Prefix)
			switch {
			case name == settingTopics || s.byMapping():
				s.section, s.name, s.def = mappingSection+m.Name, names.Variable(m.Name, name), ""
				if m.Given[name] == "" {
					s.source = inherited
				}
				c.settings = append(c.settings, s)
			case !known[s.name]: // of a detector that the preset has for the mapping's values alone
				c.settings = append(c.settings, s)
			}
		}
		for name := range subKnown {
			known[name] = true
		}
	}
	for _, f := range names.Check(list, func(entry string) bool {
		return MatchTopic(c.Group.Topics, entry) || IsPattern(entry) && (c.HasPatterns() ||
			slices.ContainsFunc(c.Group.Topics, func(t string) bool { return MatchTopic([]string{entry}, t) }))
	}) {
		faults = append(faults, Fault{Name: f.Name, Problem: f.Problem, Fix: f.Fix})
	}
	for _, name := range unknown {
		if given[name] == "" { // misnamed reports a name of the file
			continue
		}
		f := Fault{Name: name, Problem: "no such setting of a mapping", Fix: "see docs/configuration.md"}
		if near, d := Nearest(name, known); d <= max(2, len(name)/5) {
			f.Fix = "did you mean " + near + "?"
		}
		faults = append(faults, f)
		known[name] = true
	}
	if c.Cycle.Rekey && len(list) > 0 {
		faults = append(faults, Fault{Name: Prefix + "REKEY", Problem: "true, but there are mappings: the records of all topics would be in " +
			"one internal topic, where nothing says which mapping reads them", Fix: "run a group for each shape, or key the topics by series"})
	}
	return faults
}

// validateMappings adds the faults of its mappings to the faults of c, which validate found, each under the name of the variable
// that can correct it. Faults of settings by which no topic is read are left out, unless they cannot be parsed.
func (c *Config) validateMappings(faults, parsed []Fault) []Fault {
	if len(c.mapped) == 0 {
		return faults
	}
	topical := func(name string) bool {
		i := slices.IndexFunc(c.settings, func(s setting) bool { return s.name == name })
		return strings.HasPrefix(name, Prefix+"DETECTOR_") || i >= 0 && c.settings[i].byMapping()
	}
	all := slices.Clone(faults)
	if !c.readsOwn() {
		all = slices.DeleteFunc(all, func(f Fault) bool { return topical(f.Name) && !slices.Contains(parsed, f) })
	}
	seen := slices.Clone(all)
	for i := range c.mapped {
		m := &c.mapped[i]
		for _, f := range m.c.validate(m.c.parsed) {
			raw := f
			own := m.Given[strings.TrimPrefix(f.Name, Prefix)]
			switch {
			case own == "" && slices.Contains(seen, raw):
				continue
			case own != "":
				f.Name = own
			case topical(f.Name):
				f.Problem = fmt.Sprintf("for the topics of mapping %s: %s", m.Name, f.Problem)
			}
			if !slices.ContainsFunc(all, func(o Fault) bool { return o.Name == f.Name && (own != "" || o == f) }) {
				all, seen = append(all, f), append(seen, raw)
			}
		}
	}
	c.sort(all)
	return all
}

// pick leaves the detectors that the mapping's DETECTORS names.
func (c *Config) pick(faults *[]Fault) {
	if len(c.picked) == 0 {
		return
	}
	all := c.Detect.Names
	c.Detect.Names = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(c.picked, name) })
	for _, name := range c.picked {
		if !slices.Contains(all, name) {
			*faults = append(*faults, Fault{Name: Prefix + settingDetectors, Problem: fmt.Sprintf("%q is none of the detectors", name),
				Fix: "name some of " + strings.Join(all, ", ")})
		}
	}
}
