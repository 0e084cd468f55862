package config

import (
	"slices"
	"strings"
	"sync/atomic"

	"odradek/processor/state/rules"
)

// This file matches names of topics. A pattern has a * for any characters, also none, or a ? for one; all others stand
// for themselves. A name without either is no pattern.

// IsPattern reports whether an entry of a list of topics is a pattern.
func IsPattern(entry string) bool { return strings.ContainsAny(entry, "*?") }

// literal returns the pattern with - for each * and ?. It is a legal name of a topic if and only if all other characters of the
// pattern are legal in one.
func literal(pattern string) string { return strings.NewReplacer("*", "-", "?", "-").Replace(pattern) }

// MatchTopic reports whether a topic is one of the entries of a list, by name or by pattern.
func MatchTopic(entries []string, topic string) bool { return BestMatch(entries, topic) != "" }

// BestMatch returns the entry that a topic belongs to: its name, else the longest of the patterns that match it, of several the first in
// alphabetical order; "" for none.
func BestMatch(entries []string, topic string) (best string) {
	if slices.Contains(entries, topic) && !IsPattern(topic) {
		return topic
	}
	for _, e := range entries {
		if !IsPattern(e) || !rules.MatchKey(e, []byte(topic)) {
			continue
		}
		if len(e) > len(best) || len(e) == len(best) && e < best {
			best = e
		}
	}
	return best
}

// FoundTopics has the topics that patterns were found to match. Any goroutine may use it.
type FoundTopics struct{ list atomic.Pointer[[]string] }

// List returns the topics that entries name, and those that were found.
func (f *FoundTopics) List(entries []string) []string {
	list := slices.DeleteFunc(slices.Clone(entries), IsPattern)
	if found := f.list.Load(); found != nil {
		list = append(list, *found...)
	}
	return list
}

// Set sets the topics that patterns of entries match, of all topics but those that are to match none, and reports whether they are
// others than before.
func (f *FoundTopics) Set(entries, all []string, none func(topic string) bool) (changed bool) {
	var found []string
	for _, t := range all {
		if MatchTopic(entries, t) && !slices.Contains(entries, t) && !none(t) {
			found = append(found, t)
		}
	}
	slices.Sort(found)
	before := f.list.Swap(&found)
	return before == nil || !slices.Equal(*before, found)
}
