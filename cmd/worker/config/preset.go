package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// preset is a named set of detectors with complete settings.
type preset struct {
	name      string
	help      string
	detectors []presetDetector
}

// presetDetector is a detector of a preset: its settings where a sample has one value, and where it has
// several. They are NAME=value, separated by spaces; "" leaves the detector out.
type presetDetector struct{ name, one, several string }

// presets are the values of ODRADEK_PRESET, the default first. docs/quality.md says what they find, and
// what else was tried.
var presets = []preset{
	{"default", "readings, sequences and shapes unlike earlier ones, and readings that do not change", []presetDetector{
		{"near", "OP=knn WINDOW=2048 K=27 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.0015 HISTORY=2048 CLOSE_AFTER=100",
			"OP=knn WINDOW=1024 K=10 EMBED=4 STRIDE=8 THRESHOLD=conformal:0.0025 HISTORY=2048 CLOSE_AFTER=16"},
		{"shape", "OP=discord WINDOW=1024 LENGTH=50 K=2 STRIDE=16 THRESHOLD=quantile:0.95*1.5 OPEN_AFTER=16 HISTORY=2048 CLOSE_AFTER=100", ""},
		{"flat", stuck, ""},
		{"past", past, ""},
		{"both", "OP=ensemble MEMBERS=near,shape THRESHOLD=conformal:0.0003 HISTORY=2048 CLOSE_AFTER=100", ""},
	}},
	{"fast", "the same, compared with a quarter of the earlier samples in a third of the time", []presetDetector{
		{"near", "OP=knn WINDOW=512 K=10 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.0015 HISTORY=2048 CLOSE_AFTER=100",
			"OP=knn WINDOW=512 K=10 EMBED=2 STRIDE=16 THRESHOLD=conformal:0.002 HISTORY=2048 CLOSE_AFTER=16"},
		{"shape", "OP=discord WINDOW=256 LENGTH=50 STRIDE=16 THRESHOLD=quantile:0.95*1.5 OPEN_AFTER=16 HISTORY=2048 CLOSE_AFTER=100", ""},
		{"flat", stuck, ""},
	}},
	{"sensitive", "lower thresholds, and single readings far from their prediction by those just before; at least twice the false anomalies",
		[]presetDetector{
			{"near", "OP=knn WINDOW=2048 K=27 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.002 HISTORY=2048 CLOSE_AFTER=100",
				"OP=knn WINDOW=1024 K=10 EMBED=4 STRIDE=8 THRESHOLD=conformal:0.004 HISTORY=2048 CLOSE_AFTER=16"},
			{"shape", "OP=discord WINDOW=1024 LENGTH=50 K=2 STRIDE=16 THRESHOLD=quantile:0.95*1.3 OPEN_AFTER=8 HISTORY=2048 CLOSE_AFTER=100", ""},
			{"flat", stuck, ""},
			{"past", past, ""},
			{"jump", "OP=ar ORDER=32 THRESHOLD=quantile:0.95*5 HISTORY=2048 CLOSE_AFTER=100",
				"OP=ar ORDER=32 THRESHOLD=quantile:0.95*5 HISTORY=2048 CLOSE_AFTER=100"},
		}},
	{"vector", "samples of several values unlike earlier ones, in sequences of eight", []presetDetector{
		{"near", "OP=knn WINDOW=2048 K=27 EMBED=8 STRIDE=8 THRESHOLD=conformal:0.0025 HISTORY=2048 CLOSE_AFTER=32",
			"OP=knn WINDOW=2048 K=27 EMBED=8 STRIDE=8 THRESHOLD=conformal:0.0025 HISTORY=2048 CLOSE_AFTER=32"},
	}},
	{"change", "changes of level, also in series of about fifty samples", []presetDetector{
		{"level", "OP=zscore WINDOW=32 THRESHOLD=fixed:3 OPEN_AFTER=2 WARMUP=16", "OP=zscore WINDOW=32 THRESHOLD=fixed:3 OPEN_AFTER=2 WARMUP=16"},
	}},
}

// stuck are the settings of a detector of readings that do not change for much longer than is usual
// for their series.
const stuck = "OP=flatline STRIDE=16 THRESHOLD=quantile:0.95*2 OPEN_AFTER=32 WARMUP=512 HISTORY=2048 CLOSE_AFTER=8"

// past are the settings of a detector of shapes of several lengths that are unlike all of the last 20,000 samples.
const past = "OP=discord WINDOW=20000 LENGTH=50 MAX_LENGTH=200 LENGTHS=3 EVERY=32 STRIDE=32 SMOOTH=6 " +
	"THRESHOLD=conformal:0.002 CLOSE_AFTER=8"

// noPreset is the preset of a configuration that names its detectors.
const noPreset = ""

func presetNamed(name string) *preset {
	if i := slices.IndexFunc(presets, func(p preset) bool { return p.name == name }); i >= 0 {
		return &presets[i]
	}
	return nil
}

// expandPreset adds the settings of the preset's detectors to vars if vars names no detector. It overwrites no setting
// of vars; a detector with another OP gets none of the preset's settings.
func (c *Config) expandPreset(vars map[string]string, faults *[]Fault) {
	name := Prefix + "PRESET"
	if len(c.Detect.Names) > 0 {
		if vars[name] != "" {
			*faults = append(*faults, Fault{Name: name, Problem: "set, but so is " + Prefix + "DETECTORS",
				Fix: "remove one of them; a setting of one of a preset's detectors is changed by itself, such as " + DetectorPrefix("near") + "K=10"})
		}
		c.Detect.Preset = noPreset
		return
	}
	p := cmp.Or(presetNamed(c.Detect.Preset), &presets[0]) // validate reports one that does not exist
	c.Detect.Preset = cmp.Or(c.Detect.Preset, p.name)
	values := len(c.Mapping.ValueFields)
	if columns, err := c.SchemaMapping().Columns(c.Mapping.ValueFields); err == nil {
		values = len(columns)
	}
	set := func(name, value string) {
		if vars[name] == "" {
			vars[name] = value
		}
	}
	for _, d := range p.detectors {
		settings := strings.Fields(d.one)
		if values > 1 {
			settings = strings.Fields(d.several)
		}
		if len(settings) == 0 {
			continue
		}
		c.Detect.Names = append(c.Detect.Names, d.name)
		pre := DetectorPrefix(d.name)
		op, _ := strings.CutPrefix(settings[0], "OP=")
		if given := vars[pre+"OP"]; given != "" && given != op {
			continue
		}
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			if perDay, err := strconv.ParseFloat(vars[pre+"ALARMS_PER_DAY"], 64); name == "THRESHOLD" && err == nil && perDay != 0 {
				continue // that is a threshold of its own
			}
			set(pre+name, value)
		}
	}
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

// presetTexts returns what the presets are, and their names.
func presetTexts() (help, names string) {
	var texts, list []string
	for i := range presets {
		p := &presets[i]
		list = append(list, p.name)
		texts = append(texts, p.name+": "+p.help+".")
	}
	return strings.Join(texts, " "), strings.Join(list, "|")
}
