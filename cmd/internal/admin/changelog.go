package admin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
)

// KeepChangelogs makes a group continue with changelogs named by an earlier version, which did
// not double the '-' (config.ChangelogPrefix). A changelog of another group may have that
// name too: it is the group's own if the group has committed the topic with state, or if the
// owner record names the group.
func KeepChangelogs(ctx context.Context, c *config.Config, client *kafka.Client, log *slog.Logger) error {
	group := c.Group.Group
	if group == "" || c.Output.ChangelogPrefix != config.ChangelogPrefix(group) || c.Output.ChangelogPrefix == group {
		return nil
	}
	for _, topic := range c.Scored() {
		now, before := config.ChangelogName(c.Output.ChangelogPrefix, topic), config.ChangelogName(group, topic)
		infos, err := client.Topics(ctx, now, before)
		if err != nil {
			return fmt.Errorf("worker: look up the changelog of %q: %w", topic, err)
		}
		if infos[now].Exists || !infos[before].Exists {
			continue
		}
		own, err := ownChangelog(ctx, client, group, topic, before, infos[before].Partitions)
		if err != nil {
			return fmt.Errorf("worker: read the owner of changelog %q: %w", before, err)
		}
		if !own {
			log.Warn("a topic with the name that earlier versions gave the changelog belongs to another group or topic, and is not used", "topic",
				before, "changelog", now)
			continue
		}
		log.Info("the changelog keeps its name", "topic", topic, "changelog", before)
		c.KeepChangelog(topic, before)
	}
	return nil
}

func ownChangelog(ctx context.Context, client *kafka.Client, group, topic, changelog string, partitions int) (bool, error) {
	var inputs []kafka.TP
	for p := range int32(partitions) {
		inputs = append(inputs, kafka.TP{Topic: topic, Partition: p})
	}
	committed, err := client.Committed(ctx, group, inputs)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(inputs, func(tp kafka.TP) bool {
		_, err := state.ParseFloor(committed[tp].Metadata)
		return committed[tp].Offset >= 0 && err == nil
	}) {
		return true, nil
	}
	f := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true})
	defer f.Close()
	for _, tp := range inputs {
		o, err := ChangelogOwner(ctx, client.Offsets, f, kafka.TP{Topic: changelog, Partition: tp.Partition})
		if o != nil || err != nil {
			return err == nil && o.Foreign(changelog, group, tp) == nil, err
		}
	}
	return false, nil
}

// ChangelogOwner reads the first owner record of a changelog partition, which is
// near its front; nil without one.
func ChangelogOwner(ctx context.Context, offsets *kafka.Offsets, f *kafka.Fetcher, log kafka.TP) (owner *processor.Owner, err error) {
	first, err := offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	last, err := offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Latest)
	if err != nil {
		return nil, err
	}
	err = f.ReadRange(ctx, log, first[log], last[log], func(rec *record.Record) (bool, error) {
		if string(rec.Key) != processor.OwnerKey || rec.Value == nil {
			return true, nil
		}
		o, err := processor.ParseOwner(rec.Value)
		if err != nil {
			return false, fmt.Errorf("changelog %s at offset %d: %w", log, rec.Offset, err)
		}
		owner = &o
		return false, nil
	})
	return owner, err
}
