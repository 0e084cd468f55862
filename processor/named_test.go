package processor

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unanswered matches the line of a cycle whose time was over while a broker had a request: it says nothing of the fault that is
// tested, and the next cycle meets that fault.
var unanswered = regexp.MustCompile(`kafka: \w+ to broker \d+ \([^)]*\): (context deadline exceeded|(read|write) tcp \S+: i/o timeout)(; (tried for \S+|gave up: context deadline exceeded))?" class=unknown`)

// TestFaultsNameTheTopic: brokers refuse a request for one topic. Each message about it, whether it is the error of the start
// or of the worker, a line of the log or the reason of a quarantine, names that topic and what it is to the worker: an
// input, its changelog, or an output. The name of a changelog has the input's in it.
func TestFaultsNameTheTopic(t *testing.T) {
	const input, changelog, scores, dlq = "input", "changelog", "scores", "dlq"
	denied, unknown := kerr.TopicAuthorizationFailed, kerr.UnknownTopicOrPartition
	invalid, large := kerr.InvalidRecord, kerr.OffsetMetadataTooLarge
	// What a message says of a topic, and what none of another topic says.
	says := map[string][]string{
		input:     {`input topic \"IN\"`, "input IN/1", "IN is an input", "of the input in group", "processor: IN/1: "},
		changelog: {`topic \"g-IN-changelog\" (the changelog of IN)`, "changelog g-IN-changelog/1", "g-IN-changelog is the changelog of IN"},
		scores:    {`topic \"scores\" (scores_topic)`, "scores is the topic of scores_topic"},
		dlq:       {`topic \"dlq\" (dlq_topic)`, "dlq is the topic of dlq_topic"},
	}
	type fault struct {
		topic string
		key   kmsg.Key
		codes []*kerr.Error
	}
	both := []fault{
		{input, kmsg.Metadata, []*kerr.Error{denied, unknown}},
		{input, kmsg.OffsetFetch, []*kerr.Error{denied, unknown}},
		{input, kmsg.OffsetForLeaderEpoch, []*kerr.Error{denied}},
		{input, kmsg.ListOffsets, []*kerr.Error{denied}},
		{input, kmsg.Fetch, []*kerr.Error{denied}},
		{changelog, kmsg.Metadata, []*kerr.Error{denied, unknown}},
		{changelog, kmsg.ListOffsets, []*kerr.Error{denied}},
		{changelog, kmsg.Fetch, []*kerr.Error{denied}},
		{changelog, kmsg.Produce, []*kerr.Error{denied, unknown, invalid}},
		{scores, kmsg.Metadata, []*kerr.Error{denied, unknown}},
		{scores, kmsg.Produce, []*kerr.Error{denied, unknown, invalid}},
		{dlq, kmsg.Metadata, []*kerr.Error{denied, unknown}},
		{dlq, kmsg.Produce, []*kerr.Error{denied, unknown, invalid}},
	}
	faults := map[Guarantee][]fault{
		ExactlyOnce: append(both[:len(both):len(both)],
			fault{input, kmsg.TxnOffsetCommit, []*kerr.Error{denied, unknown, large}},
			fault{changelog, kmsg.AddPartitionsToTxn, []*kerr.Error{denied, unknown}},
			fault{scores, kmsg.AddPartitionsToTxn, []*kerr.Error{denied, unknown}},
			fault{dlq, kmsg.AddPartitionsToTxn, []*kerr.Error{denied, unknown}}),
		AtLeastOnce: append(both[:len(both):len(both)],
			fault{input, kmsg.OffsetCommit, []*kerr.Error{denied, large}}),
	}
	for g, name := range map[Guarantee]string{ExactlyOnce: "exactly once", AtLeastOnce: "at least once"} {
		for _, f := range faults[g] {
			for _, code := range f.codes {
				t.Run(name+"/"+f.topic+"/"+f.key.Name()+"/"+code.Message, func(t *testing.T) {
					t.Parallel()
					b := newBench(t, 2)
					config := func() Config {
						cfg := b.config("one")
						cfg.Guarantee, cfg.TransactionTimeout, cfg.ReplayLimit = g, time.Second, time.Nanosecond
						return cfg
					}
					b.produce(300)
					b.run(config())
					b.produce(300)
					b.produceDead("bad", 5, 0, 1)
					k := kfake.Fault{Keys: []kmsg.Key{f.key}, Topic: strings.NewReplacer("input", b.input, "changelog", "g-"+b.input+"-changelog").
						Replace(f.topic), Err: code, Count: -1}
					if f.key != kmsg.Metadata && (f.topic == input || f.topic == changelog) {
						k.Partitions = []int32{1}
					}
					if f.key == kmsg.AddPartitionsToTxn {
						refuseAdding(b.c.Fake, &k)
					} else {
						b.c.Fake.Fault(k)
					}
					cfg := config()
					log := cfg.capture()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var ended chan error
					messages := func() (list []string) {
						for _, line := range log.with("err=") {
							if !strings.Contains(line, `msg="dead letter"`) && !strings.Contains(line, "abort") && !unanswered.MatchString(line) {
								list = append(list, line)
							}
						}
						return list
					}
					p, err := New(ctx, cfg)
					if err == nil {
						ended = make(chan error, 1)
						go func() { ended <- p.Run(ctx) }()
						over := false
						waitFor(t, "a message", func() bool {
							select {
							case err = <-ended:
								over = true
							default:
							}
							b.produceTo(1, 1) // a later cycle has the state of an earlier one
							return over || len(messages()) > 0 && (code == unknown || len(quarantined(p)) > 0 || f.topic == scores || f.topic == dlq)
						})
						if cancel(); !over {
							<-ended
						}
					}
					list := messages()
					if err != nil {
						list = append(list, strings.ReplaceAll(err.Error(), `"`, `\"`))
					}
					if len(list) == 0 {
						t.Fatal("no message")
					}
					for _, m := range list {
						for topic, texts := range says {
							said := false
							for _, text := range texts {
								said = said || strings.Contains(m, strings.ReplaceAll(text, "IN", b.input))
							}
							if said != (topic == f.topic) {
								t.Errorf("names %s: %v, want %v:\n%s", topic, said, topic == f.topic, m)
							}
						}
					}
				})
			}
		}
	}
}

// refuseAdding answers AddPartitionsToTxn as Kafka does where one partition is refused: the others are not attempted.
func refuseAdding(c *kfake.Cluster, f *kfake.Fault) {
	c.ControlKey(int16(kmsg.AddPartitionsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.AddPartitionsToTxnRequest)
		res := r.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		refused := false
		for _, t := range r.Topics {
			topic := kmsg.NewAddPartitionsToTxnResponseTopic()
			topic.Topic = t.Topic
			for _, partition := range t.Partitions {
				part := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				part.Partition, part.ErrorCode = partition, kerr.OperationNotAttempted.Code
				if t.Topic == f.Topic && (f.Partitions == nil || slices.Contains(f.Partitions, partition)) {
					part.ErrorCode, refused = f.Err.Code, true
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, refused
	})
}
