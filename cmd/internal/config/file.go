package config

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"odradek/cmd/internal/config/settingsfile"
)

// configSetting is the variable that names the settings file.
const configSetting = Prefix + "CONFIG"

// fileOfSettings is the settings file that was read; its zero value is none.
type fileOfSettings struct {
	path   string
	mode   fs.FileMode
	lines  map[string]int // by variable: where the file sets it, unless another variable overrides it
	parsed settingsfile.File
}

// readSettingsFile reads a file; path "" is none. Its faults are in the result.
func readSettingsFile(path string) *fileOfSettings {
	f := &fileOfSettings{path: path, lines: map[string]int{}}
	if path == "" {
		return f
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.parsed.Broken = true
		f.parsed.Faults = []settingsfile.Fault{{Problem: err.Error(), Fix: "name a file that the worker may read"}}
		return f
	}
	if info, err := os.Stat(path); err == nil {
		f.mode = info.Mode()
	}
	f.parsed = *settingsfile.Parse(text, Prefix, envName)
	return f
}

// Variables returns the variables that a text in the form of a settings file sets.
func Variables(text []byte) (environ []string, faults []Fault) {
	f := settingsfile.Parse(text, Prefix, envName)
	for _, p := range f.Faults {
		faults = append(faults, Fault{Name: "settings", Problem: p.Problem, Fix: p.Fix})
	}
	for _, e := range f.Settings {
		if e.Value != "" {
			environ = append(environ, Prefix+e.Name+"="+e.Value)
		}
	}
	if len(f.Detectors) > 0 {
		environ = append(environ, Prefix+"DETECTORS="+strings.Join(f.Detectors, ","))
	}
	return environ, faults
}

// under returns the variables with the settings of the file added that they do not give.
func (f *fileOfSettings) under(given map[string]string) map[string]string {
	vars := maps.Clone(given)
	secrets := map[string]bool{}
	for _, s := range collect(reflect.ValueOf(new(Config)).Elem(), Prefix, "") {
		secrets[s.name] = s.secret
	}
	set := func(name, value string, line int) {
		whole := strings.TrimSuffix(name, fileSuffix) // a secret by value or by file
		if given[name] != "" || value == "" || secrets[whole] && (given[whole] != "" || given[whole+fileSuffix] != "") {
			return
		}
		vars[name], f.lines[name] = value, line
	}
	for _, e := range f.parsed.Settings {
		set(Prefix+e.Name, e.Value, e.Line)
	}
	if vars[Prefix+"PRESET"] == "" { // else they are detectors of the preset
		set(Prefix+"DETECTORS", strings.Join(f.parsed.Detectors, ","), f.parsed.DetectorsLine)
	}
	delete(vars, "") // of a setting without a name
	return vars
}

// sourceOf says where the value of a setting comes from: given is the environment, vars has what the
// file and a preset add to it.
func (f *fileOfSettings) sourceOf(s *setting, given, vars map[string]string) string {
	switch {
	case given[s.name] != "":
		return "env"
	case s.secret && vars[s.name+fileSuffix] != "":
		return "file"
	case f.lines[s.name] > 0:
		return f.at(f.lines[s.name])
	case !s.secret && vars[s.name] != "":
		return "preset"
	}
	return "default"
}

// given reports whether the environment, the settings file or a secret's file has the setting.
func (s *setting) given() bool {
	return !slices.Contains([]string{"preset", "default", inherited}, s.source)
}

// at returns file:line of a line, as compilers and editors write it.
func (f *fileOfSettings) at(line int) string {
	if line == 0 {
		return f.path
	}
	return fmt.Sprintf("%s:%d", filepath.Base(f.path), line)
}

// locate adds the faults of the file's shape to faults, and the line to faults of settings that the file has. If
// the file could not be read, faults of what it may have set are left out.
func (f *fileOfSettings) locate(faults []Fault, given map[string]string) []Fault {
	var all []Fault
	for _, p := range f.parsed.Faults {
		all = append(all, Fault{Name: configSetting, Problem: p.Problem, Fix: p.Fix, At: f.at(p.Line)})
	}
	for _, fault := range faults {
		if line := f.lines[fault.Name]; line > 0 && fault.At == "" {
			fault.At = f.at(line)
		}
		if !f.parsed.Broken || given[fault.Name] != "" {
			all = append(all, fault)
		}
	}
	return all
}

// misnamed returns the faults of the file's settings that no such setting takes, each with the nearest name.
func (f *fileOfSettings) misnamed(c *Config, given map[string]string, known map[string]bool) (faults []Fault) {
	lists := map[string]bool{} // of each setting
	for _, s := range c.settings {
		lists[s.name] = s.list()
	}
	for _, e := range f.parsed.Settings {
		name := Prefix + e.Name
		fault := Fault{Name: name, At: f.at(e.Line)}
		switch {
		case name == configSetting:
			fault.Problem, fault.Fix = "a settings file names no other", "remove it"
		case known[name]:
			list, there := lists[name]
			if !e.List || list || !there {
				continue
			}
			fault.Problem, fault.Fix = e.Key+" takes one value, not a list", "write it like "+e.Key+": value"
			delete(f.lines, name)
		case e.Detector != "" && given[Prefix+"DETECTORS"] != "" && !slices.Contains(c.Detect.Names, e.Detector):
			continue // the variable leaves the detector out
		default:
			fault.Problem, fault.Fix = "no such setting: "+e.Key, nearestKey(&e, known)
			if e.Detector != "" && !slices.Contains(c.Detect.Names, e.Detector) && c.Detect.Preset != noPreset {
				fault.Problem = c.noSuchDetector()
			}
		}
		faults = append(faults, fault)
	}
	return faults
}

// nearestKey suggests a name that is known in place of a setting's, as the file would have it.
func nearestKey(e *settingsfile.Parsed, known map[string]bool) string {
	pre := Prefix
	if e.Detector != "" {
		pre = DetectorPrefix(e.Detector)
	} else if e.Mapping != "" {
		pre = (&MappingNames{Prefix: Prefix}).Variable(e.Mapping, "")
	}
	keys := map[string]bool{}
	for name := range known {
		if key, ok := strings.CutPrefix(name, pre); ok {
			keys[strings.ToLower(key)] = true
		}
	}
	key := strings.ToLower(strings.TrimPrefix(strings.ToUpper(e.Key), pre))
	if near, d := Nearest(key, keys); near != "" && d <= max(2, len(key)/3) {
		return "did you mean " + near + "?"
	}
	return "see docs/configuration.md"
}

// list reports whether the setting takes several values.
func (s *setting) list() bool { return s.field.Type() == reflect.TypeFor[[]string]() }

// warnings warns of secrets in a file that others may read.
func (f *fileOfSettings) warnings(c *Config) (warnings []Fault) {
	if f.mode.Perm()&0o077 == 0 {
		return nil
	}
	for _, s := range c.settings {
		if line := f.lines[s.name]; line > 0 && (s.secret || s.tag.Get("url") != "" &&
			RedactURLs(formatValue(s.field)) != formatValue(s.field)) {
			warnings = append(warnings, Fault{Name: s.name, At: f.at(line),
				Problem: fmt.Sprintf("a secret in a file that others may read (mode %04o)", f.mode.Perm()),
				Fix:     "chmod 600 " + f.path + ", or name a file of its own with " + s.name + fileSuffix})
		}
	}
	return warnings
}
