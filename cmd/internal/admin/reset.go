package admin

import (
	"context"
	"fmt"
	"maps"
	"time"

	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
)

// resetting is the commit metadata during a reset: it has no replay floor, so a worker that
// starts meanwhile refuses to continue, or resets by itself with ODRADEK_STATE_LOST=reset.
const resetting = "reset in progress"

// Reset empties the state of the partitions and commits where to begin.
//
// It may be interrupted and repeated at any point. First it commits the offsets without a replay floor: the
// brokers refuse that while the group has members, and afterwards no worker can use the old state. Then it
// empties the changelogs. Last it commits the offsets again with a floor that needs no state.
func (g *Group) Reset(ctx context.Context) error {
	targets, err := g.targets(ctx)
	if err != nil {
		return err
	}
	if err := g.own(ctx); err != nil {
		return err
	}
	floors, err := g.floors(ctx, targets)
	if err != nil {
		return err
	}
	offs := make(map[kafka.TP]kafka.Offset, len(targets))
	remake := g.mismatched()
	if len(remake) > 0 && g.o.Partition >= 0 {
		return fmt.Errorf("admin: the changelog of %v has another number of partitions: reset all partitions of the topic together", remake)
	}
	series := 0
	for _, tp := range g.tps {
		n, err := g.countSeries(ctx, tp)
		if err != nil {
			return err
		}
		series += n
		fmt.Fprintf(g.err, "reset %s of group %s: %d series are forgotten, to begin at offset %d%s\n", tp, g.c.GroupOf(tp.Topic), n, targets[tp],
			warming(floors[tp], targets[tp]))
	}
	for _, topic := range remake {
		fmt.Fprintf(g.err, "the changelog %s is created again with %d partitions\n", g.c.ChangelogTopic(topic), g.counts[topic])
	}
	if err := g.o.Agree(fmt.Sprintf("forget %d series of %d partitions?", series, len(g.tps))); err != nil {
		fmt.Fprintln(g.err, err)
		return nil
	}
	// First the offsets of the targets, not those where a warm-up begins: a worker that starts meanwhile and resets by itself
	// begins to publish at the committed offset.
	for tp, at := range targets {
		offs[tp] = kafka.Offset{Offset: at, Metadata: resetting}
	}
	if err := g.commitOffsets(ctx, offs); err != nil {
		return err
	}
	for _, topic := range remake {
		if err := g.remake(ctx, topic); err != nil {
			return err
		}
	}
	n, err := g.wipe(ctx, func(kafka.TP, string) bool { return true })
	if err != nil {
		return err
	}
	for tp, floor := range floors {
		offs[tp] = kafka.Offset{Offset: floor.Offset, Metadata: floor.String()}
	}
	if err := g.commitOffsets(ctx, offs); err != nil {
		return fmt.Errorf("%w; the reset is not finished: run it again", err)
	}
	fmt.Fprintf(g.err, "reset %d partitions, %d state records deleted\n", len(g.tps), n)
	return nil
}

// countSeries returns the number of series that a partition has state of.
func (g *Group) countSeries(ctx context.Context, tp kafka.TP) (n int, err error) {
	err = g.eachSeries(ctx, tp, func(string) { n++ })
	return n, err
}

// eachSeries calls f with the series that a partition has state of.
func (g *Group) eachSeries(ctx context.Context, tp kafka.TP, f func(series string)) error {
	log, ok := g.changelog(tp)
	if !ok {
		return nil
	}
	live, err := g.read(ctx, log, false)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for _, r := range live {
		if kind, series, _ := splitRecordKey(r.key); kind == "head" {
			f(series)
		}
	}
	return nil
}

// Series calls f with each series of the group and its partition.
func (g *Group) Series(ctx context.Context, f func(tp kafka.TP, series string)) error {
	for _, tp := range g.tps {
		if err := g.eachSeries(ctx, tp, func(series string) { f(tp, series) }); err != nil {
			return err
		}
	}
	return nil
}

// own refuses changelogs that hold the state of another group or topic.
func (g *Group) own(ctx context.Context) error {
	for topic := range g.counts {
		if !g.stateOf[topic] {
			continue
		}
		for p := range int32(g.logs[topic]) {
			log := kafka.TP{Topic: g.c.ChangelogTopic(topic), Partition: p}
			o, err := ChangelogOwner(ctx, g.client.Offsets, g.fetcher, log)
			if err == nil && o != nil {
				err = o.Foreign(log.Topic, g.c.Group.Group, kafka.TP{Topic: topic, Partition: p})
			}
			if err != nil {
				return fmt.Errorf("admin: %w", err)
			}
		}
	}
	return nil
}

// targets returns the offset at which each partition is to begin.
func (g *Group) targets(ctx context.Context) (map[kafka.TP]int64, error) {
	committed, err := committedOffsets(ctx, g.c, g.client, g.tps)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	earliest, err := g.client.Offsets.ListOffsets(ctx, g.tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	latest, err := g.client.Offsets.ListStable(ctx, g.tps)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	start, err := g.start(ctx, earliest, latest)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	targets := make(map[kafka.TP]int64, len(g.tps))
	for _, tp := range g.tps {
		switch at := committed[tp].Offset; {
		case g.o.Offset():
			if len(g.tps) > 1 {
				return nil, fmt.Errorf("admin: -to %d is an offset of one partition, but %d are selected: name its topic with -topic",
					g.o.At, len(g.tps))
			}
			if g.o.At < earliest[tp] || g.o.At > latest[tp] {
				return nil, fmt.Errorf("admin: %s: offset %d is not in the log, which has %d to %d", tp, g.o.At, earliest[tp], latest[tp])
			}
			targets[tp] = g.o.At
		case g.o.To == "earliest":
			targets[tp] = earliest[tp]
		case g.o.To == "latest":
			targets[tp] = latest[tp]
		case at < 0:
			targets[tp] = start[tp]
		case at < earliest[tp]:
			return nil, fmt.Errorf("admin: %s: the committed offset %d is deleted, the log begins at %d; use -to earliest or -to latest", tp, at,
				earliest[tp])
		default:
			targets[tp] = at
		}
	}
	return targets, nil
}

// start returns the offsets that ODRADEK_START names.
func (g *Group) start(ctx context.Context, earliest, latest map[kafka.TP]int64) (map[kafka.TP]int64, error) {
	at, err := g.c.StartAt()
	switch {
	case err != nil:
		return nil, err
	case at == kafka.Earliest:
		return earliest, nil
	case at == kafka.Latest:
		return latest, nil
	}
	offs, err := g.client.Offsets.ListOffsets(ctx, g.tps, at)
	for tp, off := range offs {
		if off < 0 { // no record that late yet
			offs[tp] = latest[tp]
		}
	}
	return offs, err
}

// floors returns the replay floor of each partition after the reset: its target, without state. With Options.Warmup it is the
// first record that is at most so much older than the record at the target, and the input up to the target is a backfill: the
// worker folds it and publishes nothing of it.
func (g *Group) floors(ctx context.Context, targets map[kafka.TP]int64) (map[kafka.TP]state.Floor, error) {
	floors := make(map[kafka.TP]state.Floor, len(targets))
	for tp, at := range targets {
		floor := state.Floor{Offset: at, MaxTime: state.NoTime}
		if g.o.Warmup > 0 && g.stateOf[tp.Topic] {
			start, err := g.timeAt(ctx, tp, at)
			if err != nil {
				return nil, fmt.Errorf("admin: %s at offset %d: %w", tp, at, err)
			}
			from, err := g.client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, max(0, start-g.o.Warmup.Milliseconds()))
			if err != nil {
				return nil, fmt.Errorf("admin: %w", err)
			}
			if f := from[tp]; f >= 0 && f < at {
				floor.Offset, floor.Backfill = f, at
			}
		}
		floors[tp] = floor
	}
	return floors, nil
}

// warming says in words which input fills windows and is not published; "" where there is none.
func warming(floor state.Floor, target int64) string {
	if floor.Offset == target {
		return ""
	}
	return fmt.Sprintf("; offsets %d to %d fill windows and are not published", floor.Offset, target-1)
}

// timeAt returns the timestamp, in milliseconds, of the first record at offset at or later; where there is none, the present.
func (g *Group) timeAt(ctx context.Context, tp kafka.TP, at int64) (ms int64, err error) {
	ms = time.Now().UnixMilli()
	ends, err := g.client.Offsets.ListStable(ctx, []kafka.TP{tp})
	if err != nil {
		return 0, err
	}
	err = g.fetcher.ReadRange(ctx, tp, at, ends[tp], func(rec *record.Record) (more bool, err error) {
		ms = rec.Timestamp
		return false, nil
	})
	return ms, err
}

// commitOffsets commits offsets without being a member, which brokers accept only while the
// group is empty; otherwise it returns errGroupActive.
func (g *Group) commitOffsets(ctx context.Context, offs map[kafka.TP]kafka.Offset) error {
	for group, tps := range byGroup(g.c, maps.Keys(offs)) {
		groupOffsets := map[kafka.TP]kafka.Offset{}
		for _, tp := range tps {
			groupOffsets[tp] = offs[tp]
		}
		err := g.client.Offsets.CommitOffsets(ctx, kafka.Generation{ID: -1}, group, groupOffsets)
		switch kafka.ClassOf(err) {
		case kafka.None:
		case kafka.Rebalance, kafka.InstanceFenced:
			return errGroupActive
		default:
			return fmt.Errorf("admin: commit offsets of group %s: %w", group, err)
		}
	}
	return nil
}

// mismatched lists the topics whose changelog has another number of partitions.
func (g *Group) mismatched() (topics []string) {
	for topic, n := range g.counts {
		if g.stateOf[topic] && g.logs[topic] != 0 && g.logs[topic] != n {
			topics = append(topics, topic)
		}
	}
	return topics
}

// remake deletes a changelog and creates it with its input topic's number of partitions and
// its former settings.
func (g *Group) remake(ctx context.Context, topic string) error {
	name := g.c.ChangelogTopic(topic)
	have, err := g.client.Admin.TopicConfig(ctx, name)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	configs := maps.Clone(cycle.ChangelogSpec.Configs)
	for k := range configs {
		if v := have[k]; v != "" {
			configs[k] = v
		}
	}
	if err := g.client.Admin.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for {
		// Older brokers delete in the background: the name may stay in use for a while.
		if err := g.client.Admin.CreateTopic(ctx, name, g.counts[topic], g.c.Output.Replication, configs); err != nil && ctx.Err() != nil {
			return fmt.Errorf("admin: %w", err)
		}
		infos, err := g.client.Admin.Topics(ctx, name)
		if err == nil && infos[name].Exists && infos[name].Partitions == g.counts[topic] {
			g.logs[topic] = g.counts[topic]
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("admin: changelog %s was deleted and could not be created again: %w; the reset is not finished: run it again", name,
				ctx.Err())
		}
	}
}

// wipe writes a tombstone for every live record of the changelogs in which, but the owner's.
func (g *Group) wipe(ctx context.Context, which func(tp kafka.TP, key string) bool) (records int, err error) {
	producer := g.client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return 0, fmt.Errorf("admin: %w", err)
	}
	for _, tp := range g.tps {
		log, ok := g.changelog(tp)
		if !ok {
			continue
		}
		live, err := g.read(ctx, log, false)
		if err != nil {
			return records, fmt.Errorf("admin: %w", err)
		}
		b := record.NewBatches(int(g.c.Output.MaxMessage), record.CodecNone)
		send := func() error {
			if b.Count() == 0 {
				return nil
			}
			if err := producer.Produce(ctx, map[kafka.TP]*record.Batches{log: b}); err != nil {
				return fmt.Errorf("admin: %w", err)
			}
			b.Reset()
			return nil
		}
		now := time.Now().UnixMilli()
		for _, r := range live {
			if processor.IsRecord(r.key) || !which(tp, r.key) {
				continue
			}
			if err := b.Append(now, []byte(r.key), nil, nil); err != nil {
				return records, fmt.Errorf("admin: %w", err)
			}
			records++
			if b.Bytes() > 8<<20 {
				if err := send(); err != nil {
					return records, err
				}
			}
		}
		if err := send(); err != nil {
			return records, err
		}
	}
	return records, nil
}
