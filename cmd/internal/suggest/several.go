package suggest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
)

// The sections of a settings file whose settings a mapping may have.
const (
	recordsSection = "Records to samples"
	stateSection   = "State of a series"
)

// shape is a set of topics for which the same settings are proposed.
type shape struct {
	name     string // of its mapping
	topics   []string
	listed   []string    // topics and patterns that name them in the settings file
	s        *suggestion // for the first topic
	config   *config.Config
	mapping  []settingsfile.Setting // of records and state
	detect   string                 // all detectors with their settings
	suffix   string                 // at the end of its detectors' names
	comments []string               // about the topics after the first
}

// SuggestAll looks at several topics and returns the text of one settings file. If their records or their detectors differ,
// the file has a mapping for each shape, in the order of the shapes' first topics. entries are the topics and patterns that
// the file names where it can.
func (c *Config) SuggestAll(ctx context.Context, topics, entries []string) (string, error) {
	if len(topics) == 1 {
		c.Topic = topics[0]
		return c.Suggest(ctx)
	}
	var shapes []*shape
	for _, topic := range topics {
		own := *c
		own.Topic, own.Environ = topic, append(slices.Clone(c.Environ), config.Prefix+"TOPICS="+topic)
		own.Given, _, _ = config.Parse(own.Environ)
		s, err := own.look(ctx)
		if err != nil {
			return "", fmt.Errorf("topic %s: %w", topic, err)
		}
		topicShape, err := own.shapeOf(s)
		if err != nil {
			return "", fmt.Errorf("topic %s: %w", topic, err)
		}
		at := slices.IndexFunc(shapes, func(o *shape) bool {
			return o.detect == topicShape.detect && sameSettings(o.mapping, topicShape.mapping)
		})
		if at < 0 {
			shapes = append(shapes, topicShape)
			continue
		}
		o := shapes[at]
		o.topics, o.comments = append(o.topics, topic), append(o.comments, topic+": "+strings.Join(s.head, " "))
	}
	return c.join(shapes, entries)
}

// shapeOf returns a shape of one topic, from the suggestion for it.
func (c *Config) shapeOf(s *suggestion) (*shape, error) {
	topicShape := &shape{topics: []string{s.topic}, s: s}
	for _, set := range s.settings {
		switch {
		case set.Key == "rekey" && !set.Off && set.Value == "true":
			return nil, errors.New("suggest: its series lie in several partitions (rekey: true), and a group with mappings does not rekey: " +
				"suggest this topic alone, for a group of its own")
		case set.Key == "rekey":
		case set.Detector == "" && (set.Key == "format" || set.Section == recordsSection || set.Section == stateSection):
			topicShape.mapping = append(topicShape.mapping, set)
		}
	}
	var err error
	if topicShape.config, err = c.with(s.settings); err != nil {
		return nil, err
	}
	for i := range topicShape.config.Detectors {
		d := &topicShape.config.Detectors[i]
		topicShape.detect += d.Name + ": " + topicShape.config.Changed(d) + "\n"
	}
	return topicShape, nil
}

// sameSettings reports whether two lists have the same settings in force, regardless of comments.
func sameSettings(a, b []settingsfile.Setting) bool {
	on := func(list []settingsfile.Setting) (texts []string) {
		for _, s := range list {
			if !s.Off {
				texts = append(texts, s.Key+"="+s.Value)
			}
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(on(a), on(b))
}

// join returns the settings file of the shapes.
func (c *Config) join(shapes []*shape, entries []string) (string, error) {
	first := shapes[0]
	entries = nameTopics(shapes, entries)
	out := &suggestion{topic: strings.Join(entries, ", ")}
	names := map[string]bool{}
	alike := !slices.ContainsFunc(shapes, func(o *shape) bool { return o.detect != first.detect })
	for _, o := range shapes {
		o.name = mappingName(o.topics[0], names)
		if !alike {
			o.suffix = "-" + o.name
		}
		about := "Topic " + o.topics[0]
		if len(shapes) > 1 {
			about += ", mapping " + o.name
		}
		out.head = append(out.head, about+": "+strings.Join(o.s.head, " "))
		out.head = append(out.head, o.comments...)
	}
	c.joinGroup(out, shapes, entries)
	if len(shapes) == 1 {
		for _, set := range first.s.settings {
			if set.Key != "kafka_brokers" && set.Key != "group" && set.Key != "topics" && set.Key != "schema_registry_url" {
				out.settings = append(out.settings, set)
			}
		}
		return out.text(), c.verify(out.settings)
	}
	for _, o := range shapes {
		add := func(set settingsfile.Setting) {
			set.Section, set.Mapping = "Mappings: how the records of each shape become samples", o.name
			out.settings = append(out.settings, set)
		}
		add(settingsfile.Setting{Key: "topics", Value: strings.Join(o.listed, ","), List: true, Comment: topicComment(o.s)})
		for _, set := range o.mapping {
			add(set)
		}
		if !alike {
			var list []string
			for i := range o.config.Detectors {
				list = append(list, o.config.Detectors[i].Name+o.suffix)
			}
			add(settingsfile.Setting{Key: "detectors", Value: strings.Join(list, ","), List: true,
				Comment: "The detectors below that score these topics."})
		}
	}
	for _, o := range shapes {
		out.settings = append(out.settings, o.detectors()...)
		if alike {
			break
		}
	}
	return out.text(), c.verify(out.settings)
}

// nameTopics sets the entries of each shape, and returns the entries of all shapes: a pattern is kept if its topics have one shape,
// and else replaced by its topics.
func nameTopics(shapes []*shape, entries []string) (all []string) {
	byEntry := map[string]*shape{} // nil: of several shapes
	for _, o := range shapes {
		for _, topic := range o.topics {
			entry := config.BestMatch(entries, topic)
			if was, there := byEntry[entry]; there && was != o {
				byEntry[entry] = nil
				continue
			}
			byEntry[entry] = o
		}
	}
	for _, o := range shapes {
		for _, topic := range o.topics {
			entry := config.BestMatch(entries, topic)
			if byEntry[entry] == nil {
				entry = topic
			}
			if !slices.Contains(o.listed, entry) {
				o.listed = append(o.listed, entry)
			}
		}
	}
	for _, entry := range entries {
		if o, there := byEntry[entry]; !there || o != nil {
			all = append(all, entry) // kept, or without a topic so far
			continue
		}
		for _, o := range shapes {
			for _, topic := range o.topics {
				if config.BestMatch(entries, topic) == entry {
					all = append(all, topic)
				}
			}
		}
	}
	return all
}

// joinGroup adds the settings that no mapping can have: of Kafka, the group and the topics.
func (c *Config) joinGroup(out *suggestion, shapes []*shape, entries []string) {
	const section = "Kafka, group and topics"
	first := shapes[0].s
	seen := map[string]bool{}
	grouped := 0
	for _, o := range shapes {
		if slices.ContainsFunc(o.s.settings, func(s settingsfile.Setting) bool { return s.Key == "group_by" && !s.Off }) {
			grouped++
		}
	}
	for _, o := range shapes {
		for _, set := range o.s.settings {
			target := set.Section
			switch {
			case set.Detector != "" || seen[set.Key] || set.Key == "preset" || set.Key == "rekey" || set.Key == "format" ||
				set.Section == recordsSection || set.Section == stateSection:
				continue
			case set.Key == "topics":
				set.Value, set.Comment = strings.Join(entries, ","), ""
			case set.Key == "group":
				set.Value = cmp.Or(c.Given.Group.Group, "odradek-"+first.topic)
				set.Comment = strings.TrimPrefix(set.Comment, "As it was given. ")
			case set.Key == "group_by" && len(shapes) == 1:
				continue // it stays where it is
			case set.Key == "group_by" && grouped < len(shapes):
				set.Off, target = true, section
				set.Comment = fmt.Sprintf("It suits %d of the %d mappings: the series keys of the others do not end with a field.", grouped,
					len(shapes))
			case set.Key == "group_by":
				target = section
			}
			seen[set.Key] = true
			if set.Section == "Kafka, group and topic" || target == section || set.Section == "Schemas" {
				target = section
			} else if len(shapes) == 1 {
				continue
			}
			set.Section = target
			out.settings = append(out.settings, set)
		}
	}
	slices.SortStableFunc(out.settings, func(a, b settingsfile.Setting) int {
		rank := func(s *settingsfile.Setting) int {
			if s.Section == section {
				return 0
			}
			return 1
		}
		return rank(&a) - rank(&b)
	})
}

// topicComment returns the comment on the topic of a suggestion.
func topicComment(s *suggestion) string {
	i := slices.IndexFunc(s.settings, func(set settingsfile.Setting) bool { return set.Key == "topics" })
	if i < 0 {
		return ""
	}
	return s.settings[i].Comment
}

// detectors returns all settings of the detectors. It spells out presets, because shapes with one value and with several
// have different ones.
func (s *shape) detectors() (list []settingsfile.Setting) {
	rename := func(name string) string { return name + s.suffix }
	for i := range s.config.Detectors {
		d := &s.config.Detectors[i]
		for part := range strings.FieldsSeq(s.config.Changed(d)) {
			name, value, _ := strings.Cut(part, "=")
			set := settingsfile.Setting{Section: "Detectors", Detector: rename(d.Name), Key: strings.ToLower(name), Value: value}
			if set.Key == "members" || set.Key == "only_with" { // names, the latter with what follows a colon
				var members []string
				for m := range strings.SplitSeq(value, ",") {
					name, rest, colon := strings.Cut(m, ":")
					name = rename(name)
					if colon {
						name += ":" + rest
					}
					members = append(members, name)
				}
				set.Value, set.List = strings.Join(members, ","), set.Key == "members"
			}
			for _, was := range s.s.settings {
				if was.Detector == d.Name && was.Key == set.Key && was.Comment != "" {
					set.Comment = was.Comment
				}
			}
			list = append(list, set)
		}
	}
	return list
}

// mappingName makes the name of a mapping from a topic, and adds it to names, which has the names that are taken.
func mappingName(topic string, names map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, topic)
	if name = strings.Trim(name[:min(len(name), 40)], "-"); name == "" || name[0] < 'a' {
		name = strings.TrimRight("t-"+name, "-")
	}
	base := name
	for i := 2; names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	names[name] = true
	return name
}

// verify returns an error with the faults of the joined settings.
func (c *Config) verify(list []settingsfile.Setting) error {
	plain := slices.Clone(list)
	var detectors []string
	for i := range plain {
		set := &plain[i]
		if set.Mapping != "" {
			set.Key = "mapping_" + strings.ReplaceAll(set.Mapping, "-", "_") + "_" + set.Key
		}
		if set.Detector != "" && !slices.Contains(detectors, set.Detector) {
			detectors = append(detectors, set.Detector)
		}
	}
	if slices.ContainsFunc(plain, func(s settingsfile.Setting) bool { return s.Mapping != "" }) {
		plain = append(plain, settingsfile.Setting{Key: "detectors", Value: strings.Join(detectors, ",")})
	}
	_, err := c.with(plain)
	return err
}
