package processor

import (
	"context"
	"fmt"
	"log/slog"
)

// finder finds the input topics of patterns while the worker runs. The goroutine of the membership calls find; the group
// subscribes to a topic only after that, so each partition that it assigns has a changelog.
type finder struct {
	cfg        *Config
	log        *slog.Logger
	changelogs *changelogs
}

// find is kafka.GroupConfig.Find. A topic whose changelog cannot be used is left out, until a later call.
func (f *finder) find(ctx context.Context) ([]string, error) {
	inputs, err := f.cfg.FindTopics(ctx)
	if err != nil {
		return nil, err
	}
	var usable []string
	for _, in := range inputs {
		if err := f.adopt(ctx, in); err != nil {
			f.log.Warn("a topic that matches is left out; trying again", "topic", in, "err", err)
			continue
		}
		usable = append(usable, in)
	}
	return usable, nil
}

// adopt looks up the changelog of a topic that is new.
func (f *finder) adopt(ctx context.Context, in string) error {
	if f.cfg.Changelog == nil || f.changelogs.topics.Changelog(in) != nil {
		return nil
	}
	t, err := lookupChangelog(ctx, f.cfg, in)
	if err != nil {
		return err
	}
	if most := f.cfg.Mappings.ForTopic(in).State.MaxRecord; t.BatchBytes < most {
		return fmt.Errorf("processor: its changelog %s takes batches of %d bytes, and a record of state has up to %d: raise its "+
			"max.message.bytes, or restart the workers", t.Name, t.BatchBytes, most)
	}
	f.changelogs.topics.SetChangelog(in, &t)
	f.log.Info("a topic matches", "topic", in, "changelog", t.Name, "partitions", t.Partitions)
	return nil
}

// gone reports whether an input topic of patterns does not exist any more, as every broker says: nothing of it can be committed.
func (f *finder) gone(ctx context.Context, topic string) bool {
	if f == nil || f.cfg.FindTopics == nil {
		return false
	}
	infos, err := f.cfg.Client.Admin.Topics(ctx, topic)
	return err == nil && infos[topic].Authorized && !infos[topic].Exists && f.cfg.Client.Admin.Unknown(ctx, topic)
}

// dropGone drops the partitions of topics that do not exist any more: a commit of their offsets would be refused, and
// with it the commit of all others. It reports whether there were any.
func (cm *commits) dropGone(ctx context.Context) (dropped bool) {
	gone := map[string]bool{}
	for tp, pt := range cm.assigned.partitions {
		is, asked := gone[tp.Topic]
		if !asked {
			is = cm.session.finder.gone(ctx, tp.Topic)
			gone[tp.Topic] = is
		}
		if is {
			cm.log.Warn("the topic does not exist any more: its partition is dropped", "topic", tp.Topic, "partition", tp.Partition)
			cm.assigned.drop(pt)
			dropped = true
		}
	}
	return dropped
}
