package processor

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
)

// TestToy holds that the toy's records are in the same transactions as the scores: their
// sum is the number of scores, also where commits fail. A metric counts them.
func TestToy(t *testing.T) {
	b := newBench(t, 2)
	ctx := context.Background()
	if err := b.client.Admin.CreateTopic(ctx, "toy", 3, 1, nil); err != nil {
		t.Fatal(err)
	}
	b.produce(5000)
	n := 0
	b.c.Fake.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		if n++; n%3 != 1 || n > 9 {
			return nil, nil, false
		}
		r := req.(*kmsg.TxnOffsetCommitRequest)
		resp := r.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, rt := range r.Topics {
			topic := kmsg.NewTxnOffsetCommitResponseTopic()
			topic.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.TransactionAbortable.Code
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	cfg := b.config("one")
	cfg.CommitInterval = 5 * time.Millisecond
	cfg.Outputs[cycle.Toy] = "toy"
	b.run(cfg)
	recs, err := b.c.Admin().ReadAll(ctx, "toy", true)
	if err != nil {
		t.Fatal(err)
	}
	scores := 0
	for i := range recs {
		k, err := strconv.Atoi(string(recs[i].Value))
		if err != nil {
			t.Fatal(err)
		}
		scores += k
	}
	if want := len(b.ledger()); scores != want || want == 0 {
		t.Errorf("the toy counts %d scores of %d", scores, want)
	}
	families, err := cfg.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "odradek_output_records_total" && m.GetLabel()[0].GetValue() == "toy" {
				if got := m.GetCounter().GetValue(); int(got) != len(recs) {
					t.Errorf("the metric has %v records of %d", got, len(recs))
				}
				return
			}
		}
	}
	t.Error("no metric counts the toy's records")
}
