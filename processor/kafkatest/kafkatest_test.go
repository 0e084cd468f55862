package kafkatest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sr"

	"odradek/detectors/seedtest"
)

func TestMain(m *testing.M) { Main(m) }

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// each runs a test on every kind of cluster, beside each other.
func each(t *testing.T, f func(t *testing.T, c *Cluster)) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			fakeOnly(t, kind)
			t.Parallel()
			f(t, Open(t, kind))
		})
	}
}

// fakeOnly leaves real Kafka to a long run: the packages whose tests need it start, secure and kill it in the same way, and compare
// the records.
func fakeOnly(t *testing.T, kind string) {
	t.Helper()
	if kind != KindFake {
		LongOnly(t)
	}
}

// records makes n records with fresh keys, values and headers.
func records(t *testing.T, topic string, n int) []Record {
	rnd := seedtest.New(t)
	out := make([]Record, n)
	for i := range out {
		out[i] = Record{Topic: topic, Partition: -1, Time: 1_700_000_000_000 + int64(i),
			Key: fmt.Appendf(nil, "key-%d", rnd.IntN(100)), Value: fmt.Appendf(nil, "%d:%x", i, rnd.Uint64())}
		if rnd.IntN(4) == 0 {
			out[i].Headers = []Header{{"h", []byte{byte(i)}}, {"h", nil}}
		}
		if rnd.IntN(10) == 0 {
			out[i].Value = nil
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		missing := slices.DeleteFunc(slices.Clone(want), func(w Record) bool {
			return slices.ContainsFunc(got, func(g Record) bool { return g.TP() == w.TP() && g.Offset == w.Offset })
		})
		t.Fatalf("%s: %d records, want %d; missing %+v", what, len(got), len(want), missing[:min(3, len(missing))])
	}
	for i := range got {
		if got[i].TP() != want[i].TP() || got[i].Offset != want[i].Offset || got[i].Time != want[i].Time || !got[i].Equal(&want[i]) {
			t.Fatalf("%s: record %d: got %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

func TestProduceAndReadBack(t *testing.T) {
	each(t, func(t *testing.T, c *Cluster) {
		ctx := limit(t)
		topic := c.Topic(t, "plain", 4)
		acked, err := c.ProduceAcked(ctx, records(t, topic, 5000))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadAll(ctx, c.Brokers, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "read back", got, acked)
		parts := map[int32]bool{}
		for _, r := range got {
			parts[r.Partition] = true
		}
		if len(parts) != 4 {
			t.Errorf("100 keys went to %d of 4 partitions", len(parts))
		}
	})
}

// TestProduceBatch reads batches back; a fetch that asks for a byte brings one batch.
func TestProduceBatch(t *testing.T) {
	each(t, func(t *testing.T, c *Cluster) {
		ctx := limit(t)
		topic := c.Topic(t, "batches", 2)
		all := records(t, topic, 70)
		for i := range all {
			all[i].Partition, all[i].Offset = 1, int64(i)
		}
		all[3].Time -= 1000
		for _, batch := range [][]Record{all[:1], all[1:31], all[31:]} {
			if err := c.Admin().ProduceBatch(ctx, topic, 1, batch); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ReadAll(ctx, c.Brokers, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "read back", got, all)
		cl, err := kgo.NewClient(append(c.Security.adminOpts(c), kgo.SeedBrokers(c.Brokers...),
			kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {1: kgo.NewOffset().At(1)}}))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if fetches := cl.PollFetches(ctx); fetches.Err() != nil || fetches.NumRecords() != 30 {
			t.Errorf("one batch has %d records, want 30 (%v)", fetches.NumRecords(), fetches.Err())
		}
	})
}

// TestTransactions leaves a committed, an aborted and an open transaction, in
// several orders, and compares what the two ways of reading see with the ledger.
func TestTransactions(t *testing.T) {
	each(t, func(t *testing.T, c *Cluster) {
		ctx := limit(t)
		topic := c.Topic(t, "txn", 2)
		var txns [][]Record
		for range 6 {
			txns = append(txns, records(t, topic, 50))
		}
		led, err := ProduceTransactions(ctx, c.Brokers, Unique("txid"), txns, func(i int) bool { return i%3 != 0 })
		if err != nil {
			t.Fatal(err)
		}
		if len(led.Acked()) != 100 || len(led.Aborted()) != 200 {
			t.Fatalf("%d committed, %d aborted", len(led.Acked()), len(led.Aborted()))
		}
		if err := c.Admin().WaitStable(ctx, topic); err != nil {
			t.Fatal(err)
		}
		got, err := c.Admin().ReadAll(ctx, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "committed", got, led.Acked())
		got, err = c.Admin().ReadAll(ctx, topic, false)
		if err != nil {
			t.Fatal(err)
		}
		all := append(led.Acked(), led.Aborted()...)
		sortRecords(all)
		same(t, "uncommitted", got, all)

		id := Unique("open")
		p, err := NewTxnProducer(c.Brokers, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(ctx, records(t, topic, 10)...); err != nil {
			t.Fatal(err)
		}
		p.Close() // left open
		got, err = c.Admin().ReadAll(ctx, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "committed, another open", got, led.Acked())
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if err := c.Admin().WaitStable(short, topic); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an open transaction was not seen: %v", err)
		}
		cancel()
		next, err := ProduceTransactions(ctx, c.Brokers, id, [][]Record{records(t, topic, 1)}, nil)
		if err != nil {
			t.Fatal(err) // the same id: the open one is aborted
		}
		if err := c.Admin().WaitStable(ctx, topic); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Admin().ReadAll(ctx, topic, true); err != nil || len(got) != 101 {
			t.Errorf("%d records, want 101: %v", len(got), err)
		}
		all = append(led.Acked(), next.Acked()...)
		sortRecords(all)
		same(t, "committed, and one after the open one", got, all)
	})
}

// TestSecurity reaches each secured listener in each way, and is refused with
// the wrong password, without a certificate, and with one of an unknown authority.
func TestSecurity(t *testing.T) {
	try := func(t *testing.T, topic string, opts ...kgo.Opt) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		p, err := NewProducer(nil, append(opts, kgo.RecordRetries(1), kgo.RetryTimeout(time.Second), kgo.RecordDeliveryTimeout(5*time.Second))...)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.Produce(ctx, Record{Topic: topic, Value: []byte("secret")})
		if err := p.Flush(ctx); err != nil {
			return err
		}
		if n := len(p.Ledger().Acked()); n != 1 {
			return errors.New("not acknowledged")
		}
		return nil
	}
	check := func(t *testing.T, c *Cluster) {
		topic := c.Topic(t, "secure", 1)
		s, n := c.Security, 0
		if len(s.SASLBrokers) > 0 {
			for _, m := range Mechanisms {
				if err := try(t, topic, s.Opts(m)...); err != nil {
					t.Errorf("%s: %v", m, err)
				}
				n++
				u := s.User(m)
				u.Password += "x"
				if err := try(t, topic, kgo.SeedBrokers(s.SASLBrokers...), kgo.DialTLSConfig(s.ClientTLS()), SASL(u)); err == nil {
					t.Errorf("%s: a wrong password was let in", m)
				}
			}
			// SASL with a client certificate on top.
			if err := try(t, topic, kgo.SeedBrokers(s.SASLBrokers...), kgo.DialTLSConfig(s.MutualTLS()), SASL(s.User(ScramSHA512))); err != nil {
				t.Errorf("SASL and a certificate: %v", err)
			}
			n++
		}
		if len(s.TLSBrokers) > 0 {
			if err := try(t, topic, s.Opts("")...); err != nil {
				t.Errorf("mutual TLS: %v", err)
			}
			n++
			unknown, err := NewAuthority("unknown")
			if err != nil {
				t.Fatal(err)
			}
			cert, key, err := unknown.Issue("client", time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			conf := s.ClientTLS()
			// In Certificates it would not be sent: the server names whom it trusts.
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			if err := try(t, topic, kgo.SeedBrokers(s.TLSBrokers...), kgo.DialTLSConfig(conf)); err == nil {
				t.Error("a certificate of an unknown authority was let in")
			}
			if err := try(t, topic, kgo.SeedBrokers(s.TLSBrokers...), kgo.DialTLSConfig(s.ClientTLS())); err == nil {
				if c.Real() {
					t.Error("no certificate was let in")
				}
				n++ // kfake takes a client without a certificate
			}
		}
		got, err := c.Admin().ReadAll(limit(t), topic, true)
		if err != nil || len(got) != n {
			t.Errorf("%d records, want %d: %v", len(got), n, err)
		}
	}
	t.Run("kfake-sasl", func(t *testing.T) { check(t, Fake(t, FakeOptions{SASL: true})) })
	t.Run("kfake-tls", func(t *testing.T) { check(t, Fake(t, FakeOptions{TLS: true})) })
	for _, v := range Versions {
		t.Run("kafka-"+v, func(t *testing.T) {
			fakeOnly(t, kindOf(v))
			c := Kafka(t, v)
			if c.Security == nil {
				t.Skip("the cluster in use has no secured listeners")
			}
			check(t, c)
		})
	}
}

// TestRules denies a user a topic on real Kafka and allows it again.
func TestRules(t *testing.T) {
	for _, v := range Versions {
		t.Run("kafka-"+v, func(t *testing.T) {
			fakeOnly(t, kindOf(v))
			c := Kafka(t, v)
			if c.Security == nil {
				t.Skip("the cluster in use has no secured listeners")
			}
			ctx := limit(t)
			topic, u, a := c.Topic(t, "ruled", 1), c.Security.User(Plain), c.Admin()
			write := func() error {
				p, err := NewProducer(nil, append(c.Security.Opts(Plain), kgo.DisableIdempotentWrite())...)
				if err != nil {
					return err
				}
				defer p.Close()
				r := p.cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("x")})
				return r.FirstErr()
			}
			until := func(what string, want error) {
				t.Helper()
				err := poll(ctx, 20*time.Millisecond, nil, func(context.Context) error {
					if got := write(); !errors.Is(got, want) {
						return fmt.Errorf("write: %w", got)
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			until("no ACL", nil)
			if err := a.AddACL(ctx, u.Name, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationWrite, false); err != nil {
				t.Fatal(err)
			}
			until("denied", kerr.TopicAuthorizationFailed)
			if err := a.DropACLs(ctx, kmsg.ACLResourceTypeTopic, topic); err != nil {
				t.Fatal(err)
			}
			until("no ACL again", nil)
		})
	}
}

// TestAttach uses a running cluster as another process would.
func TestAttach(t *testing.T) {
	c := Kafka(t, Versions[0])
	name, err := c.Describe()
	if err != nil {
		t.Fatal(err)
	}
	ctx := limit(t)
	for _, where := range []string{name, strings.Join(c.Brokers, ",")} {
		o, err := Attach(ctx, Versions[0], where)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		nodes, err := o.Admin().Nodes(ctx)
		if err != nil || len(nodes) != len(c.Brokers) || len(o.Nodes()) != 0 {
			t.Errorf("%v: %v", nodes, err)
		}
	}
	if _, err := Attach(ctx, Versions[1], name); err == nil {
		t.Error("a cluster of another version was taken")
	}
}

// TestRegistryRoundTrip registers and fetches a schema, across an outage.
func TestRegistryRoundTrip(t *testing.T) {
	check := func(t *testing.T, r *RegistryServer) {
		ctx := limit(t)
		cl, err := sr.NewClient(sr.URLs(r.URL))
		if err != nil {
			t.Fatal(err)
		}
		subject := Unique("subject") + "-value"
		text := `{"type":"record","name":"R","fields":[{"name":"v","type":"double"}]}`
		ss, err := cl.CreateSchema(ctx, subject, sr.Schema{Schema: text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := cl.SchemaByID(ctx, ss.ID)
		if err != nil {
			t.Fatal(err)
		}
		if strip(got.Schema) != strip(text) {
			t.Errorf("schema %d: %s", ss.ID, got.Schema)
		}
		t.Logf("%s: id %d, first ready in %v", r.URL, ss.ID, r.Took)
		if r.Fake == nil && r.Dir == "" {
			return // of another process
		}
		r.Stop()
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		if _, err := cl.SchemaByID(short, ss.ID); err == nil {
			t.Error("a stopped registry answered")
		}
		cancel()
		if err := r.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err = cl.SchemaByID(ctx, ss.ID); err != nil || strip(got.Schema) != strip(text) {
			t.Errorf("after a restart: %v: %v", got, err)
		}
	}
	t.Run("srfake", func(t *testing.T) { check(t, Fake(t, FakeOptions{}).RegistryServer) })
	t.Run("apicurio", func(t *testing.T) {
		LongOnly(t) // the worker's TestRegistryOutage stops it
		check(t, Registry(t))
	})
}

func strip(s string) string { return strings.Join(strings.Fields(s), "") }

// TestGroups follows a franz-go consumer's group from stable to empty.
func TestGroups(t *testing.T) {
	each(t, func(t *testing.T, c *Cluster) {
		ctx := limit(t)
		topic, group := c.Topic(t, "groups", 4), Unique("group")
		if _, err := c.ProduceAcked(ctx, records(t, topic, 200)); err != nil {
			t.Fatal(err)
		}
		a := c.Admin()
		if off, err := a.Offsets(ctx, group, true); err != nil || len(off) != 0 {
			t.Fatalf("offsets of an unknown group: %v: %v", off, err)
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.InstanceID("one"), kgo.DisableAutoCommit())
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		n := 0
		for n < 200 {
			fs := cl.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			n += fs.NumRecords()
		}
		g, err := a.WaitGroup(ctx, group, 1, topic)
		if err != nil || g.Members[0].InstanceID != "one" || len(g.Members[0].Assigned) != 4 {
			t.Fatalf("%+v: %v", g, err)
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		if err := a.WaitCommitted(ctx, group, topic); err != nil {
			t.Fatal(err)
		}
		if err := leave(ctx, cl, group, "one"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.WaitGroup(ctx, group, 0); err != nil {
			t.Fatal(err)
		}
		want := map[TP]Committed{{topic, 0}: {3, "m"}}
		if err := a.SetOffsets(ctx, group, want); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Offsets(ctx, group, true); err != nil || got[TP{topic, 0}] != want[TP{topic, 0}] {
			t.Fatalf("%v: %v", got, err)
		}
		if _, err := a.Coordinator(ctx, group, false); err != nil {
			t.Fatal(err)
		}
	})
}

// leave removes a static member, which closing its client does not do.
func leave(ctx context.Context, cl *kgo.Client, group, instance string) error {
	cl.LeaveGroup()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	m.InstanceID = &instance
	req.Members = append(req.Members, m)
	_, err := req.RequestWith(ctx, cl)
	return err
}

// TestTopicChanges grows, trims, configures and deletes a topic.
func TestTopicChanges(t *testing.T) {
	each(t, func(t *testing.T, c *Cluster) {
		ctx := limit(t)
		topic := c.Topic(t, "changes", 1, "retention.ms", "3600000")
		a := c.Admin()
		rs := records(t, topic, 100)
		for i := range rs {
			rs[i].Partition, rs[i].Time = 0, 0
		}
		if _, err := c.ProduceAcked(ctx, rs); err != nil {
			t.Fatal(err)
		}
		if err := a.DeleteRecords(ctx, topic, 0, 40); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Ends(ctx, topic, Earliest); err != nil || got[0] != 40 {
			t.Fatalf("%v: %v", got, err)
		}
		if got, err := a.ReadAll(ctx, topic, true); err != nil || len(got) != 60 || got[0].Offset != 40 {
			t.Fatalf("%d records: %v", len(got), err)
		}
		if err := a.SetTopicConfig(ctx, topic, map[string]string{"max.message.bytes": "2000"}); err != nil {
			t.Fatal(err)
		}
		err := poll(ctx, 20*time.Millisecond, nil, func(ctx context.Context) error {
			_, err := c.ProduceAcked(ctx, []Record{{Topic: topic, Value: bytes.Repeat([]byte{1}, 4000)}})
			if err == nil || !strings.Contains(err.Error(), "1 refused") {
				return fmt.Errorf("an oversize record: %w", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := a.AddPartitions(ctx, topic, 3); err != nil {
			t.Fatal(err)
		}
		err = poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
			ps, err := a.Partitions(ctx, topic)
			if err == nil && len(ps) != 3 {
				err = fmt.Errorf("%d partitions", len(ps))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestTempDirs holds that the folder of a dead process goes and the folder of a living
// one stays.
func TestTempDirs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("ODRADEK_TEST_KEEP", "")
	mine, err := tempDir("x")
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.MkdirTemp("", "odradek-x-") //nolint:usetesting // one that an ended process has left behind
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left+"/owner", []byte("999999999"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tempDir("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("this process's folder is gone")
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a dead process's folder is still there")
	}
}

// tb stands for a test, to see how it would end.
type tb struct {
	TB
	out string
}

func (t *tb) Helper()                   {}
func (t *tb) Fatalf(f string, a ...any) { t.out = "fatal: " + fmt.Sprintf(f, a...); panic(t) }
func (t *tb) Skipf(f string, a ...any)  { t.out = "skip: " + fmt.Sprintf(f, a...); panic(t) }

// TestMissing holds that a missing part is a named skip, and a failure where it
// is required or where it is there and broken.
func TestMissing(t *testing.T) {
	end := func(f func(TB)) (out string) {
		x := &tb{TB: t}
		defer func() { _ = recover(); out = x.out }()
		f(x)
		return
	}
	forget := func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.failed = nil
	}
	t.Cleanup(forget)
	forget()
	absent := fmt.Errorf("wrapped: %w", &MissingError{"Apache Kafka", os.ErrNotExist})
	t.Setenv("ODRADEK_REQUIRE", "registry")
	if out := end(func(t TB) { Missing(t, "kafka", absent) }); !strings.HasPrefix(out, "skip: skipped part kafka: ") {
		t.Error(out)
	}
	if out := end(func(t TB) { Missing(t, "kafka", errors.New("exit status 1")) }); !strings.HasPrefix(out, "fatal: ") {
		t.Error(out)
	}
	for range 3 { // one test fails of a cause
		out := end(func(t TB) { Missing(t, "kafka", errors.New("exit status 1")) })
		if out != "skip: not run: kafka does not start, see TestMissing" {
			t.Error(out)
		}
	}
	if out := end(func(t TB) { Missing(t, "kafka", errors.New("exit status 2")) }); out != "fatal: kafka does not start: exit status 2" {
		t.Error(out)
	}
	t.Setenv("ODRADEK_REQUIRE", "kafka,registry")
	if out := end(func(t TB) { Missing(t, "kafka", absent) }); !strings.HasPrefix(out, "fatal: kafka is required") {
		t.Error(out)
	}
	if out := end(func(t TB) { Missing(t, "kafka", absent) }); !strings.HasPrefix(
		out,
		"skip: not run: kafka is required (ODRADEK_REQUIRE) and missing, see ",
	) {
		t.Error(out)
	}
	o, healed := new(once[int]), 0
	for range 3 { // what does not start again is tried once
		if err := o.heal(func() error { healed++; return os.ErrDeadlineExceeded }); !errors.Is(err, os.ErrDeadlineExceeded) || healed != 1 {
			t.Errorf("%v after %d tries", err, healed)
		}
	}
	t.Setenv("ODRADEK_SKIP", "kafka")
	if out := end(func(t TB) { Kafka(t, Versions[0]) }); !strings.HasPrefix(out, "skip: skipped part kafka: ODRADEK_SKIP") {
		t.Error(out)
	}
}
