package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// This file finds the settings of mappings among variables: ODRADEK_MAPPING_<NAME>_TOPICS names the topics whose
// records are read by the mapping, and ODRADEK_MAPPING_<NAME>_KEY_FIELD, say, holds for them in place of
// ODRADEK_KEY_FIELD. It knows no setting: package config says which names there are.

// The settings of a mapping that are other than those that they are named after: TOPICS says which of the input topics
// the mapping is for, and DETECTORS which of the detectors look at them.
const (
	Topics    = "TOPICS"
	Detectors = "DETECTORS"
)

// section begins the names of the settings of mappings, after the prefix of all settings.
const section = "MAPPING_"

// instead has pairs of settings of which a mapping that gives the one does not inherit the other.
var instead = map[string]string{"VALUE_FIELDS": "SERIES_FIELDS", "SERIES_FIELDS": "VALUE_FIELDS"}

// Mapping is the settings that the variables give one mapping.
type Mapping struct {
	Name      string            // as in the names of its variables
	Topics    []string          // of its setting TOPICS
	Detectors []string          // of its setting DETECTORS
	Given     map[string]string // the name of the variable of each setting that is given
}

// MappingFault is what is wrong with a variable.
type MappingFault struct{ Name, Problem, Fix string }

// Names are those of the settings that mappings have.
type Names struct {
	Prefix   string   // of all settings
	Settings []string // without prefixes
}

// Variable returns the name of a mapping's setting.
func (n *Names) Variable(mapping, setting string) string {
	return n.Prefix + section + EnvName(mapping) + "_" + setting
}

// EnvName returns what stands for a mapping's name in the names of its settings.
func EnvName(mapping string) string { return strings.ToUpper(strings.ReplaceAll(mapping, "-", "_")) }

var nameRE = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// Find returns the mappings of variables, by name, and the names of variables of mappings that are no setting of one.
// An empty value counts as not set, but it names its mapping.
func (n *Names) Find(vars map[string]string) (list []*Mapping, unknown []string) {
	byName := map[string]*Mapping{}
	settings := append([]string{Topics}, n.Settings...)
	for _, variable := range slices.Sorted(maps.Keys(vars)) {
		rest, ok := strings.CutPrefix(variable, n.Prefix+section)
		if !ok {
			continue
		}
		i := slices.IndexFunc(settings, func(s string) bool {
			name, ok := strings.CutSuffix(rest, "_"+s)
			return ok && nameRE.MatchString(name)
		})
		if i < 0 {
			unknown = append(unknown, variable)
			continue
		}
		name := strings.TrimSuffix(rest, "_"+settings[i])
		m := byName[name]
		if m == nil {
			m = &Mapping{Name: name, Given: map[string]string{}}
			byName[name] = m
			list = append(list, m)
		}
		if value := vars[variable]; value != "" {
			m.Given[settings[i]] = variable
			switch settings[i] {
			case Topics:
				m.Topics = items(value)
			case Detectors:
				m.Detectors = items(value)
			}
		}
	}
	slices.SortFunc(list, func(a, b *Mapping) int { return strings.Compare(a.Name, b.Name) })
	return list, unknown
}

// items splits a list written by hand.
func items(value string) (list []string) {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// Check returns what is wrong with the topics of mappings, of which isInput reports whether they are input topics.
func (n *Names) Check(list []*Mapping, isInput func(topic string) bool) (faults []MappingFault) {
	of := map[string]*Mapping{}
	for _, m := range list {
		name := n.Variable(m.Name, Topics)
		var problems []string
		for i, t := range m.Topics {
			switch other := of[t]; {
			case slices.Contains(m.Topics[:i], t):
				problems = append(problems, fmt.Sprintf("%q is named twice", t))
			case other != nil:
				problems = append(problems, fmt.Sprintf("%q has the mapping %s already", t, other.Name))
			case !isInput(t):
				problems = append(problems, fmt.Sprintf("%q is none of %sTOPICS", t, n.Prefix))
			}
			of[t] = m
		}
		switch {
		case len(m.Topics) == 0:
			faults = append(faults, MappingFault{name, "the mapping has no topics", "name the input topics that it is for, or remove its settings"})
		case len(problems) > 0:
			faults = append(faults, MappingFault{name, strings.Join(problems, ", "), "name input topics, each in one mapping"})
		}
	}
	return faults
}

// Over returns values by variable as they are for the mapping's topics: those of its own settings in place of those that
// it would inherit, under the names of these. DETECTORS stays as it is.
func Over[V any](m *Mapping, vars map[string]V, prefix string) map[string]V {
	out := maps.Clone(vars)
	maps.DeleteFunc(out, func(name string, _ V) bool { return strings.HasPrefix(name, prefix+section) })
	for setting := range m.Given {
		if other := instead[setting]; other != "" && m.Given[other] == "" {
			delete(out, prefix+other)
		}
	}
	for setting, variable := range m.Given {
		if setting == Detectors {
			continue
		}
		if value, ok := vars[variable]; ok {
			out[prefix+setting] = value
		} else {
			delete(out, prefix+setting)
		}
	}
	return out
}
