package processor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/schemas/output"
)

// TestGrownTopic: a topic gets partitions while anomalies are open. Series that stay in
// their partition have their state; those that move warm up again in the new one, and
// their anomalies in the old one close because they have moved.
func TestGrownTopic(t *testing.T) {
	for _, running := range []bool{false, true} {
		b := newBench(t, 2)
		if err := b.client.Admin.CreateTopic(t.Context(), "anomalies", 1, 1, nil); err != nil {
			t.Fatal(err)
		}
		config := func() Config {
			cfg := b.config("")
			cfg.StateLost, cfg.Outputs[cycle.Anomalies], cfg.SchemaIDs[cycle.Anomalies] = Reset, "anomalies", -1
			cfg.Mappings.State.TTL = 600e6
			params := threshold.New(threshold.Fixed, 1e-6)
			params.Warmup = 0
			cfg.Mappings.State.Detectors[0].Threshold = &params
			cfg.Mappings.State.Detectors[0].Events = &anomaly.Policy{OpenAfter: 1, CloseAfter: 1 << 20, Release: 1}
			return cfg
		}
		b.produce(900)
		var p *Processor
		stop := func() error { return nil }
		if running {
			p, _, stop = b.startWith(config())
			b.ready(p, 2)
		} else {
			b.run(config())
		}
		wctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := b.c.Admin().WaitCommitted(wctx, "g", b.input); err != nil {
			t.Fatal(err)
		}
		home, ends := map[string]int32{}, map[int32]int64{}
		for id, s := range b.ledger() {
			home[string(s.Key)] = s.Partition
			ends[s.Partition] = max(ends[s.Partition], id[1]+1)
		}
		if err := b.c.Admin().AddPartitions(t.Context(), b.input, 3); err != nil {
			t.Fatal(err)
		}
		if !running { // the refusals, and what two workers do at once
			cfg := config()
			cfg.StateLost = FailOnLoss
			var refused *RefusedError
			if _, err := New(t.Context(), cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), "state_lost=reset") {
				t.Errorf("with the policy fail: %v", err)
			}
			cfg = config()
			cfg.Mappings.State.TTL = 0
			if _, err := New(t.Context(), cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), "a TTL") {
				t.Errorf("without a TTL: %v", err)
			}
			for range 2 {
				if err := b.client.Admin.CreatePartitions(t.Context(), b.changelog(), 3); err != nil {
					t.Fatal(err)
				}
			}
			p, _, stop = b.startWith(config())
			b.ready(p, 3)
		} else { // a second worker joins, with the first one in the middle of its work
			second, _, stopSecond := b.startWith(config())
			for len(p.Status()) != 1 && len(second.Status()) != 1 || len(p.Status())+len(second.Status()) != 3 || !p.Ready() || !second.Ready() {
				if time.Sleep(5 * time.Millisecond); wctx.Err() != nil {
					t.Fatal("the partitions are not assigned")
				}
			}
			first := stop
			stop = func() error { return errors.Join(stopSecond(), first()) }
		}
		for _, n := range []int{60, 1140} { // with the first commit all members know
			b.produce(n)
			if err := b.c.Admin().WaitCommitted(wctx, "g", b.input); err != nil {
				t.Fatal(err)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		stayed, moved := 0, map[string]bool{}
		for id, s := range b.ledger() {
			if id[1] < ends[s.Partition] {
				continue
			}
			if home[string(s.Key)] != s.Partition {
				moved[string(s.Key)] = true
			} else if stayed++; s.State == output.WarmingUp {
				t.Errorf("%s at %v warms up again", s.Key, id)
			}
		}
		closed := map[string]bool{}
		recs, err := b.c.Admin().ReadAll(t.Context(), "anomalies", true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range recs {
			a, err := output.DecodeAnomaly(recs[i].Value)
			if err != nil {
				t.Fatal(err)
			}
			if output.AnomalyKinds[a.Kind] != "close" {
				continue
			}
			if reason := output.CloseReasons[a.Reason]; reason != "moved" || a.Partition != home[string(a.Key)] || !moved[string(a.Key)] {
				t.Errorf("%s in partition %d closes as %s", a.Key, a.Partition, reason)
			}
			closed[string(a.Key)] = true
		}
		if stayed == 0 || len(moved) == 0 || len(closed) != len(moved) {
			t.Errorf("%d scores of keys that stayed; %d keys moved, the anomalies of %d closed", stayed, len(moved), len(closed))
		}
		cfg := config()
		cfg.StateLost = FailOnLoss // the changelog fits
		b.run(cfg)
	}
}

// TestGrownRefusals: the refusal of a grown topic has the topic's number of partitions for each new one, and advises nothing
// that is refused then.
func TestGrownRefusals(t *testing.T) {
	b := newBench(t, 2)
	b.produce(50)
	b.run(b.config("one"))
	p, err := New(t.Context(), b.config("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.c.Admin().AddPartitions(t.Context(), b.input, 6); err != nil {
		t.Fatal(err)
	}
	for n := range int32(6) {
		err := p.commits.changelogs.unfit(t.Context(), kafka.TP{Topic: b.input, Partition: n})
		if n < 2 && err != nil || n >= 2 && (err == nil || !strings.Contains(err.Error(), "it has 6 partitions and its changelog")) {
			t.Errorf("partition %d: %v", n, err)
		}
	}
	for _, ttl := range []int64{0, 600e6} {
		for _, lost := range []OnLoss{FailOnLoss, Reset} {
			cfg := b.config("one")
			cfg.Mappings.State.TTL, cfg.StateLost = ttl, lost
			err := MisfitOf(&cfg, b.input, 6, b.changelog(), 2)
			if err == nil {
				continue
			}
			if strings.Contains(err.Error(), "state_lost=reset") {
				cfg.StateLost = Reset
			}
			if strings.Contains(err.Error(), "to decide: a TTL") {
				cfg.Mappings.State.TTL = 600e6
			}
			if again := MisfitOf(&cfg, b.input, 6, b.changelog(), 2); again != nil {
				t.Errorf("TTL %d, policy %d: %v; after what it advises: %v", ttl, lost, err, again)
			}
		}
	}
}
