package admin

import (
	"context"
	"fmt"
	"slices"

	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
)

// InputTopics looks the input topics up. It returns faults for those that a worker cannot
// read: a topic that no broker knows, since only the operator creates input topics, and one
// that may not be described. A topic without a leader, or one that only some brokers know, is
// a temporary error.
func InputTopics(ctx context.Context, c *config.Config, admin *kafka.Admin) (found []kafka.TopicInfo, faults []Finding, err error) {
	if _, err := FindTopics(ctx, c, admin); err != nil {
		return nil, nil, err
	}
	inputs := c.Inputs()
	if len(inputs) == 0 { // of patterns, so far
		return nil, nil, nil
	}
	infos, err := admin.Topics(ctx, inputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the input topics (%sTOPICS): %w", config.Prefix, err)
	}
	for _, name := range inputs {
		info := infos[name]
		if !slices.Contains(c.Group.Topics, name) && !info.Exists {
			continue // of a pattern, and deleted just now
		}
		if info.Authorized && !info.Exists && !admin.Unknown(ctx, name) {
			return nil, nil, fmt.Errorf("look up input topic %q (%sTOPICS): not every broker knows it yet", name, config.Prefix)
		}
		switch {
		case !info.Authorized:
			faults = append(faults, Finding{Level: LevelFault, What: "topic " + name, Detail: "may not be described",
				Fix: "allow Describe and Read to " + principal(c)})
		case !info.Exists:
			fix := "create it (worker setup -input-partitions N does), or correct " + config.Prefix + "TOPICS"
			if near := nearTopic(ctx, admin, name); near != "" {
				fix += ": did you mean " + near + "?"
			}
			faults = append(faults, Finding{Level: LevelFault, What: "topic " + name, Detail: "does not exist", Fix: fix, err: missingError{name}})
		default:
			found = append(found, info)
		}
	}
	return found, faults, nil
}

// FindTopics looks for the topics that patterns of ODRADEK_TOPICS match (config.Config.Inputs), and reports whether they are
// others than before. A topic that matched before is left out if every broker says that there is none.
func FindTopics(ctx context.Context, c *config.Config, admin *kafka.Admin) (changed bool, err error) {
	if !c.HasPatterns() {
		return false, nil
	}
	infos, err := admin.Topics(ctx)
	if err != nil {
		return false, fmt.Errorf("look for topics that match %sTOPICS: %w", config.Prefix, err)
	}
	var all []string
	for name, info := range infos {
		if info.Exists && info.Authorized && !info.Internal {
			all = append(all, name)
		}
	}
	for _, name := range c.Inputs() {
		if !slices.Contains(all, name) && !admin.Unknown(ctx, name) {
			all = append(all, name)
		}
	}
	return c.SetInputs(all), nil
}

// nearTopic returns the topic whose name is nearest to a missing one's; empty if none
// is near.
func nearTopic(ctx context.Context, admin *kafka.Admin, missing string) string {
	all, err := admin.Topics(ctx)
	if err != nil {
		return ""
	}
	names := map[string]bool{}
	for name, info := range all {
		if info.Exists && !info.Internal {
			names[name] = true
		}
	}
	near, d := config.Nearest(missing, names)
	if d > max(2, len(missing)/5) {
		return ""
	}
	return near
}

// principal returns the principal that needs a permission of the brokers.
func principal(c *config.Config) string {
	if c.Kafka.Username != "" {
		return "User:" + c.Kafka.Username
	}
	return "this client"
}
