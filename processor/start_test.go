package processor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// startWith runs a processor until stop, which returns what Run does.
func (b *bench) startWith(cfg Config) (p *Processor, ended <-chan error, stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	p, err := New(ctx, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- p.Run(ctx) }()
	return p, end, func() error { cancel(); return <-end }
}

// ready waits until p has been assigned partitions and is ready.
func (b *bench) ready(p *Processor, partitions int) {
	b.t.Helper()
	for began := time.Now(); len(p.Status()) < partitions || !p.Ready(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			b.t.Fatalf("not ready: %+v", p.Status())
		}
	}
}

// refused runs a processor that has to be refused and checks the words of it.
func (b *bench) refused(cfg Config, words ...string) {
	b.t.Helper()
	_, ended, stop := b.startWith(cfg)
	select {
	case err := <-ended:
		var refused *RefusedError
		if !errors.As(err, &refused) {
			b.t.Fatalf("Run ended with %v, not with a refusal", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				b.t.Errorf("the refusal does not say %q: %v", w, err)
			}
		}
	case <-time.After(5 * time.Second):
		b.t.Errorf("the processor goes on: %v", stop())
	}
}

// warming counts the scores from an offset on that have too little history, of series that had a full window before it.
func (b *bench) warming(from int64) (n int) {
	ledger, before := b.ledger(), map[string]int{}
	for _, s := range ledger {
		if s.Offset < from {
			before[string(s.Key)]++
		}
	}
	for _, s := range ledger {
		if s.Offset >= from && s.State == output.WarmingUp && before[string(s.Key)] >= 8 {
			n++
		}
	}
	return n
}

func (b *bench) changelog() string { return "g-" + b.input + "-changelog" }

// TestForeignFormat: a record in a format of another version is refused, and no longer once it is deleted, though the log has
// it until compaction.
func TestForeignFormat(t *testing.T) {
	for _, c := range []struct {
		value []byte
		want  string
	}{{[]byte{1, 2, 3}, "older version"}, {[]byte{255, 2, 3}, "newer version"}} {
		t.Run(c.want, func(t *testing.T) {
			b := newBench(t, 1)
			b.produce(500)
			b.run(b.config("one"))
			put := func(value []byte) {
				rec := kafkatest.Record{Topic: b.changelog(), Key: []byte("Hof another"), Value: value}
				if _, err := b.c.ProduceAcked(t.Context(), []kafkatest.Record{rec}); err != nil {
					t.Fatal(err)
				}
			}
			put(c.value)
			b.refused(b.config("one"), c.want, "worker state reset")
			put(nil)
			b.produce(500)
			b.run(b.config("one"))
			if at := b.committedAt(); at != 1000 {
				t.Errorf("committed offset %d of 1000", at)
			}
			if n := b.warming(500); n > 0 {
				t.Errorf("%d scores began with empty windows", n)
			}
		})
	}
}

func TestChangelogLost(t *testing.T) {
	lose := map[string]func(*bench) error{
		"made again": func(b *bench) error {
			if err := b.c.Admin().DeleteTopic(b.t.Context(), b.changelog()); err != nil {
				return err
			}
			return b.client.Admin.CreateTopic(b.t.Context(), b.changelog(), 1, 1, map[string]string{"cleanup.policy": "compact"})
		},
		"its first records": func(b *bench) error {
			return b.c.Admin().DeleteRecords(b.t.Context(), b.changelog(), 0, 2) // behind the first transaction's marker
		},
	}
	for name, lose := range lose {
		for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(name+map[Guarantee]string{ExactlyOnce: " exactly once", AtLeastOnce: " at least once"}[g], func(t *testing.T) {
				b := newBench(t, 1)
				b.produce(1000)
				cfg := func(lost OnLoss) Config {
					cfg := b.config("one")
					cfg.Guarantee, cfg.StateLost = g, lost
					return cfg
				}
				b.run(cfg(FailOnLoss))
				if err := lose(b); err != nil {
					t.Fatal(err)
				}
				b.produce(60)
				b.refused(cfg(FailOnLoss), b.changelog(), "made again", "state reset", "state_lost=reset")
				b.run(cfg(Reset))
				if n := b.warming(1000); n == 0 {
					t.Error("nothing warms up again after state_lost=reset")
				}
				b.produce(1000)
				b.run(cfg(FailOnLoss)) // the offset is of the new changelog
				b.produce(100)
				b.run(cfg(FailOnLoss))
				if n := b.warming(2060); n > 0 {
					t.Errorf("%d of the last records warm up after a plain restart", n)
				}
			})
		}
	}
}

// TestStartCommitted: a partition without a committed offset is ready once its
// start is committed, so that what arrives while it moves is not skipped.
func TestStartCommitted(t *testing.T) {
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		rekey     bool
	}{{"exactly once", ExactlyOnce, false}, {"at least once", AtLeastOnce, false}, {"rekeyed", ExactlyOnce, true}} {
		t.Run(c.name, func(t *testing.T) {
			const partitions = 8
			b := newBench(t, partitions)
			b.produce(50) // before START=latest
			b.makeKeyed(2, nil)
			cfg := func() Config {
				cfg := b.config("")
				cfg.Start, cfg.Guarantee = StartLatest, c.guarantee
				cfg.CommitInterval = 50 * time.Millisecond
				if c.rekey {
					cfg, _ = keyed(cfg)
				}
				return cfg
			}
			var commits atomic.Int32
			for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.OffsetCommit} {
				b.c.Fake.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
					b.c.Fake.KeepControl()
					commits.Add(1)
					return nil, nil, false
				})
			}
			p, _, stop := b.startWith(cfg())
			b.ready(p, partitions)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if n := commits.Load(); n > partitions/2 {
				t.Errorf("%d commits of the starts of %d partitions", n, partitions)
			}
			b.produce(200) // while nobody has the partitions
			p, _, stop = b.startWith(cfg())
			b.ready(p, partitions)
			b.produce(50)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := b.c.Admin().WaitCommitted(ctx, cfg().Group, b.input); err != nil {
				t.Fatal(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if c.rekey {
				recs, err := b.c.Admin().ReadAll(ctx, "rekey", true)
				if err != nil || len(recs) != 250 {
					t.Errorf("%d records were copied, want the 250 after the start (%v)", len(recs), err)
				}
				return
			}
			first := map[int32]int64{} // the number of each partition's first scored record
			for id := range b.ledger() {
				part := int32(id[0])
				if at, ok := first[part]; !ok || id[1] < at {
					first[part] = id[1]
				}
			}
			if n := len(b.ledger()); n < 250-30*2 || n > 250 {
				t.Errorf("%d scores of the 250 records after the start; first offsets %v", n, slices.Collect(maps.Values(first)))
			}
		})
	}
}

// TestStartRefusedCommits: starts whose commit fails, before or after it is done,
// are committed again, and what a killed member leaves of one can be restored.
func TestStartRefusedCommits(t *testing.T) {
	b := newBench(t, 3)
	failures := 0
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		if r := req.(*kmsg.EndTxnRequest); !r.Commit || failures >= 4 {
			return nil, nil, false
		}
		if failures++; failures%2 == 0 {
			return nil, errors.New("cut"), true
		}
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.OperationNotAttempted.Code
		return resp, nil, true
	})
	p, _, stop := b.startWith(b.config("one"))
	b.ready(p, 3)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if failures < 4 {
		t.Errorf("%d commits failed", failures)
	}
	b.produce(600)
	b.run(b.config("one"))
	if got := len(b.ledger()); got < 600-30*3 {
		t.Errorf("%d scores of 600 records", got)
	}

	// At least once: the owner record is there and the offset is not.
	b = newBench(t, 1)
	cfg := b.config("one")
	cfg.Guarantee = AtLeastOnce
	b.c.Fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.GroupAuthorizationFailed.Code // final
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	_, ended, stop := b.startWith(cfg)
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("the processor ended without an error")
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("no offset is committed: %v", stop())
	}
	recs, err := b.c.Admin().ReadAll(t.Context(), b.changelog(), true)
	if err != nil || len(recs) != 1 || string(recs[0].Key) != OwnerKey {
		t.Fatalf("the changelog has %d records, want the owner record (%v)", len(recs), err)
	}
	b.produce(300)
	b.run(cfg)
	b.run(cfg)
	if recs, err = b.c.Admin().ReadAll(t.Context(), b.changelog(), true); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(recs, func(r kafkatest.Record) bool { return string(r.Key) != OwnerKey })); n != 1 {
		t.Errorf("%d owner records were written", n)
	}
}

// TestForeignChangelog: the changelog of another group, or of another topic, is
// neither read nor written, regardless of the policy for lost state.
func TestForeignChangelog(t *testing.T) {
	b := newBench(t, 1)
	b.produce(600)
	b.run(b.config(""))
	log, own := b.changelog(), b.input
	before, err := b.c.Admin().ReadAll(t.Context(), log, true)
	if err != nil {
		t.Fatal(err)
	}
	other := func(group string) Config {
		cfg := b.config("")
		cfg.Group, cfg.StateLost, cfg.OffsetLost = group, Reset, Earliest
		cfg.Changelog = func(string) string { return log }
		return cfg
	}
	b.refused(other("h"), `group "g"`, `group "h"`, log, "changelog_prefix")
	b.input = b.c.Topic(t, "other", 1)
	b.produce(100)
	b.refused(other("g"), own, b.input, "changelog_prefix")
	after, err := b.c.Admin().ReadAll(t.Context(), log, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("%d records in the changelog, %d before the others came", len(after), len(before))
	}
}

// TestSettingsOutgrowTopic: a changelog whose batches are too small for the
// settings record does without it.
func TestSettingsOutgrowTopic(t *testing.T) {
	b := newBench(t, 1)
	if err := b.c.Admin().SetTopicConfig(t.Context(), b.changelog(), map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	b.produce(300)
	cfg := b.config("")
	cfg.Mappings.Settings = []StateSettings{{Detector: "level", Window: 1, Params: 2,
		Fields: []StoredSetting{{Name: "KEY", Value: strings.Repeat("k", 3000)}}}}
	b.run(cfg)
	b.run(cfg)
}

func TestTransactionalIDs(t *testing.T) {
	seen := map[string]string{}
	for _, c := range [][2]string{{"plant", "eu-1"}, {"plant-eu", "1"}, {"plant-eu-1", "1"}, {"plant", "eu-1-1"}, {"plant", ""},
		{"plant-eu", ""}, {"plant-eu", ""}} {
		id := TransactionalID(c[0], c[1])
		if other := seen[id]; other != "" || !strings.HasPrefix(id, c[0]+"-") {
			t.Errorf("%q has the transactional id %q, as %s", c, id, other)
		}
		seen[id] = strings.Join(c[:], " and ")
	}
	if id := TransactionalID("plant", "eu-1"); id != TransactionalID("plant", "eu-1") {
		t.Errorf("%q is not stable", id)
	}
}
