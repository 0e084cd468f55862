package processor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/keystate"
)

// An input topic that is given more partitions moves keys to others than their
// state. With ODRADEK_STATE_LOST=reset the changelog is extended, and the state
// that there is stays: keys that have moved warm up in their new partition, and
// leave the old one by their time to live. Each old partition decides once at which
// offset the topic had grown (keystate.Grown): the anomalies of keys that had no
// sample since then close because they have moved.

// refuseGrown says why a changelog does not fit its input topic.
func refuseGrown(cfg *Config, in string, t *topic, partitions int) error {
	e := &RefusedError{TP: kafka.TP{Topic: in},
		Reason: fmt.Sprintf("it has %d partitions and its changelog %s has %d; keys may have moved between partitions", partitions,
			t.name, t.partitions),
		Decide: "worker state reset -topic " + in}
	switch {
	case partitions < t.partitions:
	case cfg.StateLost != Reset:
		e.Decide = "ODRADEK_STATE_LOST=reset, or worker state reset -topic " + in
	case cfg.State.TTL == 0:
		e.Reason += ", and without ODRADEK_TTL what is left of them in the old ones would stay for ever"
		e.Decide = "ODRADEK_TTL with ODRADEK_STATE_LOST=reset, or worker state reset -topic " + in
	}
	return e
}

// MisfitOf returns why a worker does not start with an input topic and a changelog of
// these numbers of partitions; nil where it does, or extends the changelog.
func MisfitOf(cfg *Config, in string, partitions int, changelog string, have int) error {
	if partitions == have || partitions > have && cfg.StateLost == Reset && cfg.State.TTL > 0 {
		return nil
	}
	return refuseGrown(cfg, in, &topic{name: changelog, partitions: have}, partitions)
}

// fit makes the changelog t as wide as its input topic, or says why not.
func (o *outputs) fit(ctx context.Context, cfg *Config, in string, t *topic, partitions int) error {
	if partitions == t.partitions {
		return nil
	}
	if err := MisfitOf(cfg, in, partitions, t.name, t.partitions); err != nil {
		return err
	}
	if err := cfg.Client.CreatePartitions(ctx, t.name, partitions); err != nil {
		return fmt.Errorf("processor: extend the changelog %s to the %d partitions of %s: %w; do it yourself, or allow Alter on it",
			t.name, partitions, in, err)
	}
	if cfg.Log != nil {
		cfg.Log.Warn("the topic has been given partitions: its changelog was extended, keys that have moved warm up again", "topic", in,
			"changelog", t.name, "partitions", partitions, "before", t.partitions)
	}
	t.partitions = partitions
	return nil
}

// recount looks for partitions that input topics were given since the start, and
// tells the partitions that are assigned.
func (p *Processor) recount(ctx context.Context) error {
	for in, t := range p.outputs.changelogs {
		if p.cfg.StateLost == Reset {
			tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			infos, err := p.cfg.Client.Topics(tctx, in)
			if err == nil && infos[in].Partitions > t.partitions {
				err = p.outputs.fit(tctx, &p.cfg, in, t, infos[in].Partitions)
			}
			cancel()
			if err != nil {
				return err
			}
		}
		for tp, pt := range p.partitions {
			if tp.Topic == in {
				pt.siblings.Store(int32(t.partitions))
			}
		}
	}
	return nil
}

// recountOnce recounts in each generation of the group: a member that is given
// none of the new partitions hears of them by nothing else.
func (p *Processor) recountOnce(ctx context.Context) {
	gen := p.member.Generation().ID
	if p.cfg.StateLost != Reset || gen == p.counted {
		return
	}
	p.counted = gen
	if err := p.recount(ctx); err != nil {
		p.log.Warn("the partitions of the input topics cannot be counted", "err", err)
	}
}

// grown reports whether the topic has more partitions than the state knows of.
func (pt *partition) grown(at int64) bool {
	if pt.forward {
		return false
	}
	known := pt.owner.now.Partitions
	if c := pt.state.Standing(keystate.Grown, nil, at); c != nil {
		if n, err := strconv.Atoi(string(c)); err == nil {
			known = n
		}
	}
	return known > 0 && int(pt.siblings.Load()) > known
}

// decideGrown notes that the topic had grown before the record at offset.
func (pt *partition) decideGrown(offset int64) {
	pt.growing = false
	n := pt.siblings.Load()
	pt.state.Decide(keystate.Grown, nil, strconv.AppendInt(nil, int64(n), 10), offset)
	pt.log.Warn("the topic has grown, keys without a sample from here on have moved", "offset", offset, "partitions", n)
}
