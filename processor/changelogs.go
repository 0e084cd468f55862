package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
)

// Each input topic with state has a changelog of as many partitions.
//
// When an input topic gets more partitions, keys move to partitions that lack their
// state. With state_lost=reset the changelog is extended, and existing state
// stays where it is: keys that have moved warm up in their new partition, and leave the
// old one by their time to live. Each old partition decides once at which offset the
// topic had grown (state.Grown): the anomalies of keys without a sample since then
// close because the keys have moved.

// refuseGrown returns the refusal of a changelog that does not fit its input topic.
func refuseGrown(cfg *Config, in string, t *cycle.Topic, partitions int) error {
	e := &RefusedError{TP: kafka.TP{Topic: in},
		Reason: fmt.Sprintf("it has %d partitions and its changelog %s has %d; keys may have moved between partitions", partitions,
			t.Name, t.Partitions),
		Decide: "worker state reset -topic " + in}
	switch {
	case partitions < t.Partitions:
	case cfg.Mappings.ForTopic(in).State.TTL == 0: // whether STATE_LOST=reset is set or not: alone it is refused
		e.Reason += ", and without a TTL their state in the old ones would stay for ever"
		e.Decide = "a TTL with state_lost=reset, or worker state reset -topic " + in
	case cfg.StateLost != Reset:
		e.Decide = "state_lost=reset, or worker state reset -topic " + in
	}
	return e
}

// MisfitOf returns why a worker does not start with an input topic, named in, that has the given number of partitions and a
// changelog that has have partitions. It returns nil where the worker starts, also where it extends the changelog first.
func MisfitOf(cfg *Config, in string, partitions int, changelog string, have int) error {
	if partitions == have || partitions > have && cfg.StateLost == Reset && cfg.Mappings.ForTopic(in).State.TTL > 0 {
		return nil
	}
	return refuseGrown(cfg, in, &cycle.Topic{Name: changelog, Partitions: have}, partitions)
}

// changelogs keeps the changelogs of the input topics as wide as these.
type changelogs struct {
	cfg      *Config
	log      *slog.Logger
	topics   *cycle.Topics
	assigned *assignment
	session  *session
	counted  int32            // generation in which partitions were counted
	shrunk   map[string]error // why input topics with fewer partitions than their changelogs are refused
}

// open asks the brokers for the changelogs of the input topics, which must
// exist, and extends the changelogs of topics that have grown.
func (c *changelogs) open(ctx context.Context) error {
	var errs []error
	cfg := c.cfg
	if cfg.Changelog == nil {
		return nil
	}
	c.shrunk = map[string]error{}
	refusals := 0
	for _, in := range cfg.Topics {
		t, err := lookupChangelog(ctx, cfg, in)
		c.topics.SetChangelog(in, &t)
		var refused *RefusedError
		if errors.As(err, &refused) {
			refusals++
			if infos, e := cfg.Client.Admin.Topics(ctx, in); e == nil && infos[in].Partitions < t.Partitions {
				c.shrunk[in] = err
			}
		}
		errs = append(errs, err)
	}
	if refusals < len(cfg.Topics) { // partitions of the others are fine
		errs = slices.DeleteFunc(errs, func(err error) bool {
			var refused *RefusedError
			return errors.As(err, &refused)
		})
	}
	return errors.Join(errs...)
}

// lookupChangelog asks the brokers for the changelog of an input topic, which must exist, and extends it if that has grown.
func lookupChangelog(ctx context.Context, cfg *Config, in string) (cycle.Topic, error) {
	t, err := cycle.LookupTopic(ctx, cfg.Client.Admin, cfg.Changelog(in), "the changelog of "+in, cfg.MaxMessageBytes, cfg.MaxMessageBytes)
	infos, terr := cfg.Client.Admin.Topics(ctx, in)
	switch {
	case terr != nil:
		err = errors.Join(err, fmt.Errorf("processor: input topic %q: %w", in, terr))
	case !infos[in].Authorized:
		err = errors.Join(err, fmt.Errorf("processor: input topic %q may not be described: allow the worker Describe and Read on it",
			in))
	case !infos[in].Exists:
		err = errors.Join(err, fmt.Errorf("processor: input topic %q does not exist", in))
	case t.Name != "":
		err = errors.Join(err, fit(ctx, cfg, in, &t, infos[in].Partitions))
	}
	return t, err
}

// unfit returns why a partition has no place in its changelog: the input topic has got more partitions since that was made,
// or since the metadata that New saw, or it has fewer, and was made again.
func (c *changelogs) unfit(ctx context.Context, tp kafka.TP) error {
	t := c.topics.Changelog(tp.Topic)
	if t == nil {
		return nil
	}
	if err := c.shrunk[tp.Topic]; err != nil || int(tp.Partition) < t.Partitions {
		return err
	}
	partitions := int(tp.Partition) + 1 // at least
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if infos, err := c.cfg.Client.Admin.Topics(ctx, tp.Topic); err == nil {
		partitions = max(partitions, infos[tp.Topic].Partitions)
	}
	return refuseGrown(c.cfg, tp.Topic, t, partitions)
}

// fit extends the changelog t to the partitions of its input topic, or returns why not.
func fit(ctx context.Context, cfg *Config, in string, t *cycle.Topic, partitions int) error {
	if partitions == t.Partitions {
		return nil
	}
	if err := MisfitOf(cfg, in, partitions, t.Name, t.Partitions); err != nil {
		return err
	}
	if err := cfg.Client.Admin.CreatePartitions(ctx, t.Name, partitions); err != nil {
		return fmt.Errorf("processor: extend the changelog %s to the %d partitions of %s: %w; extend it by hand, or allow Alter on it",
			t.Name, partitions, in, err)
	}
	if cfg.Log != nil {
		cfg.Log.Warn("the topic has more partitions than before: its changelog was extended, keys that have moved warm up again", "topic", in,
			"changelog", t.Name, "partitions", partitions, "before", t.Partitions)
	}
	t.Partitions = partitions
	return nil
}

// recount extends the changelogs of input topics that have grown since the start, and
// passes the numbers on to the assigned partitions. Where it cannot, the new partitions are unfit.
func (c *changelogs) recount(ctx context.Context) {
	for in, t := range c.topics.Changelogs() {
		if c.cfg.StateLost == Reset {
			tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			infos, err := c.cfg.Client.Admin.Topics(tctx, in)
			if err == nil && infos[in].Partitions > t.Partitions {
				err = fit(tctx, c.cfg, in, t, infos[in].Partitions)
			}
			cancel()
			if err != nil {
				c.log.Warn("cannot count the partitions of an input topic, or extend its changelog", "topic", in, "err", err)
			}
		}
		for tp, pt := range c.assigned.partitions {
			if tp.Topic == in {
				pt.siblings.Store(int32(t.Partitions))
			}
		}
	}
}

// recountOnce recounts once in each generation of the group: a member without any of the
// new partitions has no other sign of them.
func (c *changelogs) recountOnce(ctx context.Context) {
	gen := c.session.member.Load().Generation().ID
	if c.cfg.StateLost != Reset || gen == c.counted {
		return
	}
	c.counted = gen
	c.recount(ctx)
}
