package config

import "strings"

// ChangelogPrefix returns the prefix of a group's changelogs if none is set. With a
// single '-' between the two, plant and eu-in would have the changelog of plant-eu
// and in. Behind a name with a '-' it is doubled: the name stays below the prefix
// <group>- that permissions are given for.
func ChangelogPrefix(group string) string {
	if strings.Contains(group, "-") {
		return group + "-"
	}
	return group
}

// ChangelogName returns the name of the changelog of an input topic below a prefix.
func ChangelogName(prefix, topic string) string { return prefix + "-" + topic + "-changelog" }

// ChangelogTopic returns the name of an input topic's changelog.
func (c *Config) ChangelogTopic(topic string) string {
	if name, ok := c.changelogs[topic]; ok {
		return name
	}
	return ChangelogName(c.Output.ChangelogPrefix, topic)
}

// KeepChangelog makes ChangelogTopic return changelog for an input topic: one that keeps
// the name that an earlier version has given it.
func (c *Config) KeepChangelog(topic, changelog string) {
	if c.changelogs == nil {
		c.changelogs = map[string]string{}
	}
	c.changelogs[topic] = changelog
}
