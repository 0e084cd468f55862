package config

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/keystate"
)

// DetectorSettings are the settings of one detector.
type DetectorSettings struct {
	Name string
	detectorCommon
	params any // the op's own, a pointer to a struct with the same kind of tags
}

type detectorCommon struct {
	Op     string   `env:"OP" envDefault:"knn" oneof:"flatline|ikasst|knn|lof|svdsst|zscore" doc:"Method. flatline: samples that have not changed. ikasst: change score by singular spectrum transformation. knn: summed distances to the nearest of the stretches of samples before, or of a window: readings, and courses of them, that are like none before. lof: local outlier factor, how much sparser the samples lie around this one than around those nearest to it. svdsst: change score by singular spectrum transformation with exact singular vectors, dearer than ikasst. zscore: distance of a sample to the mean of those before it, in standard deviations; of several fields the largest, without those that are missing."`
	Fields []string `env:"FIELDS" derived:"all of ODRADEK_VALUE_FIELDS" doc:"Which of the value fields the detector looks at."`
	Keys   []string `env:"KEYS" envDefault:"*" doc:"Patterns of the series keys to look at: * stands for any text, ? for one byte; a pattern that begins with ! excludes. pump-*,!pump-test* takes the pumps but not the test pumps."`
	Window int      `env:"WINDOW" derived:"50; 1024 with knn" min:"2" max:"16777216" doc:"Window of the method, in samples. For ikasst and svdsst the length w of a subsequence, 4096 and 1024 at most: a score reads 2w-1+GAMMA samples. For knn and lof the points that a score is among, at least 2K, and 1048576 (knn) or 65536 (lof) at most. For zscore the samples a score reads, the scored one included. flatline has none."`
	Stride int      `env:"STRIDE" envDefault:"1" min:"1" max:"65536" doc:"Samples of a series that are scored together. Every sample gets a score; a larger stride is cheaper and later."`
	Alarm  alarmSettings
}

type ikasstParams struct {
	Rank       int     `env:"RANK" envDefault:"3" min:"1" max:"31" doc:"ikasst: directions of the past that the present is compared with (r in the paper)."`
	Krylov     int     `env:"KRYLOV" envDefault:"0" min:"0" max:"32" doc:"ikasst: dimension of the Krylov subspace (k); at least r+1; 0 means 2r for even r, 2r-1 for odd, 32 at most."`
	Gamma      int     `env:"GAMMA" envDefault:"0" min:"0" max:"65536" doc:"ikasst: samples from the past to the present that is compared with it; 0 means 2w-1+8, so that 8 samples lie between them."`
	PowerSteps int     `env:"POWER_STEPS" envDefault:"2" min:"1" max:"100" doc:"ikasst: steps of the power method for a score, from the direction that the last score left."`
	Epsilon    float64 `env:"EPSILON" envDefault:"0.001" min:"1e-9" max:"1" doc:"ikasst: share of the fixed start vector in the direction that is handed on, so that it can leave a stale one."`
}

func buildIKASST(window int, params any) (detectors.Detector, error) {
	p := params.(*ikasstParams)
	return detectors.NewIKASST(detectors.IKASSTParams{
		Window: window, Rank: p.Rank, Krylov: p.Krylov, Gamma: p.Gamma, PowerSteps: p.PowerSteps, Epsilon: p.Epsilon,
	})
}

type lofParams struct {
	K        int     `env:"K" envDefault:"20" min:"1" max:"1024" doc:"lof: neighbours that a point is compared with; at most half of the window."`
	Embed    int     `env:"EMBED" envDefault:"1" min:"1" max:"1024" doc:"lof: successive samples that make a point. 1 judges samples by themselves, more judges the shape of a stretch."`
	ZNorm    bool    `env:"ZNORM" envDefault:"false" doc:"lof: bring each point to mean 0 and standard deviation 1, so that only its shape counts. EMBED must be at least 3."`
	Warmup   int     `env:"MIN_POINTS" envDefault:"0" min:"0" max:"65536" doc:"lof: points that there must be before the first score; 0 means the window."`
	Tumbling bool    `env:"TUMBLING" envDefault:"false" doc:"lof: windows that do not overlap, each scored when it is full. STRIDE must be the window."`
	Bins     int     `env:"BINS" envDefault:"0" min:"0" max:"1024" doc:"lof: keep a summary of what has left the window, in so many cells per field, so that a return to an earlier state is no outlier; 0 for none. Needs EMBED=1. Scores are then dearer: all points of the window are needed for each."`
	Decay    float64 `env:"DECAY" envDefault:"0.9" min:"0.000001" max:"0.999999" doc:"lof: what a window's worth of samples elsewhere leaves of the weight of a part of the summary."`
	MaxBins  int     `env:"MAX_BINS" envDefault:"256" min:"1" max:"4096" doc:"lof: parts of the summary of a series, at most; each takes 16 bytes a field and 24 more."`
	Alpha    float64 `env:"ALPHA" envDefault:"0" min:"0" max:"1e30" doc:"lof: the density of a part of the summary with C samples is ALPHA log C, as the paper has it; 0 scales it to the densities in the window, so that it suits any unit."`
	Strict   bool    `env:"STRICT" envDefault:"false" doc:"lof: leave out the 1e-10 that keeps densities finite where more than K points are equal; beside such a spot scores are then as large as they can be."`
}

func buildLOF(window int, params any) (detectors.Detector, error) {
	p := params.(*lofParams)
	return detectors.NewLOF(detectors.LOFParams{
		Window: window, K: p.K, Embed: p.Embed, ZNorm: p.ZNorm, Warmup: p.Warmup, Tumbling: p.Tumbling, Strict: p.Strict,
		Cells: p.Bins, Decay: p.Decay, MaxBins: p.MaxBins, Alpha: p.Alpha,
	})
}

type knnParams struct {
	K     int `env:"K" envDefault:"10" min:"1" max:"1024" doc:"knn: neighbours whose distances are summed; at most half of the window."`
	Embed int `env:"EMBED" derived:"16, or what makes 64 values of FIELDS; 1 with TUMBLING" min:"1" max:"1024" doc:"knn: successive samples that make a point, as for lof. A GPU takes points of 64 values at most."`

	MinPoints   int  `env:"MIN_POINTS" envDefault:"0" min:"0" max:"1048576" doc:"knn: points that there must be before the first score, from 2K to WINDOW; 0 means 256, or 2K+EMBED if that is more, or WINDOW if that is less. Among few points the nearest are far, and the high scores of a start would be what later ones are judged by."`
	Tumbling    bool `env:"TUMBLING" envDefault:"false" doc:"knn: score windows one after the other, each sample among all others of its window, instead of each among those before it; STRIDE must be WINDOW."`
	IncludeSelf bool `env:"INCLUDE_SELF" envDefault:"false" doc:"knn: a point is its own first neighbour, at distance 0, so that K-1 others count, as the paper's figures have it."`
}

func buildKNN(window int, params any) (detectors.Detector, error) {
	p := params.(*knnParams)
	return detectors.NewKNN(detectors.KNNParams{Window: window, K: p.K, Embed: p.Embed, MinPoints: p.MinPoints, Tumbling: p.Tumbling,
		IncludeSelf: p.IncludeSelf})
}

// The defaults of knn: measured in docs/quality.md, on streams of one value, and
// 16 KiB a series with HISTORY. embedValues is also what a kernel takes of a point.
const (
	knnWindow   = 1024
	knnHistory  = 1024
	knnEmbed    = 16
	embedValues = 64
)

// deriveDetector fills the defaults of d that depend on its op and its fields.
func (c *Config) deriveDetector(d *DetectorSettings) {
	short := strings.TrimPrefix(detectorPrefix(d.Name), Prefix)
	p, near := d.params.(*knnParams)
	set := func(name string, field *int, value, valueNear int) {
		if !c.isDefault(short + name) {
			return
		}
		if *field = value; near {
			*field = valueNear
		}
	}
	set("WINDOW", &d.Window, 50, knnWindow)
	set("HISTORY", &d.Alarm.History, threshold.DefaultHistory, knnHistory)
	if near {
		embed := 1
		if !p.Tumbling {
			columns, _ := c.SchemaMapping().Columns(d.Fields) // a fault is told of by validate
			embed = max(1, min(knnEmbed, embedValues/max(1, len(columns))))
		}
		set("EMBED", &p.Embed, 0, embed)
		set("CLOSE_AFTER", &d.Alarm.CloseAfter, 0, max(closeAfter, 4*p.Embed))
		return
	}
	set("CLOSE_AFTER", &d.Alarm.CloseAfter, closeAfter, 0)
}

// tumbling reports whether an op's parameters ask for windows that do not overlap.
func tumbling(params any) bool {
	switch p := params.(type) {
	case *lofParams:
		return p.Tumbling
	case *knnParams:
		return p.Tumbling
	}
	return false
}

type svdsstParams struct {
	Rank  int `env:"RANK" envDefault:"3" min:"1" max:"1023" doc:"svdsst: directions of the past that the present is compared with (r in the paper)."`
	Gamma int `env:"GAMMA" envDefault:"0" min:"0" max:"65536" doc:"svdsst: samples from the past to the present that is compared with it, as for ikasst."`

	Negligible float64 `env:"NEGLIGIBLE" envDefault:"1e-6" min:"1e-7" max:"0.5" doc:"svdsst: share of the past's largest singular value up to which directions do not count, so that what rounding adds to a past of lower rank explains nothing. 0.0032 leaves out what a device cannot tell in float32: fewer scores are left to the CPU."`
}

func buildSVDSST(window int, params any) (detectors.Detector, error) {
	p := params.(*svdsstParams)
	return detectors.NewSVDSST(detectors.SVDSSTParams{Window: window, Rank: p.Rank, Gamma: p.Gamma, Negligible: p.Negligible})
}

type zscoreParams struct{}

type flatlineParams struct {
	After     int     `env:"AFTER" envDefault:"30" min:"1" max:"16000000" alarm:"true" doc:"flatline: samples in a row without a change that are too many. Where THRESHOLD is not set it is the one that says so."`
	Tolerance float64 `env:"TOLERANCE" envDefault:"0" min:"0" max:"1e30" doc:"flatline: a value has not changed if it is within this of the value that its run began with."`
}

// opSettings is what the configuration knows of an op.
type opSettings struct {
	params func() any                                               // defaults come from the tags
	build  func(window int, params any) (detectors.Detector, error) // from parsed parameters
	// version counts how often the op's scores have changed; it is in the fingerprint.
	version int
}

var ops = map[string]opSettings{
	"flatline": {params: func() any { return new(flatlineParams) }, build: func(_ int, params any) (detectors.Detector, error) {
		return detectors.NewFlatline(params.(*flatlineParams).Tolerance)
	}},
	// the floor is of the past, and copies share a place
	"ikasst": {params: func() any { return new(ikasstParams) }, build: buildIKASST, version: 1},
	"lof":    {params: func() any { return new(lofParams) }, build: buildLOF},
	"knn":    {params: func() any { return new(knnParams) }, build: buildKNN},
	"svdsst": {params: func() any { return new(svdsstParams) }, build: buildSVDSST},
	"zscore": {params: func() any { return new(zscoreParams) }, build: func(window int, _ any) (detectors.Detector, error) {
		return detectors.NewZScore(window)
	}, version: 1}, // the largest of a row's scores, which was their mean
}

// detectorPrefix is what the names of a detector's settings begin with.
func detectorPrefix(name string) string {
	return Prefix + "DETECTOR_" + envName(name) + "_"
}

func envName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

var detectorNameRE = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

func (k *checker) detectors() {
	c := k.c
	if len(c.Detect.Names) == 0 {
		k.add("DETECTORS", "no detector named", "")
	}
	var problems []string
	seen := map[string]string{}
	for _, n := range c.Detect.Names {
		if n == keystate.SilenceName {
			problems = append(problems, fmt.Sprintf("%q is what anomalies of %sSILENCE are called", n, Prefix))
		}
		if !detectorNameRE.MatchString(n) {
			problems = append(problems, fmt.Sprintf("%q is not a detector's name", n))
		}
		if other, dup := seen[envName(n)]; dup {
			problems = append(problems, fmt.Sprintf("%q and %q share the settings %s...", other, n, detectorPrefix(n)))
		}
		seen[envName(n)] = n
	}
	k.addAll("DETECTORS", problems, "a name is a letter, then letters, digits, - and _, 64 at most, and stands there once")
	before := len(k.faults)
	buildable := true
	k.silence()
	for i := range c.Detectors {
		d := &c.Detectors[i]
		k.detector(d)
		buildable = buildable && k.ok(d.settingNames(strings.TrimPrefix(detectorPrefix(d.Name), Prefix))...)
	}
	if len(problems) > 0 || !buildable || len(k.faults) > before ||
		!k.ok("KEY_FIELD", "TIME_FIELD", "TIME_UNIT", "VALUE_FIELDS", "LATENESS", "TTL", "MAX_KEYS") {
		return
	}
	ks, err := c.KeystateConfig()
	if err == nil {
		err = ks.Check()
	}
	for _, err := range unjoin(err) {
		k.add("DETECTORS", strings.TrimPrefix(err.Error(), "keystate: "), "")
	}
}

func (k *checker) detector(d *DetectorSettings) {
	short := strings.TrimPrefix(detectorPrefix(d.Name), Prefix)
	problems := twice(d.Fields)
	for _, f := range d.Fields {
		if !slices.Contains(k.c.Mapping.ValueFields, f) && k.ok("VALUE_FIELDS") {
			problems = append(problems, fmt.Sprintf("%q is not one of %sVALUE_FIELDS", f, Prefix))
		}
	}
	k.addAll(short+"FIELDS", problems, "use some of "+strings.Join(k.c.Mapping.ValueFields, ","))
	if _, err := keyPatterns(d.Keys); err != nil {
		k.add(short+"KEYS", err.Error(), "")
	}
	k.alarm(short, d)
	if tumbling(d.params) && d.Stride != d.Window {
		k.add(short+"STRIDE", fmt.Sprintf("is %d, but tumbling windows of %d do not overlap", d.Stride, d.Window),
			fmt.Sprintf("set it to %d", d.Window))
	}
	if op, ok := ops[d.Op]; ok && k.ok(d.settingNames(short)...) {
		if _, err := op.build(d.Window, d.params); err != nil {
			var problems []string
			for _, err := range unjoin(err) {
				problems = append(problems, strings.NewReplacer("detectors: ", "", "sst: ", "", "lof: ", "", "knn: ", "", "bins: ", "", "\n",
					", ").Replace(err.Error()))
			}
			k.addAll(short+"WINDOW", problems, "")
		}
	}
}

func (d *DetectorSettings) settingNames(short string) []string {
	names := []string{short + "OP", short + "WINDOW", short + "STRIDE"}
	for _, s := range collectParams(d.params, short) {
		names = append(names, s.name)
	}
	return names
}

// Build makes the detector of the settings; they have been checked.
func (d *DetectorSettings) Build() (detectors.Detector, error) {
	return ops[d.Op].build(d.Window, d.params)
}

// canonical is the text that the detector's fingerprint is made of: all that its
// carry and its marks depend on, and nothing else (not the name, not the threshold).
func (d *DetectorSettings) canonical() string {
	return d.canonicalOf(ops[d.Op].version, d.stateParams())
}

func (d *DetectorSettings) canonicalOf(version int, params []setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "detector;1;op=%s;window=%d;stride=%d;fields=%q", d.Op, d.Window, d.Stride, d.Fields)
	if version > 0 {
		fmt.Fprintf(&b, ";version=%d", version)
	}
	for _, s := range params {
		fmt.Fprintf(&b, ";%s=%s", s.name, formatValue(s.field))
	}
	return b.String()
}

// stateParams are the op's parameters that state depends on.
func (d *DetectorSettings) stateParams() []setting {
	return slices.DeleteFunc(collectParams(d.params, ""), func(s setting) bool { return s.tag.Get("alarm") != "" })
}

// earlier reports whether a version before has made a fingerprint of the same settings:
// with other scores of the op, or without some of the parameters, which it did not
// have yet and which have their defaults.
func (d *DetectorSettings) earlier(former uint64) bool {
	params := d.stateParams()
	var free []int // may be left out
	for i, s := range params {
		if s.source == "default" || s.def == formatValue(s.field) {
			free = append(free, i)
		}
	}
	for version := range ops[d.Op].version + 1 {
		for set := range 1 << len(free) {
			var kept []setting
			for i, s := range params {
				if at := slices.Index(free, i); at < 0 || set>>at&1 == 0 {
					kept = append(kept, s)
				}
			}
			if fingerprint(d.canonicalOf(version, kept)) == former {
				return true
			}
		}
	}
	return false
}

// fingerprint is FNV-1a of a canonical text.
func fingerprint(canonical string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(canonical))
	return h.Sum64()
}

// keyPatterns compiles a list of patterns into a test of a key; nil takes all.
func keyPatterns(list []string) (func(key []byte) bool, error) {
	var include, exclude []string
	for _, p := range cleanList(list) {
		if rest, not := strings.CutPrefix(p, "!"); not {
			if rest == "" {
				return nil, errors.New("the pattern ! excludes nothing; write it like !test-*")
			}
			exclude = append(exclude, rest)
			continue
		}
		include = append(include, p)
	}
	if len(include) == 0 {
		include = []string{"*"}
	}
	if slices.Contains(include, "*") && len(exclude) == 0 {
		return nil, nil
	}
	matches := func(patterns []string, key []byte) bool {
		for _, p := range patterns {
			if glob(p, key) {
				return true
			}
		}
		return false
	}
	return func(key []byte) bool { return matches(include, key) && !matches(exclude, key) }, nil
}

// glob matches a whole key: * any bytes, ? one byte. It goes back only to the
// last star, so its time is at most len(pattern)*len(key).
func glob(pattern string, key []byte) bool {
	p, k, star, mark := 0, 0, -1, 0
	for k < len(key) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, k
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == key[k]):
			p++
			k++
		case star >= 0:
			mark++
			p, k = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// opNames lists the ops in order, for the docs and the tests.
func opNames() []string { return slices.Sorted(maps.Keys(ops)) }
