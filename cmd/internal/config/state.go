package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
	"odradek/schemas"
	"odradek/schemas/expression"
)

// SchemaMapping returns the mapping of a record onto a sample: with ODRADEK_SERIES_FIELDS, of one value.
func (c *Config) SchemaMapping() schemas.Mapping {
	m := &c.Mapping
	return schemas.Mapping{Key: m.KeyField, Time: m.TimeField, Fields: m.ValueFields, TimeUnit: m.TimeUnit}
}

// RecordMapping returns the mapping of a record onto a reading, which Series says how to split into samples.
func (c *Config) RecordMapping() schemas.Mapping {
	m := c.SchemaMapping()
	if len(c.Mapping.SeriesFields) > 0 {
		m.Fields = c.Mapping.SeriesFields
	}
	m.Readings = c.Mapping.ReadingsField
	m.TimeZone, m.TimeLayout = c.Mapping.TimeZone, c.Mapping.TimeLayout
	m.SkipTombstones, m.TextNumbers = c.Mapping.Tombstones == "skip", c.Mapping.TextValues == "number"
	m.Decimals, m.Valid, m.MissingIf = c.Mapping.Decimals, c.Mapping.Valid, c.Mapping.MissingIf
	m.OnlyIf, m.Computed = c.Mapping.OnlyIf, c.Mapping.computed()
	return m
}

// HasReadings reports whether records have an array of readings.
func (c *Config) HasReadings() bool { return c.Mapping.ReadingsField != "" }

// readingsHeld is the number of readings of a record by which the default of ODRADEK_MAX_HELD, which counts records, fits
// into the memory that it is meant for.
const readingsHeld = 16

// HasWildcard reports whether each number below a path is a series.
func (c *Config) HasWildcard() bool {
	return slices.ContainsFunc(c.Mapping.SeriesFields, schemas.IsWildcard)
}

// Series returns the names of the values of a reading that are series of their own; nil: a reading is one sample.
func (c *Config) Series() []string {
	if len(c.Mapping.SeriesFields) == 0 {
		return nil
	}
	m := c.RecordMapping()
	columns, err := m.Columns(nil)
	if err != nil {
		return nil
	}
	return m.ColumnNames(columns)
}

// Reading returns how records are read: all that decides how they become samples, and in which order these are folded. It
// fails if the schema file cannot be read.
func (c *Config) Reading() (r rules.Reading, err error) {
	m, k := &c.Mapping, &c.Keys
	r.Key, r.Time = m.keyAndTime()
	r.Format, r.TimeUnit, r.Readings = m.Format, m.TimeUnit, m.ReadingsField
	r.Fields, r.Series = c.RecordMapping().Fields, len(m.SeriesFields) > 0
	r.SkipTombstones, r.TextNumbers = m.Tombstones == "skip", m.TextValues == "number"
	r.OnlyIf, r.Computed = m.OnlyIf, m.computed()
	r.TimeZone, r.TimeLayout = m.TimeZone, m.TimeLayout
	// nil where there are none, as a stored reading has them.
	r.Valid, r.MissingIf = append([]string(nil), m.Valid...), append([]string(nil), m.MissingIf...)
	r.Decimals = append([]string(nil), m.Decimals...)
	r.MaxFuture = k.MaxFuture.Microseconds()
	r.Lateness, r.MaxHeld, r.MaxJump = k.Lateness.Microseconds(), k.MaxHeld, k.MaxJump.Microseconds()
	r.BySeries = k.Lateness > 0 && k.LatenessBy == bySeries
	if r.MaxGap, err = k.maxGap(); err != nil {
		return r, fmt.Errorf("%sMAX_GAP: %w", Prefix, err)
	}
	if n := len(c.Series()); n > 0 {
		r.MaxHeld = max(1, k.MaxHeld/n)
	}
	r.Transforms = append([]string(nil), m.Transform...)
	if k.Every > 0 {
		r.Every, r.EmptyZero = k.Every.Microseconds(), k.Empty == "zero"
		r.Aggregates = append([]string(nil), k.Aggregate...)
	}
	r.Hold, r.DropDuplicates = m.Missing == "hold", m.Duplicates == "drop"
	if m.SchemaFile != "" {
		text, err := os.ReadFile(m.SchemaFile)
		if err != nil {
			return r, fmt.Errorf("%sSCHEMA_FILE: %w", Prefix, err)
		}
		r.Schema = string(text)
	}
	return r, nil
}

// KeystateConfig returns the configuration of the state: one window for each
// distinct list of fields, in order of first use, and the detectors on them. A
// detector that leaves out missing values has a separate window,
// which includes the rows that lack some of several values. The error names the setting; there
// is none after a Parse without faults.
func (c *Config) KeystateConfig() (*state.Config, error) {
	mapping := c.SchemaMapping()
	ks := &state.Config{
		Dim:            mapping.Width(),
		TTL:            c.Keys.TTL.Microseconds(),
		MaxKeys:        c.Keys.MaxKeys,
		DropMismatched: c.Cycle.StateMismatch == "reset",
		Units:          c.units(),
	}
	var err error
	if ks.Reading, err = c.Reading(); err != nil {
		return nil, err
	}
	if ks.Reading.Several() {
		ks.SampleBits = state.SeveralBits
	}
	if c.Detect.Anomalies {
		ks.Silence = c.Detect.Silence.Microseconds()
	}
	if ks.Grouping, err = c.grouping(); err != nil {
		return nil, fmt.Errorf("%sGROUP_BY: %w", Prefix, err)
	}
	var windows []string
	for i := range c.Detectors {
		d := &c.Detectors[i]
		if d.isEnsemble() {
			ks.Detectors = append(ks.Detectors, series.DetectorConfig{})
			continue
		}
		cols, err := mapping.Columns(d.Fields)
		if err != nil {
			return nil, fmt.Errorf("%sFIELDS: %w", DetectorPrefix(d.Name), err)
		}
		det, err := d.Build()
		if err != nil {
			return nil, fmt.Errorf("%sWINDOW: %w", DetectorPrefix(d.Name), err)
		}
		_, incomplete := det.(detectors.Incomplete)
		incomplete = incomplete && len(cols) > 1
		names := mapping.ColumnNames(cols)
		grid, err := gridOf(d, cols, names)
		if err != nil {
			return nil, fmt.Errorf("%sGRID: %w", DetectorPrefix(d.Name), err)
		}
		canonical := c.canonicalWindow(d.Fields)
		if grid != nil {
			cols, canonical = cols[:2], canonical+gridText(grid)
		}
		if incomplete {
			canonical += ";incomplete"
		}
		w := slices.Index(windows, canonical)
		if w < 0 {
			w = len(windows)
			windows = append(windows, canonical)
			ks.Windows = append(ks.Windows, series.WindowConfig{
				Columns: cols, Fingerprint: fingerprint(canonical), Incomplete: incomplete, Grid: grid,
			})
		}
		patterns, keys, err := keyPatterns(d.Keys)
		if err != nil {
			return nil, fmt.Errorf("%sKEYS: %w", DetectorPrefix(d.Name), err)
		}
		dc := series.DetectorConfig{
			Name: d.Name, Detector: det, Window: w, Fields: names, Keys: keys, Patterns: patterns, Stride: d.Stride,
			Until: int64(d.Until), Smooth: threshold.Smoothing(d.Smooth), Fingerprint: fingerprint(d.canonical()), MaxP: d.Grid.MaxP,
			Scale: d.Scale == scaleRange,
		}
		if dc.Scale {
			if why := series.Unscalable(&dc, &ks.Windows[w]); why != "" {
				return nil, fmt.Errorf("%sSCALE: range, but %s", DetectorPrefix(d.Name), why)
			}
		}
		if dc.Threshold, err = c.thresholdOf(d); err != nil {
			return nil, fmt.Errorf("%sTHRESHOLD: %w", DetectorPrefix(d.Name), err)
		}
		if dc.Guard, err = d.guardOf(names); err != nil {
			return nil, fmt.Errorf("%sONLY_IF: %w", DetectorPrefix(d.Name), err)
		}
		if dc.Threshold != nil && c.Detect.Anomalies {
			dc.Events, dc.Shadow = d.Alarm.policy(), d.Alarm.Shadow
		}
		ks.Detectors = append(ks.Detectors, dc)
	}
	if err := c.addEnsembles(ks); err != nil {
		return nil, err
	}
	return ks, nil
}

// StateSettings returns the settings behind the fingerprints of ks, which KeystateConfig
// made: those in the texts of canonicalWindow and canonical.
func (c *Config) StateSettings(ks *state.Config) []processor.StateSettings {
	source := map[string]string{}
	for _, s := range c.settings {
		source[s.name] = s.source
	}
	key, at := c.Mapping.keyAndTime()
	mapping := []processor.StoredSetting{
		{Name: Prefix + "KEY_FIELD", Value: key}, {Name: Prefix + "TIME_FIELD", Value: at},
		{Name: Prefix + "TIME_UNIT", Value: c.Mapping.TimeUnit},
	}
	if len(c.Mapping.SeriesFields) > 0 {
		mapping = append(mapping, processor.StoredSetting{Name: Prefix + "SERIES_FIELDS", Value: "each a series"})
	}
	if c.HasReadings() {
		mapping = append(mapping, processor.StoredSetting{Name: Prefix + "READINGS_FIELD", Value: c.Mapping.ReadingsField})
	}
	held := append(
		slices.Clone(mapping),
		processor.StoredSetting{Name: Prefix + "VALUE_FIELDS", Value: strings.Join(c.Mapping.ValueFields, ",")},
	)
	held = append(held, c.computedSetting(c.Mapping.ValueFields)...)
	var list []processor.StateSettings
	for i := range c.Detectors {
		d, dc := &c.Detectors[i], &ks.Detectors[i]
		if d.isEnsemble() {
			list = append(list, d.ensembleSettings(dc))
			continue
		}
		fields := processor.StoredSetting{Name: DetectorPrefix(d.Name) + "FIELDS", Value: strings.Join(d.Fields, ",")}
		if source[fields.Name] == "default" {
			fields.Shown = Prefix + "VALUE_FIELDS"
		}
		held = append(held, fields)
		computed := c.computedSetting(d.Fields)
		s := processor.StateSettings{Detector: d.Name, Window: processor.Fingerprint(ks.Windows[dc.Window].Fingerprint),
			Params: processor.Fingerprint(dc.Fingerprint),
			Fields: append(append(slices.Clone(mapping), fields), computed...)}
		if len(ks.Windows[dc.Window].Columns) > 1 { // the op says whether rows may lack values
			s.Fields = append(s.Fields, processor.StoredSetting{Name: DetectorPrefix(d.Name) + "OP", Value: d.Op})
		}
		if t := c.transformsOf(d.Fields); len(t) > 0 {
			s.Fields = append(s.Fields, processor.StoredSetting{Name: Prefix + "TRANSFORM", Value: strings.Join(t, ",")})
		}
		if c.Keys.Every > 0 {
			s.Fields = append(s.Fields, processor.StoredSetting{Name: Prefix + "EVERY", Value: c.Keys.Every.String()},
				processor.StoredSetting{Name: Prefix + "AGGREGATE", Value: strings.Join(c.aggregatesOf(d.Fields), ",")},
				processor.StoredSetting{Name: Prefix + "EMPTY", Value: c.Keys.Empty})
		}
		if g := ks.Windows[dc.Window].Grid; g != nil {
			s.Fields = append(s.Fields, gridSettingsOf(d, g)...)
		}
		op := func(name, value string) {
			s.Op = append(s.Op, processor.StoredSetting{Name: DetectorPrefix(d.Name) + name, Value: value})
		}
		op("OP", d.Op)
		op("WINDOW", strconv.Itoa(d.Window))
		op("STRIDE", strconv.Itoa(d.Stride))
		if d.Until > 0 {
			op("UNTIL", strconv.Itoa(d.Until))
		}
		if d.Smooth > 1 {
			op("SMOOTH", strconv.Itoa(d.Smooth))
		}
		if d.Scale == scaleRange {
			op("SCALE", d.Scale)
		}
		for _, p := range d.stateParams() {
			op(p.name, formatValue(p.field))
		}
		if d.searchesSide() {
			op(detectors.DirectionParam, d.Guard.Direction)
		}
		if sum := d.referred.sum(); sum != "" {
			op("REFERENCE", "content "+sum[:16])
		}
		if d.isSeason() {
			op("PERIOD", d.Season.Period)
			op("ZONE", d.Season.Zone)
			op("CALENDAR", "content, and the zone's, "+d.Season.sum())
		}
		list = append(list, s)
	}
	for i := range c.Detectors { // the fingerprint of an ensemble contains the fingerprints of its members and their windows
		for j := range c.Detectors {
			e, m := &c.Detectors[i], &c.Detectors[j]
			if !slices.Contains(e.Members, m.Name) {
				continue
			}
			list[i].Include(&list[j])
			name, _, _ := m.onlyWith()
			gate := slices.IndexFunc(c.Detectors, func(o DetectorSettings) bool { return o.Name == name })
			if e.isAny() && gate >= 0 {
				list[i].Op = append(list[i].Op, processor.StoredSetting{Name: DetectorPrefix(m.Name) + "ONLY_WITH", Value: m.OnlyWith})
				list[i].Include(&list[gate])
			}
		}
	}
	return append(list, processor.StateSettings{Window: processor.Fingerprint(ks.Reading.Layout()), Fields: held})
}

// computed returns the values that are computed, each as NAME=EXPRESSION; nil without any.
func (m *mappingSettings) computed() []string { return expression.Split(m.Compute) }

// computedOf returns the computed values that fields name.
func (m *mappingSettings) computedOf(fields []string) (list []string) {
	for _, c := range m.computed() {
		if name, _, _ := strings.Cut(c, "="); slices.Contains(fields, strings.TrimSpace(name)) {
			list = append(list, c)
		}
	}
	return list
}

// computedSetting returns the setting by which fields are computed; none where none is.
func (c *Config) computedSetting(fields []string) []processor.StoredSetting {
	list := c.Mapping.computedOf(fields)
	if list == nil {
		return nil
	}
	return []processor.StoredSetting{{Name: Prefix + "COMPUTE", Value: strings.Join(list, ",")}}
}

// keyAndTime returns the two fields, a default by its name.
func (m *mappingSettings) keyAndTime() (key, at string) {
	if key = m.KeyField; key == "" {
		key = "@key"
	}
	if at = m.TimeField; at == "" {
		at = "@timestamp"
	}
	return key, at
}

// transformsOf returns the entries of ODRADEK_TRANSFORM that are about fields, in order; with ODRADEK_SERIES_FIELDS, all: each
// series has the same windows.
func (c *Config) transformsOf(fields []string) (list []string) {
	for _, entry := range c.Mapping.Transform {
		t, err := rules.ParseTransform(entry)
		if err == nil && (len(c.Mapping.SeriesFields) > 0 || slices.ContainsFunc(fields, t.About)) {
			list = append(list, strings.TrimSpace(entry))
		}
	}
	slices.Sort(list)
	return list
}

// aggregatesOf returns what ODRADEK_AGGREGATE says of fields, each FIELD=AGGREGATE; with ODRADEK_SERIES_FIELDS, all entries: each series
// has the same windows.
func (c *Config) aggregatesOf(fields []string) (list []string) {
	if len(c.Mapping.SeriesFields) > 0 {
		return slices.Sorted(slices.Values(c.Keys.Aggregate))
	}
	for _, f := range fields {
		list = append(list, arrayLengthRE.ReplaceAllString(f, "")+"="+rules.AggregateOf(c.Keys.Aggregate, f).String())
	}
	return list
}

// canonicalWindow returns the text of a window's fingerprint: how a record becomes rows of
// the window.
func (c *Config) canonicalWindow(fields []string) string {
	m := &c.Mapping
	key, at := m.keyAndTime()
	text := fmt.Sprintf("window;1;key=%q;time=%q;unit=%s;fields=%q", key, at, m.TimeUnit, fields)
	if len(m.SeriesFields) > 0 { // any of them: a series more empties no other
		text += ";each"
	}
	if t := c.transformsOf(fields); len(t) > 0 {
		text += fmt.Sprintf(";transform=%q", t)
	}
	if every := c.Keys.Every; every > 0 {
		text += fmt.Sprintf(";every=%s;aggregate=%q;empty=%s", every, c.aggregatesOf(fields), c.Keys.Empty)
	}
	if m.ReadingsField != "" {
		text += fmt.Sprintf(";readings=%q", m.ReadingsField)
	}
	if list := m.computedOf(fields); list != nil {
		text += fmt.Sprintf(";computed=%q", list)
	}
	return text
}
