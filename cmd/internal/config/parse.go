package config

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v10"

	"odradek/processor/cycle"
	"odradek/processor/state/series"
)

// Parse reads the configuration from environment lines (NAME=value) and from the settings
// file that they name, whose settings they override. It returns every fault that can be
// found without a network, and for each unknown variable a warning with the nearest known
// name; in the file it is a fault. The Config is usable only without faults.
func Parse(environ []string) (c *Config, faults, warnings []Fault) {
	return parse(environ, true)
}

// parse is Parse; without mappings it ignores those that there are.
func parse(environ []string, withMappings bool) (c *Config, faults, warnings []Fault) {
	given := own(environ)
	return parseGiven(environ, given, readSettingsFile(given[configSetting]), withMappings)
}

// parseGiven is parse of the variables that environ gives, or that are given in place of them, and of a settings file.
func parseGiven(environ []string, given map[string]string, file *fileOfSettings, withMappings bool) (c *Config, faults, warnings []Fault) {
	c = &Config{inputs: new(FoundTopics)}
	c.again = func(name, value string) (*Config, []Fault) {
		changed := maps.Clone(given)
		changed[name] = value
		same := &fileOfSettings{path: file.path, mode: file.mode, lines: map[string]int{}, parsed: file.parsed}
		other, faults, _ := parseGiven(environ, changed, same, withMappings)
		return other, faults
	}
	vars := file.under(given)
	known := c.read(maps.Clone(vars), given, file, &faults)
	before := slices.Clone(faults)
	ofMappings := c.addMappings(vars, given, file, known)
	if !withMappings {
		c.mapped, ofMappings = nil, nil
	}
	faults = append(faults, ofMappings...)
	faults = append(faults, c.strayDetectors(given, known)...)
	faults = append(faults, file.misnamed(c, given, known)...)
	for _, settings := range append([]*Config{c}, c.Mappings()...) {
		settings.derive()
		if settings.Registry.CacheDir == "" {
			settings.Registry.CacheDir = platformCacheDir(env.ToMap(environ), runtime.GOOS)
		}
	}
	c.deriveOutputFormat()
	switch c.Group.InstanceID {
	case Off:
		c.Group.InstanceID = ""
	case "":
		c.Group.InstanceDir = stateDir(env.ToMap(environ))
	}
	faults = file.locate(c.validateMappings(c.validate(faults), before), given)
	c.fill()
	return c, faults, append(file.warnings(c), unknownNames(given, known, c.Detect.Names)...)
}

// read parses vars, and notes where the values come from.
func (c *Config) read(vars, given map[string]string, file *fileOfSettings, faults *[]Fault) (known map[string]bool) {
	known = c.parse(vars, faults)
	for i := range c.settings {
		s := &c.settings[i]
		s.source = file.sourceOf(s, given, vars)
		if s.secret {
			s.kept = vars[s.name+fileSuffix]
			s.field.Addr().Interface().(*Secret).file = s.kept
		}
	}
	return known
}

// own returns the variables with Prefix.
func own(environ []string) map[string]string {
	vars := make(map[string]string)
	for k, v := range env.ToMap(environ) {
		if strings.HasPrefix(k, Prefix) {
			vars[k] = v
		}
	}
	return vars
}

// parse sets c and the detectors from vars, collects c.settings and returns every known
// name.
func (c *Config) parse(vars map[string]string, faults *[]Fault) (known map[string]bool) {
	known = map[string]bool{}
	into := func(v any, pre, section string) {
		list := collect(reflect.ValueOf(v).Elem(), pre, section)
		for _, s := range list {
			known[s.name] = true
			if s.secret {
				known[s.name+fileSuffix] = true
			}
		}
		*faults = append(*faults, readSecretFiles(list, vars)...)
		*faults = append(*faults, parseInto(v, pre, list, vars)...)
		c.settings = append(c.settings, list...)
	}
	into(c, Prefix, "")
	for i := range cycle.Outputs {
		c.Output.Topics[i] = vars[Prefix+cycle.Outputs[i].Setting]
	}
	c.trim()
	c.expandPreset(vars, faults)
	c.pick(faults)
	// The settings keep references to the fields, so the slice must not move.
	c.Detectors = make([]DetectorSettings, len(c.Detect.Names))
	for i, name := range c.Detect.Names {
		d := &c.Detectors[i]
		d.Name = name
		pre := DetectorPrefix(name)
		into(&d.detectorCommon, pre, detectorSection+name)
		if spec := specOf(d.Op); spec != nil {
			d.params = opParams(spec)
			into(d.params, pre, detectorSection+name)
		}
	}
	if problems := c.nameProblems(); len(problems) > 0 && c.root == nil { // the mappings have the root's names, too
		*faults = append(*faults, Fault{Name: Prefix + "DETECTORS", Problem: strings.Join(problems, ", "),
			Fix: "a name is a letter, then letters, digits, - and _, 64 at most, stands there once, and shares no setting with another"})
	}
	for i := range c.Detectors { // the parameters of another op are known, and a fault
		d := &c.Detectors[i]
		for _, other := range opSpecs() {
			for _, s := range collectParams(opParams(other), DetectorPrefix(d.Name)) {
				if _, set := vars[s.name]; set && !known[s.name] && specOf(d.Op) != nil {
					*faults = append(*faults, Fault{Name: s.name, Problem: fmt.Sprintf("op %s has no such parameter (%s has)", d.Op, other.Name),
						Fix: "remove it or change " + DetectorPrefix(d.Name) + "OP"})
				}
				known[s.name] = known[s.name] || specOf(d.Op) != nil
			}
		}
	}
	return known
}

// nameProblems returns what is wrong with the names of the detectors. The settings of all must differ:
// ODRADEK_DETECTOR_X_MAX_LENGTH is MAX_LENGTH of x and LENGTH of x-max, and would set both.
func (c *Config) nameProblems() (problems []string) {
	seen := map[string]string{}
	for _, n := range c.Detect.Names {
		if n == series.SilenceName {
			problems = append(problems, fmt.Sprintf("%q is what anomalies of %sSILENCE are called", n, Prefix))
		}
		if !detectorNameRE.MatchString(n) {
			problems = append(problems, fmt.Sprintf("%q is not a detector's name", n))
		}
		if other, dup := seen[envName(n)]; dup {
			problems = append(problems, fmt.Sprintf("%q and %q share the settings %s...", other, n, DetectorPrefix(n)))
		}
		seen[envName(n)] = n
	}
	owner := map[string]string{} // of each setting
	reported := map[[2]string]bool{}
	for _, s := range c.settings {
		name, isDetector := strings.CutPrefix(s.section, detectorSection)
		if !isDetector {
			continue
		}
		other, taken := owner[s.name]
		owner[s.name] = name
		if pair := [2]string{other, name}; taken && envName(other) != envName(name) && !reported[pair] {
			reported[pair] = true
			problems = append(problems, fmt.Sprintf("%q and %q share the setting %s: it would be %s of one and %s of the other", other, name, s.name,
				strings.TrimPrefix(s.name, DetectorPrefix(other)), strings.TrimPrefix(s.name, DetectorPrefix(name))))
		}
	}
	return problems
}

// parseInto is env's parse with faults by variable: env names Go fields, in one error for
// all, so where it fails each variable that is set is parsed by itself.
func parseInto(v any, pre string, list []setting, vars map[string]string) []Fault {
	opts := env.Options{Prefix: pre, Environment: vars}
	if env.ParseWithOptions(v, opts) == nil {
		return nil
	}
	var faults []Fault
	for _, s := range list {
		raw, ok := vars[s.name]
		if !ok {
			continue
		}
		probe := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		err := env.ParseWithOptions(probe, env.Options{Prefix: pre, Environment: map[string]string{s.name: raw}})
		if err != nil {
			faults = append(faults, Fault{Name: s.name, Problem: fmt.Sprintf("%q is not %s", raw, kindOf(s.field.Type())),
				Fix: exampleOf(s.field.Type())})
		}
	}
	return faults
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration"
	case t == reflect.TypeFor[ByteSize]():
		return "a size"
	case t == reflect.TypeFor[HistoryLength]():
		return "a number of scores or a time"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Float64, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Float64:
		return "a number"
	}
	return "a " + t.String()
}

func exampleOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "write it like 500ms, 30s or 1h30m"
	case reflect.TypeFor[ByteSize]():
		return "write it in bytes, or like 512KiB or 8MiB"
	case reflect.TypeFor[HistoryLength]():
		return "write it like 2048, 36h, 3d or 3d:4096"
	}
	return ""
}

// collect lists the settings of a struct, in order.
func collect(v reflect.Value, pre, section string) []setting {
	var list []setting
	for i := range v.NumField() {
		f, t := v.Field(i), v.Type().Field(i)
		if !t.IsExported() && !t.Anonymous {
			continue
		}
		if f.Type() == reflect.TypeFor[cycle.TopicNames]() {
			list = append(list, topicSettings(f, pre, section)...)
			continue
		}
		name := t.Tag.Get("env")
		if name == "" && f.Kind() == reflect.Struct {
			sec := section
			if s := t.Tag.Get("section"); s != "" {
				sec = s
			}
			list = append(list, collect(f, pre+t.Tag.Get("envPrefix"), sec)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		tag := reflect.StructTag(tableTexts().Replace(string(t.Tag)))
		list = append(list, setting{
			section: section, name: pre + name, def: tag.Get("envDefault") + tag.Get("derived"),
			secret: f.Type() == reflect.TypeFor[Secret](), tag: tag, field: f,
		})
	}
	return list
}

// topicSettings lists the settings of the output topics' names.
func topicSettings(names reflect.Value, pre, section string) (list []setting) {
	for i := range cycle.Outputs {
		spec := &cycle.Outputs[i]
		def := "<group>-" + spec.Name
		list = append(list, setting{section: section, name: pre + spec.Setting, def: def, field: names.Index(i),
			tag: reflect.StructTag(fmt.Sprintf("derived:%q doc:%q", def, spec.Doc))})
	}
	return list
}
