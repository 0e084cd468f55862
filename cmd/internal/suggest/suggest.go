// Package suggest proposes the settings of a topic from its records.
//
// # The path of a suggestion
//
//  1. topicSample.read takes records from the beginning, the middle and the end of each partition, within bounds.
//  2. detectFormat finds their format, and newTable lists their values by path, regardless of their meaning.
//  3. chooseReadings, chooseTime, chooseKey and chooseValues decide what the values mean. Each choice is a setting, and its
//     comment says what was seen; where the choice is uncertain it names the runner-up.
//  4. history.read reads the newest records of some partitions through the worker's decoder with these settings: disorder,
//     pauses and the rate of samples give lateness, silence and the largest jump.
//  5. estimate folds them through the worker's own state, detectors and thresholds (backtest.Lane) and counts the anomalies
//     that open. The thresholds are raised while there are more than wanted.
//  6. suggestion.text writes the settings file.
//
// The same records give the same text, unless the time limit ends the reading early; then the text says so.
package suggest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/processor/kafka"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

// Config says what to look at.
type Config struct {
	Client   *kafka.Client
	Registry *registry.Client // nil: none
	Fetch    kafka.FetchConfig
	// Environ has the settings that are given, and Given is what they are parsed to. They are kept.
	Environ []string
	Given   *config.Config
	Topic   string
	// Records and Samples bound what the fields are known by, and what the detectors are run on; Bytes bounds either.
	Records, Samples int
	Bytes            int64
	// Time bounds the reading, and then each run of the detectors.
	Time time.Duration
	// Alarms is the number of anomalies a day, of all series together, above which thresholds are raised.
	Alarms float64
}

// suggestion is a proposed configuration.
type suggestion struct {
	topic    string
	head     []string
	settings []settingsfile.Setting
	given    map[string]settingsfile.Setting // what the environment or a file gives, by key
	taken    map[string]bool                 // keys that are in settings
}

// Answers reports whether a fault of the given settings is one that a suggestion answers: without a schema JSON can be read, and
// other records have an error of their own; and which fields of a schema are read is yet to be found. The settings that are found,
// with those that are given, are checked against the schema again.
func Answers(f config.Fault) bool {
	return f.Name == config.Prefix+"SCHEMA_FILE" && (strings.HasPrefix(f.Problem, "not set") || strings.HasPrefix(f.Problem, "field "))
}

// Suggest looks at the topic and returns the text of a settings file.
func (c *Config) Suggest(ctx context.Context) (string, error) {
	s, err := c.look(ctx)
	if err != nil {
		return "", err
	}
	return s.text(), nil
}

func (c *Config) look(ctx context.Context) (*suggestion, error) {
	s := &suggestion{topic: c.Topic, given: map[string]settingsfile.Setting{}, taken: map[string]bool{}}
	for _, given := range c.Given.GivenSettings() {
		if given.Detector == "" {
			s.given[given.Key] = given
		}
	}
	reading, cancel := context.WithTimeout(ctx, c.Time)
	defer cancel()
	sample, err := c.readSample(reading)
	if err != nil {
		return nil, err
	}
	m := &mapping{c: c, s: s, sample: sample}
	s.section("Kafka, group and topic", c.groupSettings(sample)...)
	format, err := m.detectFormat()
	if err != nil {
		return nil, err
	}
	s.section("Schemas", c.schemaSettings(format)...)
	table, err := m.newTable(reading)
	if err != nil {
		return nil, err
	}
	m.t = table
	for _, choose := range []func() error{m.chooseReadings, m.chooseTime, m.chooseKey, m.leaveOut, m.chooseValues} {
		if err := choose(); err != nil {
			return nil, err
		}
	}
	s.section(recordsSection, m.settings...)
	h, err := m.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	s.section(stateSection, h.stateSettings()...)
	if err := h.detectors(ctx); err != nil {
		return nil, err
	}
	s.rest()
	return s, nil
}

// text returns the suggestion as a settings file.
func (s *suggestion) text() string {
	head := append([]string{fmt.Sprintf("Suggested by worker suggest for topic %s. Each comment says what was seen; a line that is a comment "+
		"itself is an alternative, or what holds without it. Look through it, then: worker check -online -config FILE, and worker run "+
		"-config FILE.", s.topic)},
		s.head...)
	return settingsfile.Format(strings.Join(head, "\n\n"), s.settings)
}

// section adds settings below a heading. A setting that is given keeps its value.
func (s *suggestion) section(name string, list ...settingsfile.Setting) {
	for _, set := range list {
		set.Section = name
		if given, ok := s.given[set.Key]; ok && set.Detector == "" {
			if set.Off && set.Value != given.Value {
				s.settings = append(s.settings, set) // what was seen speaks for another one
				continue
			}
			if set.Off = false; set.Value != given.Value {
				set.Comment = "As it was given. " + set.Comment
				set.Value, set.List = given.Value, given.List
			}
		}
		if !set.Off {
			s.taken[set.Key] = true
		}
		s.settings = append(s.settings, set)
	}
}

// rest adds what is given and not part of the suggestion, so that the file is complete. Detectors end the file.
func (s *suggestion) rest() {
	var more []settingsfile.Setting
	for _, key := range sortedKeys(s.given) {
		if !s.taken[key] && key != "detectors" {
			set := s.given[key]
			set.Comment, set.Section = "", "Given besides"
			more = append(more, set)
		}
	}
	at := slices.IndexFunc(s.settings, func(set settingsfile.Setting) bool { return set.Detector != "" })
	if at < 0 {
		at = len(s.settings)
	}
	s.settings = slices.Insert(s.settings, at, more...)
}

// groupSettings returns brokers, group and topic.
func (c *Config) groupSettings(t *topicSample) (list []settingsfile.Setting) {
	group := "odradek-" + c.Topic
	brokers := settingsfile.Setting{Key: "kafka_brokers", Value: strings.Join(c.Given.Kafka.Brokers, ","), List: true}
	if c.Given.Kafka.Password.Reveal() != "" {
		brokers.Comment = "Secrets are not written here: give " + config.Prefix + "KAFKA_PASSWORD in the environment, or kafka_password_file."
	}
	size := "all of them were looked at"
	if !t.whole {
		size = fmt.Sprintf("%s were looked at, from the beginning, the middle and the end of %d of them", count(t.records(), "record"),
			t.partitions())
	}
	return append(list, brokers,
		settingsfile.Setting{Key: "group", Value: group, Comment: "The consumer group; the output topics are named after it."},
		settingsfile.Setting{Key: "topics", Value: c.Topic, List: true,
			Comment: fmt.Sprintf("%s, offsets that span %s; %s. At most %s can share the work.", count(len(t.ranges), "partition"),
				count(int(t.total), "record"), size, count(len(t.ranges), "worker"))})
}

// schemaSettings returns the registry and the format.
func (c *Config) schemaSettings(format settingsfile.Setting) (list []settingsfile.Setting) {
	if len(c.Given.Registry.URLs) > 0 {
		list = append(list, settingsfile.Setting{Key: "schema_registry_url", Value: strings.Join(c.Given.Registry.URLs, ","), List: true})
	}
	cfg, err := c.with(append(slices.Clone(list), format))
	if err == nil {
		format.Comment = strings.TrimSpace(format.Comment + " Scores and anomalies are written in " + cfg.OutputText() + ".")
	}
	return append(list, format)
}

// with returns the configuration with settings added to what is given, as the worker would have it.
func (c *Config) with(list []settingsfile.Setting) (*config.Config, error) {
	environ := slices.Clone(c.Environ)
	for i := range list {
		set := &list[i]
		if set.Off || set.Value == "" || set.Key == "" {
			continue
		}
		name := config.Prefix + strings.ToUpper(set.Key)
		if set.Detector != "" {
			name = config.DetectorPrefix(set.Detector) + strings.ToUpper(set.Key)
		}
		environ = append(environ, name+"="+set.Value)
	}
	parsed, faults, _ := config.Parse(environ)
	if len(faults) > 0 {
		errs := []error{errors.New("suggest: the settings that fit the records are not accepted")}
		for _, f := range faults {
			errs = append(errs, errors.New(f.String()))
		}
		return nil, errors.Join(errs...)
	}
	return parsed, nil
}

// decoderOptions returns the options of a decoder of a format.
func (c *Config) decoderOptions(format string) (formats.Options, error) {
	opts, err := c.Given.DecoderOptions()
	opts.Format = format
	return opts, err
}
