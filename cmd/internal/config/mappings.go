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

// Two settings of a mapping have another meaning than the settings of the worker with these names: ODRADEK_MAPPING_<NAME>_TOPICS
// lists the input topics that the mapping is for, and ODRADEK_MAPPING_<NAME>_DETECTORS the detectors that read them.
const (
	settingTopics    = "TOPICS"
	settingDetectors = "DETECTORS"
)

// section begins the names of the settings of mappings, after the prefix of all settings.
const section = "MAPPING_"

// instead has pairs of settings that exclude each other: a mapping that gives one does not inherit the other.
var instead = map[string]string{"VALUE_FIELDS": "SERIES_FIELDS", "SERIES_FIELDS": "VALUE_FIELDS"}

// Mapping has the settings of one mapping, found among variables.
type Mapping struct {
	Name      string            // as in the names of its variables
	Topics    []string          // of its setting TOPICS
	Detectors []string          // of its setting DETECTORS
	Given     map[string]string // the name of the variable of each setting that is given
}

// MappingFault is a fault of a variable of a mapping.
type MappingFault struct{ Name, Problem, Fix string }

// MappingNames are the names of all settings that a mapping can have beside TOPICS.
type MappingNames struct {
	Prefix   string   // of the variables of all settings: ODRADEK_
	Settings []string // without prefixes, such as KEY_FIELD
}

// Variable returns the name of the variable of a mapping's setting, such as ODRADEK_MAPPING_PUMPS_KEY_FIELD.
func (n *MappingNames) Variable(mapping, setting string) string {
	return n.Prefix + section + EnvName(mapping) + "_" + setting
}

// EnvName returns the form of a mapping's name in its variables: in upper case, with _ for -.
func EnvName(mapping string) string { return strings.ToUpper(strings.ReplaceAll(mapping, "-", "_")) }

var nameRE = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// Find returns the mappings that the variables in vars define, sorted by name, and the names of variables that begin like
// a mapping's and belong to no setting. A variable with an empty value gives no setting, but its mapping exists.
func (n *MappingNames) Find(vars map[string]string) (list []*Mapping, unknown []string) {
	byName := map[string]*Mapping{}
	settings := append([]string{settingTopics}, n.Settings...)
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
			case settingTopics:
				m.Topics = items(value)
			case settingDetectors:
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

// Check returns the faults of the topics of mappings. isInput reports whether a topic is an input topic.
func (n *MappingNames) Check(list []*Mapping, isInput func(topic string) bool) (faults []MappingFault) {
	byTopic := map[string]*Mapping{}
	for _, m := range list {
		name := n.Variable(m.Name, settingTopics)
		var problems []string
		for i, t := range m.Topics {
			switch other := byTopic[t]; {
			case slices.Contains(m.Topics[:i], t):
				problems = append(problems, fmt.Sprintf("%q is named twice", t))
			case other != nil:
				problems = append(problems, fmt.Sprintf("%q has the mapping %s already", t, other.Name))
			case !isInput(t):
				problems = append(problems, fmt.Sprintf("%q is none of %sTOPICS", t, n.Prefix))
			}
			byTopic[t] = m
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

// over returns the variables as they hold for the topics of a mapping: a copy of vars in which ODRADEK_KEY_FIELD, say, has the
// value of ODRADEK_MAPPING_<NAME>_KEY_FIELD where the mapping gives it, and without variables of mappings. DETECTORS keeps
// its value.
func over[V any](m *Mapping, vars map[string]V, prefix string) map[string]V {
	out := maps.Clone(vars)
	maps.DeleteFunc(out, func(name string, _ V) bool { return strings.HasPrefix(name, prefix+section) })
	for setting := range m.Given {
		if other := instead[setting]; other != "" && m.Given[other] == "" {
			delete(out, prefix+other)
		}
	}
	for setting, variable := range m.Given {
		if setting == settingDetectors {
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
