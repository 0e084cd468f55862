package processor

import (
	"context"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// infos describes topics by the brokers.
func (b *bench) infos(names ...string) map[string]kafka.TopicInfo {
	b.t.Helper()
	infos, err := b.client.Admin.Topics(context.Background(), names...)
	if err != nil {
		b.t.Fatal(err)
	}
	return infos
}

// remake deletes a topic and, with partitions, creates it again.
func (b *bench) remake(topic string, partitions int) {
	b.t.Helper()
	err := b.c.Admin().DeleteTopic(context.Background(), topic)
	if err == nil && partitions > 0 {
		err = b.client.Admin.CreateTopic(context.Background(), topic, partitions, 1, nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// allCommitted waits until all of the input is committed.
func (b *bench) allCommitted(group string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, group, b.input); err != nil {
		b.t.Fatal(err)
	}
}

// deletion is a case of an output topic that is deleted.
type deletion struct {
	name      string
	guarantee Guarantee
	allowed   bool // to create it again
	busy      bool // while records come
}

// TestOutputDeleted: an output topic is deleted while a worker runs, between cycles or while records come. A line says so,
// the worker is not ready, the topic is created again with as many partitions, or, where that is not allowed, by someone else,
// and what is written after that has each record once.
func TestOutputDeleted(t *testing.T) {
	for _, d := range []deletion{
		{"exactly once", ExactlyOnce, true, false},
		{"exactly once, busy", ExactlyOnce, true, true},
		{"exactly once, not allowed", ExactlyOnce, false, false},
		{"at least once", AtLeastOnce, true, false},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := newBench(t, 2)
			cfg := b.config("")
			cfg.Hooks.MetadataInterval = 100 * time.Millisecond
			outputDeleted(t, b, cfg, d)
		})
	}
}

// TestOutputDeletedOnKafka: as TestOutputDeleted, by Kafka itself, whose brokers go on for a while with a topic that is
// deleted, and whose coordinator has a transaction in hand with partitions that are gone; looks are as often as in a worker.
func TestOutputDeletedOnKafka(t *testing.T) {
	for _, d := range []deletion{
		{"exactly once", ExactlyOnce, true, false},
		{"exactly once, busy", ExactlyOnce, true, true},
		{"exactly once, busy, not allowed", ExactlyOnce, false, true},
		{"at least once, busy", AtLeastOnce, true, true},
	} {
		t.Run(d.name, func(t *testing.T) {
			b, cfg := newKafkaBench(t, 2, nil)
			outputDeleted(t, b, cfg, d)
		})
	}
}

// newKafkaBench returns a bench on Kafka itself, and its configuration: the group and the topics have names of their own.
// dead configures the topic of dead letters, in the input.
func newKafkaBench(t *testing.T, partitions int, dead map[string]string, in ...string) (*bench, Config) {
	t.Helper()
	if testing.Short() {
		t.Skip("real Kafka is left out with -short")
	}
	c := kafkatest.Open(t, kafkatest.KindNewest)
	client, err := kafka.Open(t.Context(), kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	b := &bench{t: t, c: c, client: client, rng: seedtest.New(t), input: c.Topic(t, "in", partitions, in...)}
	cfg := b.config("")
	cfg.Group = b.input + "-g"
	cfg.Outputs = cycle.TopicNames{}
	for output, name := range map[cycle.Output]string{cycle.Scores: "scores", cycle.DeadLetters: "dlq", cycle.Late: "late"} {
		cfg.Outputs[output] = cfg.Group + "-" + name
		var configs map[string]string
		if output == cycle.DeadLetters {
			configs = dead
		}
		must(t, client.Admin.CreateTopic(t.Context(), cfg.Outputs[output], 1, 1, configs))
	}
	changelog := cfg.Group + "-changelog"
	cfg.Changelog = func(string) string { return changelog }
	must(t, client.Admin.CreateTopic(t.Context(), changelog, partitions, 1, map[string]string{"cleanup.policy": "compact"}))
	return b, cfg
}

// outputDeleted deletes the scores topic of a worker with this configuration.
func outputDeleted(t *testing.T, b *bench, cfg Config, d deletion) {
	scores, group := cfg.Outputs[cycle.Scores], cfg.Group
	b.remake(scores, 3)
	cfg.Guarantee = d.guarantee
	cfg.Mappings.State.Detectors[0].Stride = 1 // a score for each record
	create := make(chan struct{})              // closed: the topic may be created
	if d.allowed {
		cfg.CreateOutput = func(ctx context.Context, output cycle.Output, partitions int) error {
			select {
			case <-create:
			case <-ctx.Done():
				return ctx.Err()
			}
			return b.client.Admin.CreateTopic(ctx, cfg.Outputs[output], partitions, 1, nil)
		}
	}
	log := cfg.capture()
	p, stop := b.start(cfg)
	b.produce(1000)
	b.allCommitted(group)
	ends := func() map[int32]int64 {
		ends, err := b.c.Admin().Ends(context.Background(), b.input, kafka.Latest)
		if err != nil {
			t.Fatal(err)
		}
		return ends
	}
	deleted := ends()
	if d.busy {
		b.produce(2000) // of which some may be written before
	}
	b.remake(scores, 0)
	began := time.Now()
	b.produce(1000)
	waitFor(t, "a line", func() bool { return len(log.with("an output topic was deleted")) == 1 })
	waitFor(t, "not ready", func() bool { return !p.Ready() })
	t.Logf("a line and not ready %v after the topic was deleted", time.Since(began))
	if err := p.NotReady(); err == nil || !strings.Contains(err.Error(), "output topic "+scores+" does not exist any more") {
		t.Errorf("NotReady: %v", err)
	}
	if !d.allowed {
		if err := b.client.Admin.CreateTopic(context.Background(), scores, 3, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(create)
	began = time.Now()
	b.allCommitted(group)
	waitFor(t, "ready", p.Ready)
	t.Logf("all committed and ready %v after it could be created", time.Since(began))
	complete := deleted // from here on all scores are in the new topic
	if d.busy {
		complete = ends()
	}
	b.produce(500)
	b.allCommitted(group)
	stop(nil)
	if n := b.infos(scores)[scores].Partitions; n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
	recs, err := b.c.Admin().ReadAll(context.Background(), scores, true)
	if err != nil {
		t.Fatal(err)
	}
	times := map[[2]int64]int{}
	for i := range recs {
		s, err := output.DecodeScore(recs[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		times[[2]int64{int64(s.Partition), s.Offset}]++
	}
	for at, n := range times {
		if n != 1 && d.guarantee == ExactlyOnce {
			t.Errorf("%d scores of %v", n, at)
		}
		if at[1] < deleted[int32(at[0])] {
			t.Errorf("a score of %v, which was committed before the topic was deleted", at)
		}
	}
	for part, end := range ends() {
		for at := complete[part]; at < end; at++ {
			if times[[2]int64{int64(part), at}] == 0 {
				t.Errorf("no score of %d/%d", part, at)
			}
		}
	}
}

// TestChangelogDeleted: a changelog that is deleted is not created again. A line says so, and the worker is not ready.
func TestChangelogDeleted(t *testing.T) {
	b := newBench(t, 2)
	cfg := b.config("")
	cfg.Hooks.MetadataInterval = 100 * time.Millisecond
	cfg.CreateOutput = func(context.Context, cycle.Output, int) error {
		t.Error("a topic is created")
		return nil
	}
	log := cfg.capture()
	p, _ := b.start(cfg)
	b.produce(300)
	b.allCommitted("g")
	b.ready(p, 2)
	changelog := cfg.Changelog(b.input)
	b.remake(changelog, 0)
	waitFor(t, "a line", func() bool { return len(log.with("a changelog was deleted")) == 1 })
	waitFor(t, "not ready", func() bool { return !p.Ready() })
	if err := p.NotReady(); err == nil || !strings.Contains(err.Error(), changelog) {
		t.Errorf("NotReady: %v", err)
	}
	if b.infos(changelog)[changelog].Exists {
		t.Error("the changelog is there again")
	}
	if err := b.client.Admin.CreateTopic(context.Background(), changelog, 2, 1, nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a line", func() bool { return len(log.with("the changelog exists again, without the state")) == 1 })
	waitFor(t, "ready", p.Ready)
}

// TestOutputNarrower: an output topic is deleted and created again with fewer partitions. The worker is not ready until the
// topic has as many as before.
func TestOutputNarrower(t *testing.T) {
	b := newBench(t, 1)
	b.remake("scores", 3)
	cfg := b.config("")
	cfg.Hooks.MetadataInterval = 100 * time.Millisecond
	log := cfg.capture()
	p, stop := b.start(cfg)
	b.produce(300)
	b.allCommitted("g")
	b.ready(p, 1)
	b.remake("scores", 1)
	waitFor(t, "a line", func() bool { return len(log.with("fewer partitions than before")) == 1 })
	waitFor(t, "not ready", func() bool { return !p.Ready() })
	b.produce(300)
	if err := b.client.Admin.CreatePartitions(context.Background(), "scores", 3); err != nil {
		t.Fatal(err)
	}
	b.allCommitted("g")
	waitFor(t, "ready", p.Ready)
	stop(nil)
}
