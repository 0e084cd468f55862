package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/detectors/threshold"
)

// noPreset is the preset of a configuration that names its detectors.
const noPreset = ""

// expandPreset adds the settings of the preset's detectors to vars if vars names no detector. It overwrites no setting
// of vars; a detector with another OP gets none of the preset's settings.
func (c *Config) expandPreset(vars map[string]string, faults *[]Fault) {
	name := Prefix + "PRESET"
	if len(c.Detect.Names) > 0 {
		if vars[name] != "" {
			*faults = append(*faults, Fault{Name: name, Problem: "set, but so is " + Prefix + "DETECTORS",
				Fix: "remove one of them; a setting of one of a preset's detectors is changed by itself, such as " + DetectorPrefix("near") + "K=10"})
		}
		if c.Detect.Sensitivity != "normal" {
			*faults = append(*faults, Fault{Name: Prefix + "SENSITIVITY", Problem: "set, but it is for the detectors of a preset, and " +
				Prefix + "DETECTORS names others", Fix: "remove it, and set THRESHOLD or ALARMS_PER_DAY of the detectors"})
		}
		c.Detect.Preset = noPreset
		return
	}
	p := cmp.Or(PresetNamed(c.Detect.Preset), &Presets[0]) // validate reports one that does not exist
	c.Detect.Preset = cmp.Or(c.Detect.Preset, p.Name)
	values := len(c.Mapping.ValueFields)
	if columns, err := c.SchemaMapping().Columns(c.Mapping.ValueFields); err == nil {
		values = len(columns)
	}
	set := func(name, value string) {
		if vars[name] == "" {
			vars[name] = value
		}
	}
	var gated []string
	for _, d := range p.detectors(values) {
		settings := strings.Fields(d.One)
		if values > 1 {
			settings = strings.Fields(d.Several)
		}
		if len(settings) == 0 {
			continue
		}
		c.Detect.Names = append(c.Detect.Names, d.Name)
		pre := DetectorPrefix(d.Name)
		op, _ := strings.CutPrefix(settings[0], "OP=")
		if given := vars[pre+"OP"]; given != "" && given != op {
			continue
		}
		others := vars[pre+"MEMBERS"] != ""
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			perDay, err := strconv.ParseFloat(vars[pre+"ALARMS_PER_DAY"], 64)
			if name == "THRESHOLD" {
				value = sensitive(op, value, c.Detect.Sensitivity)
			}
			switch {
			case name == "THRESHOLD" && err == nil && perDay != 0: // that is a threshold of its own
				continue
			case name == "WEIGHTS" && others, // of other members
				vars[pre+"COMBINE"] == combineAny && slices.Contains(sumSettings, name):
				continue
			}
			if name == "ONLY_WITH" && vars[pre+name] == "" {
				gated = append(gated, d.Name)
			}
			set(pre+name, value)
		}
	}
	for _, name := range gated {
		if !c.canGate(vars, name) {
			delete(vars, DetectorPrefix(name)+"ONLY_WITH")
		}
	}
}

// canGate reports whether ONLY_WITH of a preset's detector means something with the settings that vars has: others may have replaced the
// ensemble, or the detector that it names, and a mapping may have left them out.
func (c *Config) canGate(vars map[string]string, name string) bool {
	gate, _, _ := strings.Cut(vars[DetectorPrefix(name)+"ONLY_WITH"], ":")
	there := func(name string) bool { return len(c.picked) == 0 || slices.Contains(c.picked, name) }
	same := there(gate) && vars[DetectorPrefix(gate)+"OP"] == "band" && vars[DetectorPrefix(gate)+"KEYS"] == vars[DetectorPrefix(name)+"KEYS"]
	return same && slices.ContainsFunc(c.Detect.Names, func(e string) bool {
		pre := DetectorPrefix(e)
		return there(e) && vars[pre+"OP"] == ensembleSpec.Name && vars[pre+"COMBINE"] == combineAny &&
			slices.Contains(cleanList(strings.Split(vars[pre+"MEMBERS"], ",")), name)
	})
}

// strayDetectors reports settings of detectors that a preset does not have.
func (c *Config) strayDetectors(vars map[string]string, known map[string]bool) (faults []Fault) {
	if c.Detect.Preset == noPreset {
		return nil
	}
	var stray []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if strings.HasPrefix(name, Prefix+"DETECTOR_") && vars[name] != "" && !known[name] {
			faults = append(faults, Fault{Name: name, Problem: c.noSuchDetector(), Fix: strayFix(name, known)})
			stray = append(stray, name)
		}
	}
	for _, name := range stray { // not warned of, too
		known[name] = true
	}
	return faults
}

// noSuchDetector says that a setting is of none of the preset's detectors.
func (c *Config) noSuchDetector() string {
	return fmt.Sprintf("none of the detectors of %sPRESET=%s (%s) has this setting", Prefix, c.Detect.Preset,
		strings.Join(c.Detect.Names, ", "))
}

func strayFix(name string, known map[string]bool) string {
	if near, d := Nearest(name, known); d <= 2 {
		return "did you mean " + near + "?"
	}
	return "name its detector in " + Prefix + "DETECTORS, or remove it"
}

// Expanded returns the preset in effect, "" for none, and what it stands for: the settings of each of its
// detectors, those that the environment gives included.
func (c *Config) Expanded() (preset string, list []string) {
	if c.Detect.Preset == noPreset {
		return "", nil
	}
	for i := range c.Detectors {
		list = append(list, c.Detectors[i].Name+": "+c.Changed(&c.Detectors[i]))
	}
	return c.Detect.Preset, list
}

// WithSensitivity returns the settings that the environment and the settings file of c would be with another sensitivity of the
// preset. A file that has changed since is not read again.
func (c *Config) WithSensitivity(sensitivity string) (*Config, error) {
	other, faults := c.again(Prefix+"SENSITIVITY", sensitivity)
	if len(faults) > 0 {
		return nil, fmt.Errorf("config: %s", faults[0])
	}
	other.inputs = c.inputs
	return other, nil
}

// SensitivityLine returns the line that sets a sensitivity, of the settings file; without one, or where a variable sets it now, the
// variable.
func (c *Config) SensitivityLine(sensitivity string) string {
	name := Prefix + "SENSITIVITY"
	variable := func(s setting) bool { return s.name == name && s.source == "env" }
	if c.Program.ConfigFile != "" && !slices.ContainsFunc(c.settings, variable) {
		return "sensitivity: " + sensitivity
	}
	return name + "=" + sensitivity
}

// sensitive returns a preset's threshold at a sensitivity. A rate of false alarms is divided or multiplied by rateFactor; what a bound
// has above a quantile, or all of a fixed one, by boundFactor. A score of op band is -ln of a probability, so the factor of its rate is a
// difference of its bound.
func sensitive(op, text, sensitivity string) string {
	const rateFactor, boundFactor = 2, 1.5
	up := 1.0
	switch sensitivity {
	case "low":
	case "high":
		up = -1
	default:
		return text
	}
	p, err := threshold.Parse(text)
	if err != nil {
		panic("config: threshold of a preset: " + err.Error())
	}
	bound := math.Pow(boundFactor, up)
	switch p.Kind {
	case threshold.Conformal:
		p.Value *= math.Pow(rateFactor, -up)
	case threshold.Quantile:
		p.Margin = 1 + (p.Margin-1)*bound
	case threshold.Fixed:
		if op == "band" {
			p.Value += up * math.Log(rateFactor)
		} else {
			p.Value *= bound
		}
	}
	return p.String()
}
