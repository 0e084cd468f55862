package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestGroupLostGeneration: a member is expelled and joins again before its
// consumer has seen the Lost event. Until then a commit must carry the dead
// generation, and be refused.
func TestGroupLostGeneration(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	c := OpenForTest(t, k.Brokers)
	ctx := brokertest.Within(t)
	for _, code := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration} {
		group := "g-" + code.Message
		m := JoinGroup(ctx, c, GroupConfig{Group: group, Topics: []string{in}, HeartbeatInterval: 50 * time.Millisecond,
			SessionTimeout: 5 * time.Second, RebalanceTimeout: time.Second})
		e := <-m.Events()
		old := m.Generation()
		if e.Kind != Assigned || e.Generation != old {
			t.Fatalf("%v in %v", e, old)
		}
		p := ProducerForTest(t, c, "tx-"+code.Message)
		offsets := map[record.TP]Offset{brokertest.TP(in, 0): {Offset: 1}}
		brokertest.Must(t, p.CommitOffsets(ctx, old, group, offsets))
		brokertest.Must(t, p.End(ctx, true))

		// The broker answers so once, and has a new generation after the next join.
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Group: group, Err: code})
		brokertest.Must(t, h.Wait(ctx, 1))
		joins := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SyncGroup}, Group: group, Observe: true, Count: -1})
		_ = joins
		time.Sleep(2 * time.Second) // long enough to join again
		if got := m.Generation(); got != old {
			t.Fatalf("generation %v before the consumer knows that %v is lost", got, old)
		}
		groupWantClass(t, "commit", p.CommitOffsets(ctx, m.Generation(), group, offsets), Rebalance)
		if _, err := m.Newer(ctx, old); !errors.Is(err, ErrMembershipLost) {
			t.Error(err)
		}
		brokertest.Must(t, p.Abort(ctx))
		e = <-m.Events()
		if e.Kind != Lost || len(e.Partitions) != 2 || e.Generation.ID != old.ID {
			t.Fatal(e)
		}
		e.Done()
		gen, err := m.Newer(ctx, old)
		for errors.Is(err, ErrMembershipLost) { // Done has not been seen yet
			time.Sleep(time.Millisecond)
			gen, err = m.Newer(ctx, old)
		}
		brokertest.Must(t, err)
		e = <-m.Events()
		if e.Kind != Assigned || len(e.Partitions) != 2 || e.Generation != gen {
			t.Fatalf("%v in %v", e, gen)
		}
		brokertest.Must(t, p.CommitOffsets(ctx, m.Generation(), group, offsets))
		brokertest.Must(t, p.End(ctx, true))
		go func() {
			for e := range m.Events() {
				e.Done()
			}
		}()
		brokertest.Must(t, m.Leave(ctx))
	}
}

// TestGroupCommitMeetsRebalance: a transaction is under way when the generation
// changes. What the member keeps it can commit, with the newer generation.
func TestGroupCommitMeetsRebalance(t *testing.T) {
	protocols(t, func(t *testing.T, k *kafkatest.Cluster, next bool) {
		in, out := k.Topic(t, "in", 4), k.Topic(t, "out", 1)
		c := OpenForTest(t, k.Brokers)
		ctx := brokertest.Within(t)
		l := newLedger(t)
		cfg := GroupConfig{Consumer: next, Group: "g-" + in, Topics: []string{in}}
		one := startConsumer(t, l, c, "one", cfg, nil)
		l.wait(4)
		p := ProducerForTest(t, c, kafkatest.Unique("tx"))
		gen := one.m.Generation()
		startConsumer(t, l, c, "two", cfg, nil)
		l.wait(2, 2)
		kept := heldBy(l, "one")[0]
		stale := kept
		if next { // brokers take offsets of what a member has kept with an older epoch, too (KIP-1251)
			stale = heldBy(l, "two")[0]
		}
		err := p.Send(ctx, brokertest.Batches(t, out, 1, 10, "x"), gen, cfg.Group, map[record.TP]Offset{stale: {Offset: 5, Metadata: "m"}})
		groupWantClass(t, "send with the old generation", err, Rebalance)
		var oe *OffsetError
		if !errors.As(err, &oe) || oe.TP != stale || oe.Group != cfg.Group {
			t.Error(err)
		}
		groupWantClass(t, "commit of it", p.End(ctx, true), Rebalance)
		newer, err := one.m.Newer(ctx, gen)
		brokertest.Must(t, err)
		brokertest.Must(t, p.CommitOffsets(ctx, newer, cfg.Group, map[record.TP]Offset{kept: {Offset: 5, Metadata: "m"}}))
		brokertest.Must(t, p.End(ctx, true))
		brokertest.WantValues(t, k, out, 1, 10, "x")
		got, err := k.Admin().Offsets(ctx, cfg.Group, true)
		brokertest.Must(t, err)
		if len(got) != 1 || got[kafkatest.TP{Topic: kept.Topic, Partition: kept.Partition}].Offset != 5 {
			t.Errorf("%v", got)
		}
	})
}

// TestGroupCommitWhileCompleting: the leader of a new generation has not sent its
// SyncGroup. The coordinator answers a commit of that generation
// REBALANCE_IN_PROGRESS, and takes the same commit once the SyncGroup is there.
func TestGroupCommitWhileCompleting(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in, group := k.Topic(t, "in", 1), kafkatest.Unique("g")
		c := OpenForTest(t, k.Brokers)
		ctx := brokertest.Within(t)
		cl := brokertest.Franz(t, k.Brokers)

		// A leader that sends its SyncGroup when the test says so.
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{in}
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.ProtocolType = group, "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = protocolName, meta.AppendTo(nil)
		join.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
		lead := func() *kmsg.JoinGroupResponse {
			t.Helper()
			res, err := join.RequestWith(ctx, cl)
			brokertest.Must(t, err)
			if res.ErrorCode == kerr.MemberIDRequired.Code {
				join.MemberID = res.MemberID
				res, err = join.RequestWith(ctx, cl)
				brokertest.Must(t, err)
			}
			brokertest.Must(t, kerr.ErrorForCode(res.ErrorCode))
			if res.LeaderID != res.MemberID {
				t.Fatal("the first member does not lead")
			}
			join.MemberID = res.MemberID
			return res
		}
		synchronize := func(res *kmsg.JoinGroupResponse) error {
			t.Helper()
			assignment := kmsg.NewConsumerMemberAssignment()
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Group, sync.Generation, sync.MemberID = group, res.Generation, res.MemberID
			sync.ProtocolType, sync.Protocol = &join.ProtocolType, &protocol.Name
			for _, m := range res.Members {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = m.MemberID, assignment.AppendTo(nil)
				sync.GroupAssignment = append(sync.GroupAssignment, a)
			}
			res2, err := sync.RequestWith(ctx, cl)
			brokertest.Must(t, err)
			return kerr.ErrorForCode(res2.ErrorCode)
		}
		brokertest.Must(t, synchronize(lead()))
		m := JoinGroup(ctx, c, GroupConfig{Group: group, Topics: []string{in}})
		var joined *kmsg.JoinGroupResponse
		for joined == nil || len(joined.Members) < 2 {
			if joined != nil {
				_ = synchronize(joined) // may meet the other's join
			}
			joined = lead()
		}
		brokertest.Eventually(t, "the new generation", func() bool { return m.Generation().ID == joined.Generation })

		var refused atomic.Int32
		committed := make(chan error, 1)
		go func() {
			committed <- m.Commit(ctx, func(gen Generation) error {
				if gen.ID != joined.Generation {
					t.Errorf("commit with generation %d during %d", gen.ID, joined.Generation)
				}
				err := c.Offsets.CommitOffsets(ctx, gen, group, map[record.TP]Offset{brokertest.TP(in, 0): {Offset: 7}})
				if errors.Is(err, kafkago.RebalanceInProgress) {
					refused.Add(1)
				}
				return err
			})
		}()
		brokertest.Eventually(t, "two refusals", func() bool { return refused.Load() >= 2 })
		// A transaction's offsets need no completed generation, or wait as well.
		p := ProducerForTest(t, c, kafkatest.Unique("tx"))
		sent := make(chan error, 1)
		go func() { sent <- commit(ctx, p, m, group, []record.TP{brokertest.TP(in, 0)}, 7) }()
		time.Sleep(20 * time.Millisecond)
		brokertest.Must(t, synchronize(joined))
		brokertest.Must(t, <-committed)
		brokertest.Must(t, <-sent)
	})
}

// TestGroupCoordinatorTrouble: the coordinator is not there yet, loads, moves;
// the member continues without losing anything.
func TestGroupCoordinatorTrouble(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := OpenForTest(t, k.Brokers)
	l := newLedger(t)
	group := "g"
	f := func(key kmsg.Key, err *kerr.Error) kfake.Fault {
		return kfake.Fault{Keys: []kmsg.Key{key}, TopLevel: true, Err: err, Count: 3}
	}
	h := k.Fake.Fault(f(kmsg.FindCoordinator, kerr.CoordinatorNotAvailable), f(kmsg.JoinGroup, kerr.NotCoordinator),
		f(kmsg.JoinGroup, kerr.CoordinatorLoadInProgress), f(kmsg.SyncGroup, kerr.NotCoordinator), f(kmsg.SyncGroup, kerr.RebalanceInProgress))
	cfg := GroupConfig{Group: group, Topics: []string{in}}
	one := startConsumer(t, l, c, "one", cfg, nil)
	l.wait(4)
	if h.Hits() != 15 {
		t.Errorf("%d of 15 faults met", h.Hits())
	}
	h = k.Fake.Fault(f(kmsg.Heartbeat, kerr.NotCoordinator), f(kmsg.Heartbeat, kerr.CoordinatorLoadInProgress),
		f(kmsg.Heartbeat, kerr.CoordinatorNotAvailable))
	brokertest.Must(t, h.Wait(brokertest.Within(t), 9))
	two := startConsumer(t, l, c, "two", cfg, nil)
	for range 10 {
		k.Fake.RehashCoordinators()
		time.Sleep(150 * time.Millisecond)
	}
	l.wait(2, 2)
	for _, x := range []*consumer{one, two} {
		if n := x.count(Lost); n != 0 {
			t.Errorf("%s lost partitions", x.name)
		}
	}
	one.stop(t)
	k.Fake.RehashCoordinators()
	l.wait(4)
}

// TestGroupBrokersDown: no broker answers for longer than the session. The
// member says Lost, goes on trying, and comes back with the brokers.
func TestGroupBrokersDown(t *testing.T) { onFake(t, testGroupBrokersDown) }

func testGroupBrokersDown(t *testing.T, next bool) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Dir: t.TempDir()})
	in := k.Topic(t, "in", 4)
	l := newLedger(t)
	one := startConsumer(t, l, OpenForTest(t, k.Brokers), "one", GroupConfig{Consumer: next, Group: "g", Topics: []string{in},
		SessionTimeout: 2 * time.Second}, nil)
	l.wait(4)
	k.Fake.Close()
	start := time.Now()
	l.wait()
	if d := time.Since(start); d < time.Second || d > 10*time.Second {
		t.Errorf("lost after %v", d)
	}
	if n := one.count(Lost); n != 1 {
		t.Error("no Lost")
	}
	brokertest.Must(t, k.Restart(brokertest.Within(t)))
	l.wait(4)
}

// TestGroupErrors: what trying again does not help ends the membership, with
// words that say what to change.
func TestGroupErrors(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 4)
		c := OpenForTest(t, k.Brokers)
		f := func(name string, cfg GroupConfig, wants ...string) {
			t.Helper()
			m := JoinGroup(context.Background(), c, cfg)
			select {
			case e, ok := <-m.Events():
				if ok {
					t.Fatalf("%s: %v", name, e)
				}
			case <-time.After(kafkatest.Patience):
				t.Fatalf("%s: no error", name)
			}
			groupWantClass(t, name, m.Err(), Fatal)
			t.Log(m.Err())
			for _, w := range wants {
				if !strings.Contains(m.Err().Error(), w) {
					t.Errorf("%s: %q lacks %q", name, m.Err(), w)
				}
			}
			if err := m.Leave(context.Background()); err != m.Err() {
				t.Errorf("leave: %v", err)
			}
		}
		group := kafkatest.Unique("g")
		f("session", GroupConfig{Group: group, Topics: []string{in}, SessionTimeout: 10 * time.Millisecond}, "10ms", settingSessionTimeout)

		// Another program's consumers, with another assignor.
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(in),
			kgo.Balancers(kgo.RangeBalancer()))
		brokertest.Must(t, err)
		defer cl.Close()
		go cl.PollFetches(context.Background())
		_, err = k.Admin().WaitGroup(brokertest.Within(t), group, 1, in)
		brokertest.Must(t, err)
		f("foreign group", GroupConfig{Group: group, Topics: []string{in}}, group, "another program", "a group of its own")
	})
}

// TestGroupFatalWhileHolding: the end comes with a Lost event.
func TestGroupFatalWhileHolding(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	l := newLedger(t)
	x := startConsumer(t, l, OpenForTest(t, k.Brokers), "one", GroupConfig{Group: "g", Topics: []string{in}}, nil)
	l.wait(4)
	k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.GroupAuthorizationFailed, TopLevel: true})
	<-x.done
	if n := x.count(Lost); n != 1 {
		t.Error("no Lost")
	}
	if err := x.m.Err(); !errors.Is(err, kafkago.GroupAuthorizationFailed) || !strings.Contains(err.Error(), "READ") {
		t.Error(err)
	}
}

// TestGroupLeaveCutShort: a hand-over that does not end does not hold Leave up
// for longer than its context, and the group goes on at once.
func TestGroupLeaveCutShort(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := OpenForTest(t, k.Brokers)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: 30 * time.Second, HeartbeatInterval: 100 * time.Millisecond}
	m := JoinGroup(context.Background(), c, cfg)
	<-m.Events() // and nothing more is received
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := m.Leave(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	l := newLedger(t)
	startConsumer(t, l, c, "two", cfg, nil)
	l.wait(4)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("the group went on after %v", d)
	}
	// One that never came in can leave as well.
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, TopLevel: true, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	defer h.Remove()
	m = JoinGroup(context.Background(), c, cfg)
	time.Sleep(50 * time.Millisecond)
	brokertest.Must(t, m.Leave(brokertest.Within(t)))
	brokertest.Must(t, m.Leave(context.Background()))
}

// TestGroupChurn: members come, go, die and are expelled at random while
// coordinators move and hand-overs take their time. No partition is ever held
// twice, and when it is over everything is held.
func TestGroupChurn(t *testing.T) { onFake(t, testGroupChurn) }

func testGroupChurn(t *testing.T, next bool) {
	t.Parallel()
	r := seedtest.New(t)
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	a, b := k.Topic(t, "a", 9), k.Topic(t, "b", 4)
	l := newLedger(t)
	c := OpenForTest(t, k.Brokers)
	var mu sync.Mutex
	hand := func(*consumer, GroupEvent) {
		mu.Lock()
		d := time.Duration(r.IntN(400)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
	}
	var live []*consumer
	n := 0
	join := func() {
		n++
		cfg := GroupConfig{Consumer: next, Group: "g", Topics: []string{a, b}, SessionTimeout: 10 * time.Second,
			RebalanceTimeout: 5 * time.Second, HeartbeatInterval: 50 * time.Millisecond}
		live = append(live, startConsumer(t, l, c, fmt.Sprint("m", n), cfg, hand))
	}
	join()
	for range 25 {
		mu.Lock()
		what, pause := r.IntN(10), time.Duration(r.IntN(600))*time.Millisecond
		mu.Unlock()
		switch {
		case what < 4 && len(live) < 6 || len(live) == 0:
			join()
		case what < 7:
			live[0].stop(t)
			live = live[1:]
		case what < 8:
			k.Fake.RehashCoordinators()
		}
		time.Sleep(pause)
	}
	join()
	q, rem := 13/len(live), 13%len(live)
	var want []int
	for i := range live {
		if i >= len(live)-rem {
			want = append(want, q+1)
		} else {
			want = append(want, q)
		}
	}
	l.wait(want...)
	for _, x := range live {
		x.stop(t)
	}
	l.wait()
}

// TestGroupFencedByAnotherBroker: a static member that another broker than the one that admitted it does not know takes its instance id
// back: the first may have coordinated the group no more, without knowing. Where the same broker says so, another worker has the id.
func TestGroupFencedByAnotherBroker(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	c := OpenForTest(t, k.Brokers)
	ctx := brokertest.Within(t)
	const group = "g-fenced"
	m := JoinGroup(ctx, c, GroupConfig{Group: group, Topics: []string{in}, InstanceID: "one", HeartbeatInterval: 50 * time.Millisecond,
		SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Second})
	events := func(want GroupEventKind) {
		t.Helper()
		e, ok := <-m.Events()
		if !ok || e.Kind != want {
			t.Fatalf("%v, %v; want %v", e, m.Err(), want)
		}
		e.Done()
	}
	events(Assigned)
	before := k.Fake.CoordinatorFor(group)
	for k.Fake.CoordinatorFor(group) == before {
		k.Fake.RehashCoordinators()
	}
	fence := func(at int32) {
		k.Fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if k.Fake.CurrentNode() != at {
				k.Fake.KeepControl()
				return nil, nil, false
			}
			res := req.ResponseKind().(*kmsg.HeartbeatResponse)
			res.ErrorCode = kerr.FencedInstanceID.Code
			return res, nil, true
		})
	}
	fence(k.Fake.CoordinatorFor(group))
	events(Lost)
	events(Assigned)
	fence(k.Fake.CoordinatorFor(group))
	events(Lost)
	if e, ok := <-m.Events(); ok {
		t.Fatal(e)
	}
	groupWantClass(t, "the same broker", m.Err(), InstanceFenced)
}
