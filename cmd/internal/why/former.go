package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
)

// This file rebuilds the former settings of a detector. Each partition of a changelog has a record of the settings behind
// the fingerprints of its state, those in force and earlier ones (processor/settings.go).

// ReadFormer returns the settings that a changelog partition has recorded, the latest last; none if it has no record of them.
func ReadFormer(
	ctx context.Context,
	client *kafka.Client,
	cfg kafka.FetchConfig,
	log kafka.TP,
) (list []processor.StateSettings, err error) {
	first, err := client.Offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("why: changelog %s: %w", log, err)
	}
	end, err := client.Offsets.ListStable(ctx, []kafka.TP{log})
	if err != nil {
		return nil, fmt.Errorf("why: changelog %s: %w", log, err)
	}
	f := kafka.NewFetcher(client, cfg)
	defer f.Close()
	err = f.ReadRange(ctx, log, first[log], end[log], func(r *record.Record) (bool, error) {
		if string(r.Key) == processor.SettingsKey {
			list = processor.ParseSettings(r.Value)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("why: changelog %s: %w", log, err)
	}
	return list, nil
}

// Settings are former settings of a detector, from the record in a changelog.
type Settings struct {
	Changed string         // what differs from the present ones, in words
	Config  *config.Config // for the topic, with the detector and its members alone; nil: they cannot be rebuilt
	Why     string         // the reason why they cannot
}

// FormerSettings returns the recorded settings of a detector that differ from environ's, the latest first. Where each field is a
// series of its own, the record does not say which fields there were: Of takes the field from key, the key of a series.
func FormerSettings(environ []string, topic, detector, key string, recorded []processor.StateSettings) (list []Settings, err error) {
	now, err := presentOf(environ, topic, detector)
	if err != nil {
		return nil, err
	}
	field := key[strings.LastIndexByte(key, '/')+1:]
	for _, was := range slices.Backward(recorded) {
		if was.Detector != detector {
			continue
		}
		changed := processor.Differences(all(&was), all(&now.settings))
		if was.Window == now.settings.Window && was.Params == now.settings.Params {
			if now.series == nil || slices.ContainsFunc(now.series, func(f string) bool { return f == field || schemas.WildcardHas(f, field) }) {
				continue
			}
			changed = fmt.Sprintf("%sSERIES_FIELDS has no %s any more", config.Prefix, field)
		}
		s := Settings{Changed: changed}
		if s.Config, err = rebuild(environ, topic, detector, field, &was, now, recorded); err != nil {
			s.Config, s.Why = nil, err.Error()
		}
		list = append(list, s)
	}
	return list, nil
}

// present holds the settings in force.
type present struct {
	settings processor.StateSettings // of the detector
	members  []string
	series   []string
	all      []processor.StateSettings
}

// presentOf returns the settings in force for a detector on a topic.
func presentOf(environ []string, topic, detector string) (p present, err error) {
	c, faults, _ := config.Parse(environ)
	if len(faults) > 0 {
		return p, fmt.Errorf("why: %s", faults[0])
	}
	c = c.ForTopic(topic)
	ks, err := c.KeystateConfig()
	if err != nil {
		return p, fmt.Errorf("why: %w", err)
	}
	p.all, p.series = c.StateSettings(ks), c.Series()
	i := slices.IndexFunc(p.all, func(s processor.StateSettings) bool { return s.Detector == detector })
	if i < 0 {
		return p, fmt.Errorf("why: no detector %s is configured", detector)
	}
	p.settings, p.members = p.all[i], c.Detectors[i].Members
	return p, nil
}

// rebuild returns the configuration of a topic with the recorded settings of a detector, and of its members the latest that
// differ from the present ones.
func rebuild(environ []string, topic, detector, field string, was *processor.StateSettings, now present,
	recorded []processor.StateSettings) (*config.Config, error) {
	lines := slices.Clone(environ)
	names := append([]string{detector}, now.members...)
	for _, name := range names {
		settings := was
		if name != detector {
			settings = latestOther(name, recorded, now.all)
		}
		if settings == nil {
			continue
		}
		for _, s := range append([]processor.StoredSetting{{Name: config.DetectorPrefix(name) + "SMOOTH", Value: "1"},
			{Name: config.DetectorPrefix(name) + "SCALE", Value: "off"}}, settings.Op...) {
			if strings.HasPrefix(s.Value, "content") {
				if i := slices.IndexFunc(now.settings.Op, func(p processor.StoredSetting) bool { return p.Name == s.Name }); i < 0 ||
					now.settings.Op[i].Value != s.Value {
					return nil, fmt.Errorf("the content of %s is not recorded", s.Name)
				}
				continue
			}
			lines = append(lines, s.Name+"="+s.Value)
		}
	}
	c, faults, _ := config.Parse(lines)
	if faults = config.FaultsOf(faults, []string{strings.TrimPrefix(config.DetectorPrefix(detector), config.Prefix)}); len(faults) > 0 {
		return nil, fmt.Errorf("they do not fit the other present settings: %s", faults[0])
	}
	c = c.ForTopic(topic)
	kept := c.Detectors[:0]
	for i := range c.Detectors {
		if slices.Contains(names, c.Detectors[i].Name) {
			kept = append(kept, c.Detectors[i])
		}
	}
	c.Detectors = kept
	remap(c, was.Fields, field)
	if _, err := c.KeystateConfig(); err != nil {
		return nil, err
	}
	return c, nil
}

// latestOther returns the latest recorded settings of a detector that differ from the present ones; nil if there are none.
func latestOther(detector string, recorded, now []processor.StateSettings) *processor.StateSettings {
	for i, was := range slices.Backward(recorded) {
		if was.Detector == detector && !slices.ContainsFunc(now, func(s processor.StateSettings) bool {
			return s.Detector == detector && s.Window == was.Window && s.Params == was.Params
		}) {
			return &recorded[i]
		}
	}
	return nil
}

// remap sets the mapping of records to samples to the recorded one, which is part of a window's fingerprint. An ensemble
// has no window, and no mapping is recorded for it.
func remap(c *config.Config, recorded []processor.StoredSetting, field string) {
	if len(recorded) == 0 {
		return
	}
	m := &c.Mapping
	var fields []string
	m.ReadingsField = ""
	each := false
	for _, s := range recorded {
		switch name := strings.TrimPrefix(s.Name, config.Prefix); {
		case name == "KEY_FIELD":
			m.KeyField = s.Value
		case name == "TIME_FIELD":
			m.TimeField = s.Value
		case name == "TIME_UNIT":
			m.TimeUnit = s.Value
		case name == "READINGS_FIELD":
			m.ReadingsField = s.Value
		case name == "SERIES_FIELDS":
			each = true
		case strings.HasSuffix(name, "_FIELDS"):
			fields = strings.Split(s.Value, ",")
		}
	}
	if each || len(m.SeriesFields) > 0 || slices.ContainsFunc(fields, func(f string) bool { return !slices.Contains(m.ValueFields, f) }) {
		m.ValueFields = fields
	}
	if m.SeriesFields = nil; each {
		m.SeriesFields = []string{field}
	}
	for i := range c.Detectors {
		c.Detectors[i].Fields = fields
	}
}

// all returns the settings behind both fingerprints.
func all(s *processor.StateSettings) []processor.StoredSetting {
	return append(slices.Clone(s.Fields), s.Op...)
}
