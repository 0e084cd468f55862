package kafka

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafkatest"
)

// TestBrokerFeatures reads responses as another client's codec writes them, and responses of a broker that lacks the version.
func TestBrokerFeatures(t *testing.T) {
	full := kmsg.NewPtrApiVersionsResponse()
	full.Version = 3
	for key := int16(0); key < 60; key++ {
		full.ApiKeys = append(full.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: 0, MaxVersion: key + 3})
	}
	for _, name := range []string{"group.version", "transaction.version"} {
		full.SupportedFeatures = append(full.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: name, MaxVersion: 9})
		full.FinalizedFeatures = append(full.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: name,
			MaxVersionLevel: int16(len(name)), MinVersionLevel: 1})
	}
	full.FinalizedFeaturesEpoch, full.ZkMigrationReady = 7, true
	old := kmsg.NewPtrApiVersionsResponse() // of a broker before 2.4 (KIP-511)
	old.ErrorCode, old.ApiKeys = 35, full.ApiKeys[:1]
	none := kmsg.NewPtrApiVersionsResponse()
	none.Version, none.ApiKeys = 3, full.ApiKeys[:1]

	read := func(body []byte) (*brokerFeatures, *brokertest.Connection, error) {
		f := &brokerFeatures{newest: map[protocol.ApiKey]int16{}, finalized: map[string]int16{}}
		c := brokertest.Answer(77, body)
		_, err := f.Exchange(c, 0, 77, "client")
		return f, c, err
	}
	for name, want := range map[string]struct {
		body      []byte
		newest    int16 // of API 0
		finalized map[string]int16
	}{
		"full":  {full.AppendTo(nil), 3, map[string]int16{"group.version": 13, "transaction.version": 19}},
		"old":   {old.AppendTo(nil), 0, map[string]int16{}},
		"none":  {none.AppendTo(nil), 3, map[string]int16{}},
		"later": {append(full.AppendTo(nil), 1, 2, 3), 3, map[string]int16{"group.version": 13, "transaction.version": 19}},
	} {
		f, c, err := read(want.body)
		if err != nil || f.newest[0] != want.newest || !maps.Equal(f.finalized, want.finalized) {
			t.Errorf("%s: %+v, %v; want %+v", name, f, err, want)
		}
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = 3
		b := c.Sent.Bytes()
		if err := req.ReadFrom(b[21:]); err != nil || req.ClientSoftwareName != "odradek" || req.ClientSoftwareVersion == "" {
			t.Errorf("%s: %+v, %v", name, req, err)
		}
	}
	body := full.AppendTo(nil)
	for i := range body {
		if _, _, err := read(body[:i]); err == nil {
			t.Errorf("no error for %d of %d bytes", i, len(body))
		}
	}
}

// TestEndTxnRequest compares both versions with another client's codec.
func TestEndTxnRequest(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		for _, commit := range []bool{false, true} {
			res := kmsg.NewPtrEndTxnResponse()
			res.Version = map[bool]int16{false: 2, true: 5}[v2]
			res.ErrorCode, res.ProducerID, res.ProducerEpoch = 90, 1<<40, 32766
			header := 0
			if v2 {
				header = 1 // of tagged fields
			}
			c := brokertest.Answer(7, res.AppendTo(make([]byte, header)))
			e := &endTxn{identity: identity{transactionalID: "tx-1", id: 1 << 41, epoch: 5, v2: v2}, commit: commit}
			if _, err := e.Exchange(c, 3, 7, "client"); err != nil {
				t.Fatal(err)
			}
			if e.code != 90 || v2 && (e.next.id != 1<<40 || e.next.epoch != 32766) {
				t.Errorf("%+v", e)
			}
			req := kmsg.NewPtrEndTxnRequest()
			req.Version = res.Version
			if err := req.ReadFrom(c.Sent.Bytes()[20+header:]); err != nil || req.TransactionalID != "tx-1" || req.ProducerID != 1<<41 ||
				req.ProducerEpoch != 5 || req.Commit != commit {
				t.Errorf("%+v, %v", req, err)
			}
		}
	}
}

// TestVersionOfTransactions: Init decides which version a producer speaks, by what the cluster has finalized.
func TestVersionOfTransactions(t *testing.T) {
	ctx := brokertest.Within(t)
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 3)
	var mu sync.Mutex
	seen := map[string]bool{}
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		k.Fake.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(key.Name(), req.GetVersion() >= 5)] = true
			return nil, nil, false
		})
	}
	p := newProducer(t, c, "tx")
	var want []string
	transact := func(name string, v2 bool) {
		t.Helper()
		mu.Lock()
		clear(seen)
		mu.Unlock()
		for _, commit := range []bool{true, false} {
			prefix := fmt.Sprint(name, " ", commit)
			brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 10, prefix), noGroup, "g",
				map[TP]Offset{brokertest.TP(in, 0): {Offset: int64(len(want))}}))
			brokertest.Must(t, p.End(ctx, commit))
			if commit {
				want = append(want, prefix)
			}
		}
		all := map[string]bool{"AddPartitionsToTxnfalse": true, "AddOffsetsToTxnfalse": true, "TxnOffsetCommitfalse": true,
			fmt.Sprint("EndTxn", v2): true}
		mu.Lock()
		defer mu.Unlock()
		if !maps.Equal(seen, all) {
			t.Errorf("%s: %v, want %v", name, seen, all)
		}
	}
	transact("version 2", true)
	brokertest.Must(t, k.Admin().SetFeature(ctx, "transaction.version", 1, true))
	transact("downgraded", true)
	brokertest.Must(t, p.Init(ctx))
	transact("initialised", false)
	brokertest.Must(t, k.Admin().SetFeature(ctx, "transaction.version", 2, false))
	transact("upgraded", false)
	brokertest.Must(t, p.Init(ctx))
	transact("initialised again", true)
	brokertest.WantValues(t, k, out, 3, 10, want...)
}

// TestEpochOfEachTransaction: in version 2 each end of a transaction, also of one that has nothing, raises the epoch by one, and
// every record and offset of those that are committed is there.
func TestEpochOfEachTransaction(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		if !k.TransactionsV2() {
			t.Skip("brokers without version 2")
		}
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		in, out, small := k.Topic(t, "in", 1), k.Topic(t, "out", 3), k.Topic(t, "small", 1, "max.message.bytes", "100")
		group := kafkatest.Unique("g")
		p := newProducer(t, c, kafkatest.Unique("tx"))
		id, epoch := p.ID()
		var want []string
		for i := range 20 {
			prefix := fmt.Sprint("n", i)
			source := map[TP]Offset{brokertest.TP(in, 0): {Offset: int64(i)}}
			commit := false
			switch i % 4 {
			case 0, 1:
				commit = i%4 == 0
				brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 50, prefix), noGroup, group, source))
			case 2: // the only batch is refused
				wantClass(t, prefix, p.Send(ctx, brokertest.Batches(t, small, 1, 50, prefix), noGroup, "", nil), TooLarge)
			case 3:
				commit = true
				brokertest.Must(t, p.Send(ctx, nil, noGroup, group, source))
			}
			brokertest.Must(t, p.End(ctx, commit))
			if commit && i%4 == 0 {
				want = append(want, prefix)
			}
			if now, e := p.ID(); now != id || e != epoch+1 || p.NeedsInit() {
				t.Fatalf("transaction %d: epoch %d of %d after %d of %d", i, e, now, epoch, id)
			}
			epoch++
		}
		brokertest.Must(t, p.AddPartitions(ctx, []TP{brokertest.TP(out, 0)}))
		brokertest.Must(t, p.End(ctx, true))
		if _, e := p.ID(); e != epoch+1 {
			t.Errorf("epoch %d after a transaction without records, want %d", e, epoch+1)
		}
		brokertest.WantValues(t, k, out, 3, 50, want...)
		got, err := k.Admin().Offsets(ctx, group, true)
		brokertest.Must(t, err)
		if o := got[kafkatest.TP{Topic: in}].Offset; o != 19 {
			t.Errorf("committed %d, want 19", o)
		}
	})
}

// TestEpochsUsedUp: the response to EndTxn has another producer id when the epochs are used up, the response to the same EndTxn
// again has it, too, and sequences begin again with it.
func TestEpochsUsedUp(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		if !k.TransactionsV2() {
			t.Skip("brokers without version 2")
		}
		if k.Real() {
			kafkatest.LongOnly(t) // 32,767 transactions
		}
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		wire := tap{key: kmsg.EndTxn}
		wire.on(c)
		out := k.Topic(t, "out", 3)
		p := newProducer(t, c, kafkatest.Unique("tx"))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 50, "a"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		first, _ := p.ID()
		for p.identity.epoch < math.MaxInt16-2 {
			p.txn.open() // and nothing is written
			brokertest.Must(t, p.End(ctx, false))
		}
		want := []string{"a"}
		for i := range 4 {
			prefix := fmt.Sprint("b", i)
			want = append(want, prefix)
			brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 50, prefix), noGroup, "", nil))
			if k.Real() { // kfake forgets the id whose epochs are used up
				wire.expect(loseDone)
			}
			brokertest.Must(t, p.End(ctx, true))
			t.Logf("epoch %d of %d", p.identity.epoch, p.identity.id)
		}
		if p.identity.id == first || p.identity.epoch < 0 || p.identity.epoch > 4 {
			t.Errorf("epoch %d of %d, after %d", p.identity.epoch, p.identity.id, first)
		}
		brokertest.WantValues(t, k, out, 3, 50, want...)
	})
}

// TestLateRequests: a request of a transaction that was aborted is held up until the next transaction has its partition or group.
// After Init every broker refuses it. Without, as a client does that takes a lost request for one that has failed, brokers
// with version 2 refuse it, too; older ones make it a part of the wrong transaction, which is why Init has to follow in version 1.
func TestLateRequests(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit} {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprint(key.Name(), ",init=", again), func(t *testing.T) { testLateRequest(t, k, key, again) })
			}
		}
	})
}

func testLateRequest(t *testing.T, k *kafkatest.Cluster, key kmsg.Key, again bool) {
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	wire := tap{key: key}
	wire.on(c)
	in, out := k.Topic(t, "in", 2), k.Topic(t, "out", 2)
	group := kafkatest.Unique("g")
	p := newProducer(t, c, kafkatest.Unique("tx"))
	send := func(ctx context.Context, partition int32, prefix string) error {
		tp := brokertest.TP(out, partition)
		set := brokertest.Batches(t, out, 2, 10, prefix)
		for other := range set {
			if other != tp {
				delete(set, other)
			}
		}
		if key == kmsg.Produce {
			return p.Send(ctx, set, noGroup, "", nil)
		}
		return p.CommitOffsets(ctx, noGroup, group, map[TP]Offset{brokertest.TP(in, partition): {Offset: 5}})
	}
	brokertest.Must(t, send(ctx, 0, "aborted"))
	wire.expect(keep)
	wantClass(t, "request that is held up", send(ctx, 1, "late"), Unknown)
	if again {
		brokertest.Must(t, p.Init(ctx))
	} else {
		p.txn.broken, p.txn.outputs, p.txn.offsets = nil, nil, nil
		brokertest.Must(t, p.End(ctx, false))
	}
	brokertest.Must(t, p.AddPartitions(ctx, []TP{brokertest.TP(out, 1)}))
	brokertest.Must(t, send(ctx, 0, "next"))
	codes := wire.deliver(t)
	brokertest.Must(t, p.End(ctx, true))
	t.Log("answered", codes)

	admitted := !again && !k.TransactionsV2()
	if len(codes) != 1 || (codes[0] == nil) != admitted {
		t.Errorf("answered %v, admitted: want %v", codes, admitted)
	}
	found := false
	if key == kmsg.Produce {
		brokertest.Eventually(t, "the transaction", func() bool { return len(brokertest.Values(t, k, out, true)[0]) == 10 })
		found = len(brokertest.Values(t, k, out, true)[1]) > 0
	} else {
		brokertest.Eventually(t, "the transaction", func() bool {
			got, err := k.Admin().Offsets(ctx, group, true)
			brokertest.Must(t, err)
			_, found = got[kafkatest.TP{Topic: in, Partition: 1}]
			_, next := got[kafkatest.TP{Topic: in}]
			return next
		})
	}
	if found != admitted {
		t.Errorf("what came late is committed: %v, want %v", found, admitted)
	}
}
