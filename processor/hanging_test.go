package processor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// TestHanging: records of transactions that have ended are added to partitions, as brokers lost the markers of other partitions.
// A worker that starts ends the group's as they were decided, its own before it writes anything, and no others.
func TestHanging(t *testing.T) {
	b, cfg := newKafkaBench(t, 2, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	old, err := kgo.NewClient(kgo.SeedBrokers(b.c.Brokers...), kgo.MaxVersions(kversion.V2_8_0()))
	must(t, err)
	defer old.Close()
	verify := func(value string) { // whether brokers ask coordinators for a producer's transaction (KIP-890)
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType = kmsg.ConfigResourceTypeBroker
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "transaction.partition.verification.enable", &value
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		res, err := req.RequestWith(context.WithoutCancel(ctx), b.c.Admin().Client())
		must(t, err)
		must(t, kerr.ErrorForCode(res.Resources[0].ErrorCode))
	}
	verify("false")
	t.Cleanup(func() { verify("true") })

	scores := cfg.Outputs[cycle.Scores]
	cfg.InstanceID, cfg.TransactionTimeout = "one", 4*time.Second
	want := map[string]bool{} // by value: committed
	transact := func(topic, id, value string, commit, ended bool) {
		p := b.client.NewProducer(kafka.ProducerConfig{TransactionalID: id})
		must(t, p.Init(ctx))
		producer, epoch := p.ID()
		must(t, p.AddPartitions(ctx, []kafka.TP{{Topic: b.input}}))
		if ended {
			must(t, p.End(ctx, commit))
			want[value] = commit
		}
		batch := record.NewTransactionBatches(1000, record.CodecNone)
		must(t, batch.Append(time.Now().UnixMilli(), []byte("key"), []byte(value), nil))
		batch.Finish()
		req := kmsg.NewPtrProduceRequest()
		req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 5000
		rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		rp.Records = batch.Seal(0, producer, epoch, 0, true)[record.SizePrefix:]
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		waitFor(t, "a record is accepted", func() bool { // the configuration takes a moment
			res, err := req.RequestWith(ctx, old)
			return err == nil && res.Topics[0].Partitions[0].ErrorCode == 0
		})
	}
	transact(scores, cfg.Group+"-gone", "gone, committed", true, true)
	transact(scores, cfg.Group+"-lost", "lost, aborted", false, true)
	transact(scores, TransactionalID(cfg.Group, cfg.InstanceID), "own", true, true)
	late := cfg.Outputs[cycle.Late] // where nothing waits for these two
	transact(late, "another-application", "another", true, true)
	transact(late, cfg.Group+"-living", "living", true, false)
	delete(want, "another")

	log := cfg.capture()
	_, stop := b.start(cfg)
	committed := func(topic string) map[string]bool {
		rs, err := b.c.Admin().ReadAll(ctx, topic, true)
		must(t, err)
		got := map[string]bool{}
		for _, r := range rs {
			got[string(r.Value)] = true
		}
		return got
	}
	ended := func() []string { return log.with("a hanging transaction was ended as its coordinator had decided") }
	waitFor(t, "all of the group have ended", func() bool { return len(ended()) == len(want) })
	time.Sleep(2 * time.Second) // two more looks
	if lines := ended(); len(lines) != len(want) {
		t.Errorf("ended: %q", lines)
	}
	if first := log.with("msg="); !strings.Contains(first[0], "hanging") {
		t.Errorf("before its own has ended the worker logs %q", first[0])
	}
	got := committed(scores)
	maps.DeleteFunc(got, func(value string, _ bool) bool { _, ok := want[value]; return !ok }) // the worker's own scores
	for value, commit := range want {
		if got[value] != commit {
			t.Errorf("%q is committed: %t, want %t", value, got[value], commit)
		}
	}
	if v := committed(late); len(v) > 0 {
		t.Errorf("%v of transactions that are not the group's, or not decided", slices.Collect(maps.Keys(v)))
	}
	stop(nil)
}
