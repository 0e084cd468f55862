package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestOperations: what a user may and may not do, as `check --online` asks.
func TestOperations(t *testing.T) {
	ctx := brokertest.Within(t)
	allow := func(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in", "out", "hidden"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "pw"),
		kfake.User("PLAIN", "worker", "pw",
			allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead),
			allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite),
			allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationRead),
			allow(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeTransactionalId, "txn", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeTransactionalId, "txn", kmsg.ACLOperationWrite),
		))
	m, err := kafka.NewSASL("plain", "worker", "pw")
	if err != nil {
		t.Fatal(err)
	}
	c, err := kafka.Open(ctx, kafka.Config{Brokers: fake.ListenAddrs(), SASL: m})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tc := range []struct {
		kind kafka.Resource
		name string
		has  []kafka.Operation
		not  []kafka.Operation
	}{
		{kafka.ResourceTopic, "in", []kafka.Operation{kafka.OpRead, kafka.OpDescribe}, []kafka.Operation{kafka.OpWrite, kafka.OpDelete}},
		{kafka.ResourceTopic, "out", []kafka.Operation{kafka.OpWrite, kafka.OpDescribe}, []kafka.Operation{kafka.OpRead}},
		{kafka.ResourceTopic, "hidden", nil, []kafka.Operation{kafka.OpRead, kafka.OpDescribe}},
		{kafka.ResourceGroup, "g", []kafka.Operation{kafka.OpRead, kafka.OpDescribe}, []kafka.Operation{kafka.OpDelete}},
		{kafka.ResourceGroup, "other", nil, []kafka.Operation{kafka.OpRead, kafka.OpDescribe}},
		{kafka.ResourceTransactionalID, "txn", []kafka.Operation{kafka.OpDescribe}, nil},
		{kafka.ResourceTransactionalID, "other", nil, []kafka.Operation{kafka.OpDescribe}},
		{kafka.ResourceCluster, "", nil, []kafka.Operation{kafka.OpCreate, kafka.OpIdempotentWrite}},
	} {
		ops, err := c.Permissions.Operations(ctx, tc.kind, tc.name)
		if err != nil {
			t.Errorf("%d %q: %v", tc.kind, tc.name, err)
			continue
		}
		t.Logf("%d %q: %v", tc.kind, tc.name, ops)
		for _, o := range tc.has {
			if !ops.Has(o) {
				t.Errorf("%d %q: %v is missing in %v", tc.kind, tc.name, o, ops)
			}
		}
		for _, o := range tc.not {
			if ops.Has(o) || !ops.Known {
				t.Errorf("%d %q: %v in %v", tc.kind, tc.name, o, ops)
			}
		}
	}
	f := kafka.NewFetcher(c, kafka.FetchConfig{})
	defer f.Close()
	if ch := <-f.Add(brokertest.TP("hidden", 0), 0).C(); !errors.Is(ch.Err, kafkago.TopicAuthorizationFailed) ||
		kafka.ClassOf(ch.Err) != kafka.Fatal {
		t.Errorf("%+v", ch)
	} else {
		t.Log(ch.Err)
	}
	if ch := <-f.Add(brokertest.TP("out", 0), 0).C(); !errors.Is(ch.Err, kafkago.TopicAuthorizationFailed) {
		t.Errorf("%+v", ch)
	}
	if _, err := c.Offsets.Committed(ctx, "other", []record.TP{brokertest.TP("in", 0)}); kafka.ClassOf(err) != kafka.Fatal {
		t.Error(err)
	} else {
		t.Log(err)
	}
	if err := c.Admin.CreateTopic(ctx, "new", 1, 1, nil); kafka.ClassOf(err) != kafka.Fatal {
		t.Error(err)
	} else {
		t.Log(err)
	}
}

// TestBrokersSecurity: the secured listeners, by each mechanism, with wrong
// passwords, and with rules that forbid.
func TestBrokersSecurity(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		if k.Security == nil || !k.Real() {
			t.Skip("kfake's secured listener has tests of its own")
		}
		ctx := brokertest.Within(t)
		topic := k.Topic(t, "in", 1)
		tlsCfg := kafka.TLSForTest(t, kafka.TLSConfig{CA: k.Security.CAFile})
		for _, mechanism := range kafkatest.Mechanisms {
			u := k.Security.User(mechanism)
			m, err := kafka.NewSASL(mechanism, u.Name, u.Password)
			if err != nil {
				t.Fatal(err)
			}
			c, err := kafka.Open(ctx, kafka.Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: m})
			if err != nil {
				t.Fatal(mechanism, err)
			}
			if _, err := c.Offsets.ListOffsets(ctx, []record.TP{brokertest.TP(topic, 0)}, kafka.Latest); err != nil {
				t.Error(mechanism, err)
			}
			c.Close()
			m, _ = kafka.NewSASL(mechanism, u.Name, "wrong")
			_, err = kafka.Open(ctx, kafka.Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: m})
			if kafka.ClassOf(err) != kafka.Fatal || !strings.Contains(err.Error(), "kafka_password") {
				t.Errorf("%s, wrong password: %v", mechanism, err)
			}
			t.Log(err)
		}
		for name, cfg := range map[string]kafka.Config{
			"mTLS": {Brokers: k.Security.TLSBrokers,
				TLS: kafka.TLSForTest(t, kafka.TLSConfig{CA: k.Security.CAFile, Cert: k.Security.CertFile, Key: k.Security.KeyFile})},
			"mTLS, no certificate":   {Brokers: k.Security.TLSBrokers, TLS: tlsCfg},
			"no SASL":                {Brokers: k.Security.SASLBrokers, TLS: tlsCfg},
			"plaintext to TLS":       {Brokers: k.Security.TLSBrokers, DialTimeout: 3 * time.Second},
			"TLS to plaintext":       {Brokers: k.Brokers, TLS: tlsCfg, DialTimeout: 3 * time.Second},
			"SASL to a port without": {Brokers: k.Brokers, SASL: kafka.SASLForTest(t, "PLAIN", "u", "p")},
		} {
			c, err := kafka.Open(ctx, cfg)
			if name == "mTLS" {
				if err != nil {
					t.Error(err)
				} else {
					c.Close()
				}
				continue
			}
			if err == nil {
				c.Close()
				t.Errorf("%s: no error", name)
				continue
			}
			t.Logf("%s: %v", name, err)
			if !strings.Contains(err.Error(), "kafka_") {
				t.Errorf("%s: names no setting: %v", name, err)
			}
		}

		// Rules: the user may describe, but not read.
		u := k.Security.User(kafkatest.Plain)
		a := k.Admin()
		name, txn := kafkatest.Unique("g"), kafkatest.Unique("tx")
		for _, err := range []error{
			a.AddACL(ctx, u.Name, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe, true),
			a.AddACL(ctx, u.Name, kmsg.ACLResourceTypeGroup, name, kmsg.ACLOperationDescribe, true),
			a.AddACL(ctx, u.Name, kmsg.ACLResourceTypeTransactionalId, txn, kmsg.ACLOperationAll, false),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		defer a.DropACLs(ctx, kmsg.ACLResourceTypeTopic, topic)
		defer a.DropACLs(ctx, kmsg.ACLResourceTypeGroup, name)
		defer a.DropACLs(ctx, kmsg.ACLResourceTypeTransactionalId, txn)
		c, err := kafka.Open(ctx, kafka.Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: kafka.SASLForTest(t, kafkatest.Plain,
			u.Name, u.Password)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(time.Second) // rules reach the brokers a little later
		for _, q := range []struct {
			kind kafka.Resource
			name string
			has  bool
		}{{kafka.ResourceTopic, topic, true}, {kafka.ResourceGroup, name, true}, {kafka.ResourceTransactionalID, txn, false}} {
			ops, err := c.Permissions.Operations(ctx, q.kind, q.name)
			if err != nil || !ops.Known || ops.Has(kafka.OpDescribe) != q.has || ops.Has(kafka.OpRead) {
				t.Errorf("%d %s: %v, %v", q.kind, q.name, ops, err)
			}
		}
		f := kafka.NewFetcher(c, kafka.FetchConfig{})
		defer f.Close()
		if ch := <-f.Add(brokertest.TP(topic, 0), 0).C(); !errors.Is(ch.Err, kafkago.TopicAuthorizationFailed) {
			t.Errorf("%+v", ch)
		} else {
			t.Log(ch.Err)
		}
	})
}
