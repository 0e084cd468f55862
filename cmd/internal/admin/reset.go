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
func (s *Group) Reset(ctx context.Context) error {
	targets, err := s.targets(ctx)
	if err != nil {
		return err
	}
	if err := s.own(ctx); err != nil {
		return err
	}
	floors, err := s.floors(ctx, targets)
	if err != nil {
		return err
	}
	offs := make(map[kafka.TP]kafka.Offset, len(targets))
	remake := s.mismatched()
	if len(remake) > 0 && s.o.Partition >= 0 {
		return fmt.Errorf("admin: the changelog of %v has another number of partitions: reset all partitions of the topic together", remake)
	}
	series := 0
	for _, tp := range s.tps {
		n, err := s.countSeries(ctx, tp)
		if err != nil {
			return err
		}
		series += n
		fmt.Fprintf(s.err, "reset %s of group %s: %d series are forgotten, to begin at offset %d%s\n", tp, s.c.GroupOf(tp.Topic), n, targets[tp],
			warming(floors[tp], targets[tp]))
	}
	for _, topic := range remake {
		fmt.Fprintf(s.err, "the changelog %s is created again with %d partitions\n", s.c.ChangelogTopic(topic), s.counts[topic])
	}
	if err := s.o.Agree(fmt.Sprintf("forget %d series of %d partitions?", series, len(s.tps))); err != nil {
		fmt.Fprintln(s.err, err)
		return nil
	}
	// First the offsets of the targets, not those where a warm-up begins: a worker that starts meanwhile and resets by itself
	// begins to publish at the committed offset.
	for tp, at := range targets {
		offs[tp] = kafka.Offset{Offset: at, Metadata: resetting}
	}
	if err := s.commitOffsets(ctx, offs); err != nil {
		return err
	}
	for _, topic := range remake {
		if err := s.remake(ctx, topic); err != nil {
			return err
		}
	}
	n, err := s.wipe(ctx, func(kafka.TP, string) bool { return true })
	if err != nil {
		return err
	}
	for tp, floor := range floors {
		offs[tp] = kafka.Offset{Offset: floor.Offset, Metadata: floor.String()}
	}
	if err := s.commitOffsets(ctx, offs); err != nil {
		return fmt.Errorf("%w; the reset is not finished: run it again", err)
	}
	fmt.Fprintf(s.err, "reset %d partitions, %d state records deleted\n", len(s.tps), n)
	return nil
}

// countSeries returns the number of series that a partition has state of.
func (s *Group) countSeries(ctx context.Context, tp kafka.TP) (n int, err error) {
	err = s.eachSeries(ctx, tp, func(string) { n++ })
	return n, err
}

// eachSeries calls f with the series that a partition has state of.
func (s *Group) eachSeries(ctx context.Context, tp kafka.TP, f func(series string)) error {
	log, ok := s.changelog(tp)
	if !ok {
		return nil
	}
	live, err := s.read(ctx, log, false)
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
func (s *Group) Series(ctx context.Context, f func(tp kafka.TP, series string)) error {
	for _, tp := range s.tps {
		if err := s.eachSeries(ctx, tp, func(series string) { f(tp, series) }); err != nil {
			return err
		}
	}
	return nil
}

// own refuses changelogs that hold the state of another group or topic.
func (s *Group) own(ctx context.Context) error {
	for topic := range s.counts {
		if !s.stateOf[topic] {
			continue
		}
		for p := range int32(s.logs[topic]) {
			log := kafka.TP{Topic: s.c.ChangelogTopic(topic), Partition: p}
			o, err := ChangelogOwner(ctx, s.client.Offsets, s.fetcher, log)
			if err == nil && o != nil {
				err = o.Foreign(log.Topic, s.c.Group.Group, kafka.TP{Topic: topic, Partition: p})
			}
			if err != nil {
				return fmt.Errorf("admin: %w", err)
			}
		}
	}
	return nil
}

// targets returns the offset at which each partition is to begin.
func (s *Group) targets(ctx context.Context) (map[kafka.TP]int64, error) {
	committed, err := committedOffsets(ctx, s.c, s.client, s.tps)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	earliest, err := s.client.ListOffsets(ctx, s.tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	latest, err := s.client.ListStable(ctx, s.tps)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	start, err := s.start(ctx, earliest, latest)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	targets := make(map[kafka.TP]int64, len(s.tps))
	for _, tp := range s.tps {
		switch at := committed[tp].Offset; {
		case s.o.Offset():
			if len(s.tps) > 1 {
				return nil, fmt.Errorf("admin: -to %d is an offset of one partition, but %d are selected: name its topic with -topic",
					s.o.At, len(s.tps))
			}
			if s.o.At < earliest[tp] || s.o.At > latest[tp] {
				return nil, fmt.Errorf("admin: %s: offset %d is not in the log, which has %d to %d", tp, s.o.At, earliest[tp], latest[tp])
			}
			targets[tp] = s.o.At
		case s.o.To == "earliest":
			targets[tp] = earliest[tp]
		case s.o.To == "latest":
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
func (s *Group) start(ctx context.Context, earliest, latest map[kafka.TP]int64) (map[kafka.TP]int64, error) {
	at, err := s.c.StartAt()
	switch {
	case err != nil:
		return nil, err
	case at == kafka.Earliest:
		return earliest, nil
	case at == kafka.Latest:
		return latest, nil
	}
	offs, err := s.client.ListOffsets(ctx, s.tps, at)
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
func (s *Group) floors(ctx context.Context, targets map[kafka.TP]int64) (map[kafka.TP]state.Floor, error) {
	floors := make(map[kafka.TP]state.Floor, len(targets))
	for tp, at := range targets {
		floor := state.Floor{Offset: at, MaxTime: state.NoTime}
		if s.o.Warmup > 0 && s.stateOf[tp.Topic] {
			start, err := s.timeAt(ctx, tp, at)
			if err != nil {
				return nil, fmt.Errorf("admin: %s at offset %d: %w", tp, at, err)
			}
			from, err := s.client.ListOffsets(ctx, []kafka.TP{tp}, max(0, start-s.o.Warmup.Milliseconds()))
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
func (s *Group) timeAt(ctx context.Context, tp kafka.TP, at int64) (ms int64, err error) {
	ms = time.Now().UnixMilli()
	ends, err := s.client.ListStable(ctx, []kafka.TP{tp})
	if err != nil {
		return 0, err
	}
	err = s.fetcher.ReadRange(ctx, tp, at, ends[tp], func(rec *record.Record) (more bool, err error) {
		ms = rec.Timestamp
		return false, nil
	})
	return ms, err
}

// commitOffsets commits offsets without being a member, which brokers accept only while the
// group is empty; otherwise it returns errGroupActive.
func (s *Group) commitOffsets(ctx context.Context, offs map[kafka.TP]kafka.Offset) error {
	for group, tps := range byGroup(s.c, maps.Keys(offs)) {
		groupOffsets := map[kafka.TP]kafka.Offset{}
		for _, tp := range tps {
			groupOffsets[tp] = offs[tp]
		}
		err := s.client.CommitOffsets(ctx, kafka.Generation{ID: -1}, group, groupOffsets)
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
func (s *Group) mismatched() (topics []string) {
	for topic, n := range s.counts {
		if s.stateOf[topic] && s.logs[topic] != 0 && s.logs[topic] != n {
			topics = append(topics, topic)
		}
	}
	return topics
}

// remake deletes a changelog and creates it with its input topic's number of partitions and
// its former settings.
func (s *Group) remake(ctx context.Context, topic string) error {
	name := s.c.ChangelogTopic(topic)
	have, err := s.client.TopicConfig(ctx, name)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	configs := maps.Clone(cycle.ChangelogSpec.Configs)
	for k := range configs {
		if v := have[k]; v != "" {
			configs[k] = v
		}
	}
	if err := s.client.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for {
		// Older brokers delete in the background: the name may stay in use for a while.
		if err := s.client.CreateTopic(ctx, name, s.counts[topic], s.c.Output.Replication, configs); err != nil && ctx.Err() != nil {
			return fmt.Errorf("admin: %w", err)
		}
		infos, err := s.client.Topics(ctx, name)
		if err == nil && infos[name].Exists && infos[name].Partitions == s.counts[topic] {
			s.logs[topic] = s.counts[topic]
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
func (s *Group) wipe(ctx context.Context, which func(tp kafka.TP, key string) bool) (records int, err error) {
	producer := s.client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return 0, fmt.Errorf("admin: %w", err)
	}
	for _, tp := range s.tps {
		log, ok := s.changelog(tp)
		if !ok {
			continue
		}
		live, err := s.read(ctx, log, false)
		if err != nil {
			return records, fmt.Errorf("admin: %w", err)
		}
		b := record.NewBatches(int(s.c.Output.MaxMessage), record.CodecNone)
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
