package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
)

// A trace of each cycle is handed out, of one whose commit is refused, too, with times in their order, all records, and the
// traceparents of some.
func TestTraces(t *testing.T) {
	b := newBench(t, 3)
	const n = 3000
	recs, sent := b.readings(-1, n), map[string]bool{}
	for i := range recs {
		tp := fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)
		recs[i].Headers = []kafkatest.Header{{Key: "traceparent", Value: []byte(tp)}}
		sent[tp] = true
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		t.Fatal(err)
	}
	refused := 0
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		r := req.(*kmsg.EndTxnRequest)
		if refused > 0 || !r.Commit {
			return nil, nil, false
		}
		refused++
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.InvalidTxnState.Code
		return resp, nil, true
	})
	var traces []cycle.Trace
	cfg := b.config("one")
	cfg.Traced = func(c *cycle.Trace) { traces = append(traces, *c) }
	b.run(cfg)
	records, scores, failed, seen := 0, 0, 0, map[string]bool{}
	for _, c := range traces {
		if c.Fetched.IsZero() || c.Began.Before(c.Fetched) || c.Ended.Before(c.Began) || c.Partitions < 1 || c.Partitions > 3 {
			t.Errorf("%+v", c)
		}
		if len(c.Traceparents) > cycle.MaxTraceparents {
			t.Errorf("%d traceparents", len(c.Traceparents))
		}
		if c.Err != nil {
			failed++
			continue
		}
		records += c.Records
		scores += c.Outputs["scores"]
		for _, tp := range c.Traceparents {
			if !sent[tp] || seen[tp] {
				t.Errorf("traceparent %q is not of the input, or of two cycles that are committed", tp)
			}
			seen[strings.Clone(tp)] = true
		}
	}
	if records != n || scores != len(b.ledger()) || failed != 1 || len(seen) == 0 {
		t.Errorf("%d cycles of %d records, want %d, and %d scores; %d failed, want %d; %d traceparents", len(traces), records, n, scores,
			failed, refused, len(seen))
	}
}
