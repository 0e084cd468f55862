package processor

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// truncated makes kfake's log look as one that lost its records from an offset on
// in an unclean election, and was written on past the committed offset: the leader's
// epoch is raised, and the answers about older epochs are changed.
func (b *bench) truncated(at int64) (asked *atomic.Int64) {
	asked = new(atomic.Int64)
	b.c.Fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		res := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewOffsetForLeaderEpochResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				if rt.Topic != b.input || rp.LeaderEpoch > 0 {
					return nil, nil, false
				}
				asked.Add(1)
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, rp.LeaderEpoch, at
				t.Partitions = append(t.Partitions, p)
			}
			res.Topics = append(res.Topics, t)
		}
		return res, nil, true
	})
	if err := b.c.Fake.MoveTopicPartition(b.input, 0, (b.c.Fake.LeaderFor(b.input, 0)+1)%3); err != nil {
		b.t.Fatal(err)
	}
	return asked
}

// runRefused runs a processor until it refuses.
func (b *bench) runRefused(cfg Config) *RefusedError {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := New(ctx, cfg)
	if err == nil {
		err = p.Run(ctx)
	}
	refused := &RefusedError{}
	if !errors.As(err, &refused) {
		b.t.Errorf("Run: %v; want a refusal", err)
	}
	return refused
}

// TestDivergedLog: records below the committed offset were lost in an unclean
// election, and the log has grown past that offset again. The offset is in the log,
// and the records before it are others: a worker that starts, and one that is in
// the middle of it, does what offset_lost says.
func TestDivergedLog(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, running := range []bool{false, true} {
			name := map[Guarantee]string{ExactlyOnce: "exactly once", AtLeastOnce: "at least once"}[guarantee] +
				map[bool]string{true: ", running"}[running]
			t.Run(name, func(t *testing.T) { divergedLog(t, guarantee, running) })
		}
	}
}

func divergedLog(t *testing.T, guarantee Guarantee, running bool) {
	b := newBench(t, 1)
	b.produce(500)
	config := func() Config {
		cfg := b.config("one")
		cfg.Guarantee, cfg.OffsetLost = guarantee, FailOnLoss
		return cfg
	}
	diverge := func() (asked *atomic.Int64) {
		asked = b.truncated(300)
		b.produce(400)
		return asked
	}
	var refused *RefusedError
	if running {
		ended := make(chan *RefusedError, 1)
		go func() { ended <- b.runRefused(config()) }()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
			t.Fatal(err)
		}
		diverge()
		refused = <-ended
	} else {
		b.run(config())
		asked := diverge()
		refused = b.runRefused(config())
		if asked.Load() == 0 {
			t.Error("the leader was not asked")
		}
	}
	for _, text := range []string{"offset 500", "epoch 0", "offset 300"} {
		if !strings.Contains(refused.Reason, text) {
			t.Errorf("the refusal does not name %s: %v", text, refused)
		}
	}
	if !strings.Contains(refused.Decide, "offset_lost") {
		t.Errorf("the refusal does not say what decides: %v", refused)
	}
	t.Log(refused)
	if at := b.committedAt(); at != 500 {
		t.Errorf("offset %d is committed after the refusal, not 500", at)
	}

	// Where the two logs part, with empty state: the 200 offsets that were read are
	// read again, because they are other records now.
	cfg := config()
	cfg.OffsetLost = Earliest
	b.run(cfg)
	if at := b.committedAt(); at != 900 {
		t.Errorf("offset %d is committed, the log has 900", at)
	}
	if n := gathered(t, cfg.Metrics, "odradek_lost_offsets_total"); n != 200 {
		t.Errorf("%v lost offsets are told, not 200", n)
	}
	recs, err := b.c.Admin().ReadAll(context.Background(), "scores", true)
	if err != nil {
		t.Fatal(err)
	}
	again := map[int64]int{}
	for i := range recs {
		s, err := output.DecodeScore(recs[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		again[s.Offset]++
	}
	twice := 0
	for off, n := range again {
		if n > 1 {
			twice++
			if off < 300 || off >= 500 {
				t.Errorf("offset %d has %d scores", off, n)
			}
		}
	}
	if twice == 0 {
		t.Error("no offset between the point of divergence and the committed offset is scored again")
	}
	b.run(config()) // what was emptied is a state like any other
}

func (b *bench) committedAt() int64 {
	b.t.Helper()
	offs, err := b.c.Admin().Offsets(context.Background(), "g", true)
	if err != nil {
		b.t.Fatal(err)
	}
	return offs[kafkatest.TP{Topic: b.input}].Offset
}

// TestLeaderMovesCleanly: new leaders that have every record disturb nothing, while
// a worker runs and while it is away, and the committed offset carries the epoch.
func TestLeaderMovesCleanly(t *testing.T) {
	b := newBench(t, 1)
	for i := range 3 {
		b.produce(200)
		cfg := b.config("one")
		p, stop := b.start(cfg)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		waitFor(t, "ready", func() bool { return len(p.Status()) == 1 && p.Ready() })
		for range 3 {
			if err := b.c.Fake.MoveTopicPartition(b.input, 0, (b.c.Fake.LeaderFor(b.input, 0)+1)%3); err != nil {
				t.Fatal(err)
			}
			b.produce(50)
		}
		if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
			t.Fatal(err)
		}
		stop(nil)
		tp := kafka.TP{Topic: b.input}
		offs, err := b.client.Offsets.Committed(ctx, "g", []kafka.TP{tp})
		if err != nil {
			t.Fatal(err)
		}
		if want := record.Epoch(3*(i+1) + 1); offs[tp].Epoch != want {
			t.Errorf("offset %d is committed with leader epoch %s, not %s", offs[tp].Offset, offs[tp].Epoch, want)
		}
	}
	b.ledger()
}

// TestUncleanElection: of two replicas one is down while the other takes records,
// which a worker reads and commits; then the other way round, and the topic allows
// an unclean election. The log grows past the committed offset again. Without epochs
// the worker would go on there, and the records between would never be scored.
func TestUncleanElection(t *testing.T) {
	if testing.Short() {
		t.Skip("real Kafka is left out with -short")
	}
	c := kafkatest.Open(t, kafkatest.KindNewest)
	if len(c.Nodes()) < 3 {
		t.Skip("the nodes are not this process's to kill")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := kafka.Open(ctx, kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	must(err)
	defer client.Close()
	b := &bench{t: t, c: c, client: client, input: kafkatest.Unique("in"), rng: rand.New(rand.NewPCG(1, 1))}
	must(c.Admin().CreateTopic(ctx, b.input, 1, 2, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}))
	group := b.input + "-g"
	for _, name := range []string{"scores", "dlq", "late", "changelog"} {
		must(c.Admin().CreateTopic(ctx, group+"-"+name, 1, 0, nil))
	}
	config := func() Config {
		cfg := b.config("")
		cfg.Group = group
		cfg.Outputs = cycle.TopicNames{cycle.Scores: group + "-scores", cycle.DeadLetters: group + "-dlq", cycle.Late: group + "-late"}
		cfg.Changelog = func(string) string { return group + "-changelog" }
		return cfg
	}
	tp := kafkatest.TP{Topic: b.input}
	committed := func(offset int64) {
		t.Helper()
		waitFor(t, "the input is committed", func() bool {
			offs, err := c.Admin().Offsets(ctx, group, true)
			return err == nil && offs[tp].Offset == offset
		})
	}

	ps, err := c.Admin().Partitions(ctx, b.input)
	must(err)
	first := ps[0].Leader
	second := ps[0].Replicas[0] + ps[0].Replicas[1] - first
	b.produce(500)
	c.NodeByID(second).Kill()
	b.produce(300) // acknowledged when the second has left the in-sync set
	_, stop := b.start(config())
	committed(800)
	stop(nil)
	c.NodeByID(first).Kill()
	must(c.NodeByID(second).Start(ctx))
	waitFor(t, "the second replica leads", func() bool {
		ps, err := c.Admin().Partitions(ctx, b.input)
		return err == nil && ps[0].Leader == second
	})
	b.produce(700)

	refused := b.runRefused(config())
	for _, text := range []string{"offset 800", "leader epoch", "offset 500"} {
		if !strings.Contains(refused.Reason, text) {
			t.Errorf("the refusal does not name %s: %v", text, refused)
		}
	}
	t.Log(refused)
	cfg := config()
	cfg.OffsetLost = Earliest
	_, stop = b.start(cfg)
	committed(1200)
	stop(nil)
	must(c.Admin().WaitStable(ctx, group+"-scores"))
	recs, err := c.Admin().ReadAll(ctx, group+"-scores", true)
	must(err)
	scored := map[int64]int{}
	for i := range recs {
		s, err := output.DecodeScore(recs[i].Value)
		must(err)
		scored[s.Offset]++
	}
	// The stride leaves at most two samples of each of 30 series without a score.
	missing, twice := 0, 0
	for off := range int64(1200) {
		switch n := scored[off]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	if missing > 30*2*3 || twice == 0 {
		t.Errorf("%d of 1200 offsets have no score, %d have two", missing, twice)
	}
}
