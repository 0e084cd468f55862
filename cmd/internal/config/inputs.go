package config

import (
	"slices"
	"strings"

	"odradek/processor/cycle"
)

// HasPatterns reports whether ODRADEK_TOPICS has patterns, so that the input topics are known only from the brokers.
func (c *Config) HasPatterns() bool { return slices.ContainsFunc(c.Group.Topics, IsPattern) }

// Inputs returns the input topics: those that ODRADEK_TOPICS names, and those that SetInputs was given.
func (c *Config) Inputs() []string { return c.inputs.List(c.Group.Topics) }

// Scored returns the topics whose records are scored: the input topics, or the internal one that has their records by series.
func (c *Config) Scored() []string {
	if c.Cycle.Rekey {
		return []string{c.Output.Topics[cycle.Rekeyed]}
	}
	return c.Inputs()
}

// Consumed returns the topics that a worker reads records from.
func (c *Config) Consumed() []string {
	if c.Cycle.Rekey {
		return append(slices.Clone(c.Inputs()), c.Scored()...)
	}
	return c.Inputs()
}

// Groups returns the consumer groups of the workers: the one that scores, and the one that keys records by series.
func (c *Config) Groups() []string {
	if c.Cycle.Rekey {
		return []string{c.Group.Group, c.Group.Group + "-" + cycle.Outputs[cycle.Rekeyed].Name}
	}
	return []string{c.Group.Group}
}

// GroupOf returns the consumer group that reads a topic.
func (c *Config) GroupOf(topic string) string {
	groups := c.Groups()
	if slices.Contains(c.Scored(), topic) {
		return groups[0]
	}
	return groups[len(groups)-1]
}

// SetInputs sets the topics that patterns match, of all topics that there are, and reports whether they are others than before.
// Topics of the group's own match no pattern: outputs, feedback, changelogs and the ledger of dlq redrive.
func (c *Config) SetInputs(all []string) (changed bool) {
	return c.inputs.Set(c.Group.Topics, all, c.isOwn)
}

// isOwn reports whether a topic is one that the group writes or would write with other settings, or one of Kafka's own.
func (c *Config) isOwn(topic string) bool {
	isChangelog := strings.HasSuffix(topic, "-changelog") &&
		(strings.HasPrefix(topic, c.Output.ChangelogPrefix+"-") || strings.HasPrefix(topic, c.Group.Group+"-"))
	return isChangelog || strings.HasPrefix(topic, "__") || c.writes(topic)
}

// writes reports whether the program writes a topic, or would with other settings, apart from changelogs.
func (c *Config) writes(topic string) bool {
	return topic == c.Detect.Feedback || topic == cycle.Ledger(c.Output.Topics[cycle.DeadLetters]) ||
		slices.Contains(c.Output.Topics[:], topic)
}
