package config

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"odradek/detectors"
	_ "odradek/detectors/ops" // all ops have settings here
	"odradek/detectors/threshold"
	"odradek/processor/state/rules"
	"odradek/schemas/formats"
)

// DetectorSettings are the settings of one detector.
type DetectorSettings struct {
	Name string
	detectorCommon
	params   any // the op's own, see opParams
	referred referred
}

type detectorCommon struct {
	Op        string   `env:"OP" envDefault:"knn" oneof:"{ops}" example:"zscore" doc:"Method, one of the ops below."`
	Fields    []string `env:"FIELDS" derived:"all of ODRADEK_VALUE_FIELDS" example:"temperature,pressure" doc:"Value fields that the detector scores."`
	Keys      []string `env:"KEYS" envDefault:"*" example:"pump-*,!pump-test*" doc:"Patterns of the keys of the series that it scores: * matches any text, ? one byte; ! in front excludes."`
	Window    int      `env:"WINDOW" derived:"50, or the op's" min:"1" max:"16777216" example:"512" doc:"Window of the method, in samples or points; see the op's page."`
	Stride    int      `env:"STRIDE" envDefault:"1" derived:", or the op's" min:"1" max:"65536" example:"16" doc:"Samples of a series that are scored together. A larger stride costs less time; scores come later."`
	Members   []string `env:"MEMBERS" ops:"ensemble" example:"near,jump" doc:"Names of 2 to 64 detectors whose scores it combines. A sample is scored once all members have scored it; a member without a score counts as usual."`
	Combine   string   `env:"COMBINE" envDefault:"sum" oneof:"sum|max|any" ops:"ensemble" example:"any" doc:"sum adds the members' terms, max takes the highest. any opens one anomaly when a member's score exceeds that member's threshold; members open none of their own. See docs/detectors.md."`
	Weights   []string `env:"WEIGHTS" derived:"1 each" ops:"ensemble" example:"1,4" doc:"Factors of the members' terms, up to 1000, not with COMBINE=any."`
	Smooth    int      `env:"SMOOTH" envDefault:"1" min:"1" max:"4096" example:"8" doc:"Compare the mean of this many last scores with the threshold, so that a lasting fault stands out. 8 bytes each."`
	Until     int      `env:"UNTIL" envDefault:"0" min:"0" max:"1000000000" example:"2048" doc:"Samples of a series after which the detector ends, and its thresholds are forgotten: one with little history bridges the time until others have enough. 0: never."`
	OnlyWith  string   `env:"ONLY_WITH" example:"band:8" doc:"Of a member of an ensemble with COMBINE=any: its scores count only within 48 samples after one at which the named detector, of op band, has a score above this number. Where band has found no period, all count."`
	Scale     string   `env:"SCALE" envDefault:"off" oneof:"off|range" ops:"knn lof" example:"range" doc:"range divides each field by its range in the window, so that its unit does not matter."`
	Grid      gridSettings
	Season    seasonSettings
	Alarm     alarmSettings
	Guard     guardSettings
	Reference string `env:"REFERENCE" ops:"knn" example:"golden.csv" doc:"CSV file of samples to compare with instead of earlier ones, a column for each of FIELDS. WINDOW and MIN_POINTS then mean nothing. State is refused when the content changes."`
	Outliers  int    `env:"OUTLIERS" envDefault:"0" min:"0" max:"100000" ops:"knn" example:"5" doc:"Samples of REFERENCE that are outliers. From 1 on the worker compares with a solving set of REFERENCE, and the default THRESHOLD is the score of the last outlier."`
}

// usualWindow is the default of WINDOW for ops without their own.
const usualWindow = 50

// scaleRange is the value of SCALE that scales fields.
const scaleRange = "range"

// specOf returns the row of an op in the table; nil for none.
func specOf(op string) *detectors.Spec {
	if op == ensembleSpec.Name {
		return ensembleSpec
	}
	if o, ok := detectors.OpByName(op); ok {
		return o.Spec()
	}
	return nil
}

// opSpecs lists the ops, and the ensemble, by name.
func opSpecs() []*detectors.Spec {
	list := []*detectors.Spec{ensembleSpec}
	for _, o := range detectors.Ops() {
		list = append(list, o.Spec())
	}
	slices.SortFunc(list, func(a, b *detectors.Spec) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// opNames lists the ops.
func opNames() []string {
	var names []string
	for _, s := range opSpecs() {
		names = append(names, s.Name)
	}
	return names
}

// ownParam reports whether a row of an op's table is one of the op's own settings: WINDOW
// is a setting of every detector.
func ownParam(p *detectors.Param) bool { return p.Setting() && p.Name != detectors.WindowParam }

// windowParam returns the op's row of WINDOW; nil for none.
func windowParam(s *detectors.Spec) *detectors.Param {
	for i := range s.Params {
		if p := &s.Params[i]; p.Name == detectors.WindowParam {
			return p
		}
	}
	return nil
}

// opParams returns a pointer to a struct with a field for each setting of the op's own,
// tagged as the fields of Config are, so that one parser and one checker read both.
func opParams(s *detectors.Spec) any {
	return paramFields(slices.DeleteFunc(slices.Clone(s.Params), func(p detectors.Param) bool { return !ownParam(&p) }))
}

// paramFields returns a pointer to a struct with a tagged field for each row.
func paramFields(params []detectors.Param) any {
	var fields []reflect.StructField
	for i := range params {
		p := &params[i]
		var tag strings.Builder
		add := func(key, value string) { fmt.Fprintf(&tag, "%s:%q ", key, value) }
		add("env", p.Name)
		if p.Derive == nil {
			def := fmt.Sprint(p.Default)
			if x, ok := p.Default.(float64); ok {
				def = detectors.FormatNumber(x)
			}
			add("envDefault", def)
		}
		if p.Derived != "" {
			add("derived", p.Derived)
		}
		switch p.Type {
		case detectors.Bool:
		case detectors.Choice:
			add("oneof", strings.Join(p.Choices, "|"))
		case detectors.Text:
			add("values", p.Values)
		default:
			add("min", p.Format(p.Min))
			add("max", p.Format(p.Max))
		}
		if p.Stateless {
			add("stateless", "true")
		}
		if p.Expert {
			add("expert", "true")
		}
		add("example", p.Example)
		add("doc", p.Help)
		fields = append(fields, reflect.StructField{Name: p.Name, Type: goTypes[p.Type], Tag: reflect.StructTag(tag.String())})
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

var goTypes = map[detectors.ParamType]reflect.Type{
	detectors.Int: reflect.TypeFor[int](), detectors.Long: reflect.TypeFor[int64](),
	detectors.Choice: reflect.TypeFor[string](), detectors.Float: reflect.TypeFor[float64](), detectors.Bool: reflect.TypeFor[bool](),
	detectors.Time: reflect.TypeFor[time.Duration](), detectors.Text: reflect.TypeFor[string](),
}

// values returns the op's settings, without those in skip.
func (d *DetectorSettings) values(skip func(name string) bool) detectors.Values {
	v := detectors.Values{detectors.WindowParam: d.Window}
	for _, s := range collectParams(d.params, "") {
		if !skip(s.name) {
			v[s.name] = s.field.Interface()
		}
	}
	if d.searchesSide() {
		v[detectors.DirectionParam] = max(0, slices.Index(detectors.Directions, d.Guard.Direction))
		v[detectors.LearntParam] = d.Grid.Learn > 0
	}
	return v
}

func none(string) bool { return false }

// tableTexts returns the texts that replace the placeholders of tags, such as {ops}.
var tableTexts = sync.OnceValue(func() *strings.Replacer {
	_, presets := PresetTexts()
	texts := map[string]string{"{formats}": strings.Join(formats.Names(), "|"), "{ops}": strings.Join(opNames(), "|"), "{presets}": presets,
		"{aggregates}": strings.Join(rules.AggregateNames, ", ")}
	var pairs []string
	for mark, text := range texts {
		quoted := strconv.Quote(text)
		pairs = append(pairs, mark, quoted[1:len(quoted)-1])
	}
	return strings.NewReplacer(pairs...)
})

// deriveDetector sets the defaults of d that depend on its op and on its other settings.
func (c *Config) deriveDetector(d *DetectorSettings) {
	short := strings.TrimPrefix(DetectorPrefix(d.Name), Prefix)
	set := func(name string, value string) {
		for _, s := range c.settings {
			if s.name == Prefix+short+name && s.source == "default" {
				if h, ok := s.field.Addr().Interface().(*HistoryLength); ok {
					if err := h.UnmarshalText([]byte(value)); err != nil {
						panic(err)
					}
				} else if s.field.Kind() == reflect.String {
					s.field.SetString(value)
				} else if x, err := strconv.ParseFloat(value, 64); err == nil && s.field.CanFloat() {
					s.field.SetFloat(x)
				} else if n, err := strconv.Atoi(value); err == nil {
					s.field.SetInt(int64(n))
				}
			}
		}
	}
	set("WINDOW", strconv.Itoa(usualWindow))
	set("HISTORY", strconv.Itoa(threshold.DefaultHistory))
	set("CLOSE_AFTER", strconv.Itoa(closeAfter))
	set("THRESHOLD", usualThreshold)
	set(detectors.DirectionParam, anySide)
	if d.searchesSide() {
		set(detectors.DirectionParam, detectors.Directions[0])
	}
	spec := specOf(d.Op)
	if spec == nil {
		deriveGrid(d, set)
		return
	}
	if p := windowParam(spec); p != nil {
		set(p.Name, fmt.Sprint(p.Default))
	}
	columns, _ := c.SchemaMapping().Columns(d.Fields) // validate reports a fault
	given := d.values(func(name string) bool { return c.isDefault(short+name) && derives(spec, name) })
	spec.Derive(given, len(columns))
	for _, s := range collectParams(d.params, "") {
		s.field.Set(reflect.ValueOf(given[s.name]))
	}
	for _, o := range spec.Defaults {
		set(o.Name, o.Value(given))
	}
	if d.isSeason() {
		d.Season.resolve()
	}
	if d.referred = d.refer(); d.referred.detector != nil && d.Outliers > 0 {
		set("THRESHOLD", "fixed:"+strconv.FormatFloat(d.referred.Cut(), 'g', -1, 64))
	}
	deriveGrid(d, set)
	if d.isAny() {
		set("THRESHOLD", "fixed:1")
	}
	if !(d.Alarm.PerDay <= 0) {
		set("THRESHOLD", "per-day:"+strconv.FormatFloat(d.Alarm.PerDay, 'g', -1, 64))
	}
}

func derives(s *detectors.Spec, name string) bool {
	return slices.ContainsFunc(s.Params, func(p detectors.Param) bool { return p.Name == name && p.Derive != nil })
}

// DetectorPrefix returns the prefix of the names of a detector's settings.
func DetectorPrefix(name string) string {
	return Prefix + "DETECTOR_" + envName(name) + "_"
}

func envName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

var detectorNameRE = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

func (ch *checker) detectors() {
	c := ch.c
	if len(c.Detect.Names) == 0 {
		ch.add("DETECTORS", "no detector named", "")
	}
	before := len(ch.faults)
	buildable := true
	ch.silence()
	ch.groups()
	ch.latenessBy()
	ch.maxGap()
	for i := range c.Detectors {
		d := &c.Detectors[i]
		ch.detector(d)
		buildable = buildable && ch.ok(d.settingNames(strings.TrimPrefix(DetectorPrefix(d.Name), Prefix))...)
	}
	ofDetector := func(f Fault) bool { return strings.HasPrefix(f.Name, Prefix+"DETECTOR_") }
	if !ch.ok("DETECTORS") || !buildable || len(ch.faults) > before || slices.ContainsFunc(ch.faults, ofDetector) ||
		!ch.ok("KEY_FIELD", "TIME_FIELD", "TIME_UNIT", "VALUE_FIELDS", "LATENESS", "TTL", "MAX_KEYS", "GROUP_WINDOW") {
		return
	}
	ks, err := c.KeystateConfig()
	if err == nil {
		err = ks.Check()
	}
	for _, err := range unjoin(err) {
		ch.add("DETECTORS", strings.TrimPrefix(err.Error(), "state: "), "")
	}
}

func (ch *checker) detector(d *DetectorSettings) {
	short := strings.TrimPrefix(DetectorPrefix(d.Name), Prefix)
	problems := twice(d.Fields)
	for _, f := range d.Fields {
		if !slices.Contains(ch.c.Mapping.ValueFields, f) && ch.ok("VALUE_FIELDS") {
			problems = append(problems, fmt.Sprintf("%q is not one of %sVALUE_FIELDS", f, Prefix))
		}
	}
	ch.addAll(short+"FIELDS", problems, "use some of "+strings.Join(ch.c.Mapping.ValueFields, ","))
	if _, _, err := keyPatterns(d.Keys); err != nil {
		ch.add(short+"KEYS", err.Error(), "")
	}
	ch.alarm(short, d)
	ch.guard(short, d)
	ch.ensemble(short, d)
	ch.onlyWith(short, d)
	ch.grid(short, d)
	ch.season(short, d)
	values := d.values(none)
	if tumbling, _ := values[detectors.TumblingParam].(bool); tumbling && d.Stride != d.Window {
		ch.add(short+"STRIDE", fmt.Sprintf("is %d, but tumbling windows of %d do not overlap", d.Stride, d.Window),
			fmt.Sprintf("set it to %d", d.Window))
	}
	if every, _ := values[detectors.EveryParam].(int); every > 1 && d.Stride%every != 0 {
		ch.add(short+"STRIDE", fmt.Sprintf("is %d, no multiple of EVERY=%d, so scored samples would not be equally far apart", d.Stride, every),
			fmt.Sprintf("set it to %d", (d.Stride/every+1)*every))
	}
	if spec := specOf(d.Op); spec != nil && !d.isEnsemble() && ch.ok(d.settingNames(short)...) {
		_, err := spec.New(values)
		if d.isSeason() {
			_, err = d.seasonDetector()
		}
		if d.Reference != "" {
			if err = d.referred.err; err != nil {
				ch.add(short+"REFERENCE", packagesRE.ReplaceAllString(err.Error(), ""), "")
			}
			err = nil
		} else if d.Outliers > 0 {
			ch.add(short+"OUTLIERS", fmt.Sprintf("%d outliers of no reference set", d.Outliers), "set "+DetectorPrefix(d.Name)+"REFERENCE")
		}
		if err != nil {
			var problems []string
			for line := range strings.Lines(err.Error()) {
				problems = append(problems, packagesRE.ReplaceAllString(strings.TrimSpace(line), ""))
			}
			setting := short + "WINDOW"
			if windowParam(spec) == nil {
				setting = short + "OP"
			}
			ch.addAll(setting, problems, "")
		}
	}
}

// packagesRE matches the prefix of a method's errors: the names of packages and of the op.
var packagesRE = regexp.MustCompile(`^([a-z0-9]+: )+`)

func (d *DetectorSettings) settingNames(short string) []string {
	names := []string{short + "OP", short + "WINDOW", short + "STRIDE"}
	for _, s := range collectParams(d.params, short) {
		names = append(names, s.name)
	}
	return names
}

// Build returns the detector of settings; nil for an ensemble.
func (d *DetectorSettings) Build() (detectors.Detector, error) {
	if d.isEnsemble() {
		return nil, nil
	}
	if d.Reference != "" {
		return d.referred.detector, d.referred.err
	}
	if d.isSeason() {
		return d.seasonDetector()
	}
	spec, values := specOf(d.Op), d.values(none)
	if err := spec.Check(values); err != nil {
		return nil, err
	}
	return spec.New(values)
}

// canonical returns the text of the detector's fingerprint: all that its carry and its
// history depend on, and nothing else (not the name, not the threshold).
func (d *DetectorSettings) canonical() string {
	var b strings.Builder
	fmt.Fprintf(&b, "detector;1;op=%s;window=%d;stride=%d;fields=%q", d.Op, d.Window, d.Stride, d.Fields)
	if version := specOf(d.Op).Version; version > 0 {
		fmt.Fprintf(&b, ";version=%d", version)
	}
	for _, s := range d.stateParams() {
		fmt.Fprintf(&b, ";%s=%s", s.name, formatValue(s.field))
	}
	if d.Smooth > 1 {
		fmt.Fprintf(&b, ";smooth=%d", d.Smooth)
	}
	if d.Until > 0 {
		fmt.Fprintf(&b, ";until=%d", d.Until)
	}
	if d.Scale == scaleRange {
		b.WriteString(";scale=range")
	}
	if d.searchesSide() && d.Guard.Direction != detectors.Directions[0] {
		fmt.Fprintf(&b, ";direction=%s", d.Guard.Direction)
	}
	if sum := d.referred.sum(); sum != "" {
		fmt.Fprintf(&b, ";reference=%s", sum)
	}
	if d.isSeason() {
		fmt.Fprintf(&b, ";period=%s;tables=%s", d.Season.Period, d.Season.sum())
	}
	return b.String()
}

// stateParams returns the op's parameters that state depends on.
func (d *DetectorSettings) stateParams() []setting {
	return slices.DeleteFunc(collectParams(d.params, ""), func(s setting) bool {
		return s.tag.Get("stateless") != ""
	})
}

// fingerprint returns FNV-1a of a canonical text.
func fingerprint(canonical string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(canonical))
	return h.Sum64()
}

// keyPatterns returns the patterns of a setting; none where they take all keys.
func keyPatterns(list []string) ([]string, func(key []byte) bool, error) {
	list = cleanList(list)
	keys, err := rules.Selection(list)
	if keys == nil {
		list = nil
	}
	return list, keys, err
}
