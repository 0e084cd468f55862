package admin

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
)

// CreateTopics creates missing output topics and changelogs, if that is allowed, and never
// input topics.
func CreateTopics(ctx context.Context, c *config.Config, client *kafka.Client, log *slog.Logger) error {
	inputs, faults, err := InputTopics(ctx, c, client.Admin)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	if len(faults) > 0 {
		return (&Report{Findings: faults}).startFault()
	}
	if !c.Output.CreateTopics {
		return nil
	}
	plans, err := topicPlans(ctx, c, client.Admin, inputs)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for _, p := range plans {
		if p.info.Exists {
			if p.output == cycle.Rekeyed {
				if short := tooSmall(ctx, c, client.Admin, inputs); short != "" {
					log.Warn("the internal topic of ODRADEK_REKEY does not hold the input's largest records: those become dead letters",
						"topic", p.name, "why", short)
				}
			}
			continue
		}
		if err := client.Admin.CreateTopic(ctx, p.name, p.partitions, c.Output.Replication, p.configs); err != nil {
			return fmt.Errorf("admin: create topic %q: %w; %s", p.name, err, creationFix(err))
		}
		log.Info("created topic", "topic", p.name, "partitions", p.partitions)
	}
	return nil
}

// Finder returns processor.Config.FindTopics: it looks for topics that match ODRADEK_TOPICS and creates their changelogs, if
// that is allowed. It is nil for topics that are all named.
func Finder(c *config.Config, client *kafka.Client, log *slog.Logger) func(context.Context) ([]string, error) {
	if !c.HasPatterns() {
		return nil
	}
	prepared := c.Inputs() // at the start
	return func(ctx context.Context) ([]string, error) {
		if _, err := FindTopics(ctx, c, client.Admin); err != nil {
			return nil, err
		}
		inputs := c.Inputs()
		for _, in := range inputs {
			if slices.Contains(prepared, in) {
				continue
			}
			if err := createChangelog(ctx, c, client, in, log); err != nil {
				log.Warn("the changelog of a topic that matches cannot be created", "topic", in, "err", err, "fix", creationFix(err))
			}
		}
		prepared = inputs
		return inputs, nil
	}
}

// createChangelog creates the changelog of a topic, if there is none and it may be created.
func createChangelog(ctx context.Context, c *config.Config, client *kafka.Client, in string, log *slog.Logger) error {
	name := c.ChangelogTopic(in)
	infos, err := client.Admin.Topics(ctx, in, name)
	if err != nil || infos[name].Exists || !infos[in].Exists || !c.Output.CreateTopics || !slices.Contains(c.Scored(), in) {
		return err
	}
	configs := maps.Clone(cycle.ChangelogSpec.Configs)
	if err := client.Admin.CreateTopic(ctx, name, infos[in].Partitions, c.Output.Replication, configs); err != nil {
		return err
	}
	log.Info("created topic", "topic", name, "partitions", infos[in].Partitions)
	return nil
}

// OutputCreator returns processor.Config.CreateOutput; nil where the worker may not create topics.
func OutputCreator(c *config.Config, client *kafka.Client) func(context.Context, cycle.Output, int) error {
	if !c.Output.CreateTopics {
		return nil
	}
	return func(ctx context.Context, output cycle.Output, partitions int) error {
		var inputs []kafka.TopicInfo
		for _, name := range c.Inputs() {
			inputs = append(inputs, kafka.TopicInfo{Name: name})
		}
		name := c.OutputTopics()[output]
		err := client.Admin.CreateTopic(ctx, name, partitions, c.Output.Replication, outputConfigs(ctx, client.Admin, output, inputs))
		if err != nil {
			return fmt.Errorf("admin: create topic %q: %w; %s", name, err, creationFix(err))
		}
		return nil
	}
}

// outputConfigs returns the configuration of a new topic of an output.
func outputConfigs(ctx context.Context, admin *kafka.Admin, output cycle.Output, inputs []kafka.TopicInfo) map[string]string {
	spec := &cycle.Outputs[output]
	configs := maps.Clone(spec.Configs)
	if spec.Copies {
		if configs == nil {
			configs = map[string]string{}
		}
		configs["max.message.bytes"] = strconv.Itoa(largestInput(ctx, admin, inputs) + forwardSlack)
	}
	return configs
}

// topicPlan is a topic that the worker writes, as it exists or is to be created.
type topicPlan struct {
	name, setting string
	output        cycle.Output // -1: a changelog
	partitions    int          // of a new topic; required of a changelog
	configs       map[string]string
	input         string          // input topic of a changelog
	info          kafka.TopicInfo // of the existing topic
}

// topicPlans lists the topics that the worker writes.
func topicPlans(ctx context.Context, c *config.Config, admin *kafka.Admin, inputs []kafka.TopicInfo) ([]topicPlan, error) {
	partitions := c.Output.Partitions
	if partitions == 0 {
		for _, in := range inputs {
			partitions = max(partitions, in.Partitions)
		}
	}
	partitions = max(partitions, 1) // check goes on without an input topic
	var plans []topicPlan
	written := c.OutputTopics()
	for i, name := range written {
		if name == "" {
			continue
		}
		plans = append(plans, topicPlan{name: name, setting: cycle.Outputs[i].Setting, output: cycle.Output(i), partitions: partitions,
			configs: outputConfigs(ctx, admin, cycle.Output(i), inputs)})
	}
	stateOf := inputs
	if name := written[cycle.Rekeyed]; name != "" {
		infos, err := admin.Topics(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look up topic %q: %w", name, err)
		}
		rekeyed := kafka.TopicInfo{Name: name, Partitions: partitions}
		if infos[name].Exists {
			rekeyed = infos[name]
		}
		stateOf = []kafka.TopicInfo{rekeyed}
	}
	for _, in := range stateOf {
		plans = append(plans, topicPlan{name: c.ChangelogTopic(in.Name), setting: cycle.ChangelogSpec.Setting, output: -1,
			partitions: in.Partitions, configs: maps.Clone(cycle.ChangelogSpec.Configs), input: in.Name})
	}
	names := make([]string, len(plans))
	for i := range plans {
		names[i] = plans[i].name
	}
	infos, err := admin.Topics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("look up the output topics: %w", err)
	}
	for i := range plans {
		plans[i].info = infos[plans[i].name]
	}
	return plans, nil
}

// forwardSlack is the most bytes by which a record grows on its way to the internal, late or
// dead-letter topic: a series key of 8 KiB, headers with its
// origin and the reason, and the margin that the processor leaves below a topic's limit.
const forwardSlack = 16 << 10

// defaultMessage is the brokers' default of max.message.bytes.
const defaultMessage = 1048588

// largestInput returns the largest max.message.bytes of the input topics, as far as
// brokers show it.
func largestInput(ctx context.Context, admin *kafka.Admin, inputs []kafka.TopicInfo) int {
	if len(inputs) == 0 {
		return defaultMessage
	}
	most := 0
	for _, in := range inputs {
		n := defaultMessage
		if conf, err := admin.TopicConfig(ctx, in.Name); err == nil {
			if v, err := strconv.Atoi(conf["max.message.bytes"]); err == nil {
				n = v
			}
		}
		most = max(most, n)
	}
	return most
}

// tooSmall returns in which respect the existing internal topic of ODRADEK_REKEY takes smaller
// records than the input; empty where it does not, or brokers do not show it.
func tooSmall(ctx context.Context, c *config.Config, admin *kafka.Admin, inputs []kafka.TopicInfo) string {
	conf, err := admin.TopicConfig(ctx, c.Output.Topics[cycle.Rekeyed])
	if err != nil {
		return ""
	}
	have, err := strconv.Atoi(conf["max.message.bytes"])
	need := largestInput(ctx, admin, inputs)
	if err != nil || have >= need {
		return ""
	}
	return fmt.Sprintf("its max.message.bytes is %d, and the input has records of up to %d; %d leaves room for headers", have,
		need, need+forwardSlack)
}
