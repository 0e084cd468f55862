package config

import "strings"

// ChangelogPrefix returns the prefix of a group's changelogs if none is set: the group and a '-', which is doubled if
// the group has one itself. Otherwise group plant with topic eu-in would have the changelog of group plant-eu with
// topic in. Permissions for the prefix <group>- include both forms.
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
	return ChangelogName(c.Output.ChangelogPrefix, topic)
}
