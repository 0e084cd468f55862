package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// TestUndecided: one topic of two needs a decision of the operator. Its partition is quarantined, with the decision in one
// line of the log, and the other topic goes on, in a worker that runs and in one that starts.
func TestUndecided(t *testing.T) {
	for _, tc := range []struct {
		name    string
		running bool // what happens does so while a worker runs
		happens func(b *bench, p *Processor, other string)
		at      int32 // partition that waits
		decide  string
	}{
		{"made again", true, func(b *bench, p *Processor, other string) {
			must(b.t, b.c.Admin().DeleteTopic(b.t.Context(), other))
			waitFor(b.t, "the partition is dropped", func() bool { return len(p.Status()) == 1 })
			must(b.t, b.c.Admin().CreateTopic(b.t.Context(), other, 1, 1, nil))
		}, 0, "worker state reset"},
		{"retention", false, func(b *bench, _ *Processor, other string) {
			must(b.t, b.c.Admin().DeleteRecords(b.t.Context(), other, 0, 320))
		}, 0, "offset_lost"},
		{"grown", true, func(b *bench, _ *Processor, other string) {
			must(b.t, b.c.Admin().AddPartitions(b.t.Context(), other, 2))
		}, 1, "state_lost"},
		{"grown at the start", false, func(b *bench, _ *Processor, other string) {
			must(b.t, b.c.Admin().AddPartitions(b.t.Context(), other, 2))
		}, 1, "state_lost"},
		{"narrower", false, func(b *bench, _ *Processor, other string) {
			must(b.t, b.client.Admin.CreatePartitions(b.t.Context(), "g-"+other+"-changelog", 2))
		}, 0, "worker state reset"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 1)
			other := b.c.Topic(t, "other", 1)
			configs := map[string]string{"cleanup.policy": "compact"}
			if err := b.client.Admin.CreateTopic(t.Context(), "g-"+other+"-changelog", 1, 1, configs); err != nil {
				t.Fatal(err)
			}
			in := func(topic string, n int) {
				recs := b.readings(0, n)
				for i := range recs {
					recs[i].Topic = topic
				}
				_, err := b.c.ProduceAcked(t.Context(), recs)
				must(t, err)
			}
			config := func() Config {
				cfg := b.config("one")
				cfg.Topics = []string{b.input, other}
				cfg.ReplayLimit = time.Nanosecond
				cfg.Hooks.MetadataInterval = 200 * time.Millisecond
				cfg.FindTopics = func(ctx context.Context) ([]string, error) {
					infos, err := b.client.Admin.Topics(ctx)
					found := []string{b.input, other}
					return slices.DeleteFunc(found, func(name string) bool { return !infos[name].Exists }), err
				}
				return cfg
			}
			in(b.input, 300)
			in(other, 300)
			cfg := config()
			log := cfg.capture()
			var p *Processor
			var stop func(error)
			if tc.running {
				p, stop = b.start(cfg)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for state := int64(0); state < 10; { // until its changelog has some of it
					in(other, 20)
					for _, topic := range cfg.Topics {
						must(t, b.c.Admin().WaitCommitted(ctx, "g", topic))
					}
					ends, err := b.c.Admin().Ends(ctx, "g-"+other+"-changelog", kafka.Latest)
					must(t, err)
					state = ends[0]
				}
				tc.happens(b, p, other)
			} else {
				b.run(cfg)
				in(other, 100)
				tc.happens(b, p, other)
				p, stop = b.start(cfg)
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(strings.Join(log.with(), "\n"))
				}
			})
			waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) > 0 })
			in(b.input, 100)
			waitFor(t, "the other topic goes on", func() bool {
				return slices.ContainsFunc(p.Status(), func(s metrics.PartitionStatus) bool { return s.Topic == b.input && s.Committed == 400 })
			})
			if q := quarantined(p); len(q) != 1 || q[0].TP() != (kafka.TP{Topic: other, Partition: tc.at}) ||
				q[0].Quarantine.Reason != Undecided {
				t.Errorf("in quarantine: %+v; want %s/%d, undecided", q, other, tc.at)
			}
			if lines := log.with("level=ERROR"); len(lines) != 1 || !strings.Contains(lines[0], tc.decide) {
				t.Errorf("lines of level ERROR: %q", lines)
			}
			stop(nil)
		})
	}
}

// TestAllUndecided: retention has deleted the committed offsets of all partitions. The worker ends, and its error names each
// partition with its offset, and the ways out.
func TestAllUndecided(t *testing.T) {
	b := newBench(t, 3)
	b.produce(300)
	b.run(b.config("one"))
	b.produce(300)
	ends, err := b.c.Admin().Ends(t.Context(), b.input, kafka.Latest)
	must(t, err)
	for p, end := range ends {
		must(t, b.c.Admin().DeleteRecords(t.Context(), b.input, p, end-1))
	}
	cfg := b.config("one")
	log := cfg.capture()
	_, ended, _ := b.startWith(cfg)
	select {
	case err = <-ended:
	case <-time.After(patience):
		t.Fatal("the worker does not end")
	}
	var all RefusedErrors
	var one *RefusedError
	if !errors.As(err, &all) || !errors.As(err, &one) || len(all) != 3 {
		t.Fatalf("Run: %v; want the refusals of three partitions", err)
	}
	for p, end := range ends {
		if r := all[p]; r.TP.Partition != p || !strings.Contains(err.Error(), fmt.Sprintf("%s/%d: ", b.input, p)) ||
			!strings.Contains(r.Reason, fmt.Sprint(end-1)) || !strings.Contains(r.Decide, "offset_lost") {
			t.Errorf("of partition %d: %v; it begins at %d", p, r, end-1)
		}
	}
	if lines := log.with("level=ERROR", "partition quarantined", "offset_lost"); len(lines) != 3 {
		t.Errorf("lines of quarantines: %q", lines)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
