package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestGroupJoinAndLeave: members come and go, what moves is handed over with a
// commit, and no more moves than must.
func TestGroupJoinAndLeave(t *testing.T) {
	protocols(t, func(t *testing.T, k *kafkatest.Cluster, next bool) {
		a, b := k.Topic(t, "a", 7), k.Topic(t, "b", 3)
		cfg := GroupConfig{Consumer: next, Group: kafkatest.Unique("g"), Topics: []string{a, b}}
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		hand := func(x *consumer, e GroupEvent) {
			p := ProducerForTest(t, c, kafkatest.Unique("tx"))
			if err := commit(brokertest.Within(t), p, x.m, cfg.Group, e.Partitions, 7); err != nil {
				t.Errorf("%s: commit in the hand-over: %v", x.name, err)
			}
		}
		one := startConsumer(t, l, c, "one", cfg, hand)
		l.wait(10)
		two := startConsumer(t, l, c, "two", cfg, hand)
		l.wait(5, 5)
		three := startConsumer(t, l, OpenForTest(t, k.Brokers), "three", cfg, hand)
		l.wait(3, 3, 4)
		if l.moves != 5+3 {
			t.Errorf("%d moves, want 8", l.moves)
		}
		if next { // DescribeGroups is of classic groups
		} else if _, err := k.Admin().WaitGroup(brokertest.Within(t), cfg.Group, 3, a, b); err != nil {
			t.Error(err) // as a foreign client sees it
		}
		two.stop(t)
		l.wait(5, 5)
		three.stop(t)
		l.wait(10)
		if got := one.m.Generation().MemberID; got == "" {
			t.Error("no member id")
		}
		one.stop(t)
		l.wait()
		for _, x := range []*consumer{one, two, three} {
			if n := x.count(Lost); n != 0 {
				t.Errorf("%s lost partitions", x.name)
			}
		}
		offsets, err := k.Admin().Offsets(brokertest.Within(t), cfg.Group, true)
		brokertest.Must(t, err)
		if len(offsets) != 10 {
			t.Errorf("offsets of %d partitions, want 10: each was handed over once at least", len(offsets))
		}
	})
}

// TestGroupSlowHandOver: a hand-over takes longer than the session and the
// rebalance time-out, another member joins in the middle, and all the same
// nothing is lost, the newcomer gets to work at once, and the commit at the end
// is taken.
func TestGroupSlowHandOver(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 6)
	c := OpenForTest(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: 2 * time.Second, RebalanceTimeout: 3 * time.Second}
	var once sync.Once
	hand := func(x *consumer, e GroupEvent) {
		p := ProducerForTest(t, c, "tx-"+x.name)
		once.Do(func() { time.Sleep(7 * time.Second) })
		if err := commit(brokertest.Within(t), p, x.m, "g", e.Partitions, 7); err != nil {
			t.Errorf("%s: commit at the end of the hand-over: %v", x.name, err)
		}
	}
	one := startConsumer(t, l, c, "one", cfg, hand)
	l.wait(6)
	startConsumer(t, l, c, "two", cfg, hand)
	time.Sleep(time.Second)
	before := one.m.Generation()
	start := time.Now()
	three := startConsumer(t, l, c, "three", cfg, hand)
	brokertest.Eventually(t, "a generation with the newcomer", func() bool { return three.m.Generation().ID > before.ID })
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("the newcomer waited %v for someone else's hand-over", d)
	}
	l.wait(2, 2, 2)
	if n := one.count(Lost); n != 0 {
		t.Errorf("lost\n%s", strings.Join(l.log, "\n"))
	}
	if l.moves != 4 {
		t.Errorf("%d moves, want 4\n%s", l.moves, strings.Join(l.log, "\n"))
	}
}

// TestGroupGivesBack: a partition is being handed over when the member that it
// was for leaves again. The first owner finishes and is granted it anew.
func TestGroupGivesBack(t *testing.T) { onFake(t, testGroupGivesBack) }

func testGroupGivesBack(t *testing.T, next bool) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := OpenForTest(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Consumer: next, Group: "g", Topics: []string{in}}
	release := make(chan struct{})
	one := startConsumer(t, l, c, "one", cfg, func(*consumer, GroupEvent) { <-release })
	l.wait(4)
	two := startConsumer(t, l, c, "two", cfg, nil)
	brokertest.Eventually(t, "hand-over", func() bool { n := one.count(Revoked); return n == 1 })
	two.stop(t)
	gen := one.m.Generation()
	if !next { // by the consumer protocol the coordinator waits for the hand-over
		brokertest.Eventually(t, "a generation alone", func() bool { return one.m.Generation().ID > gen.ID })
	}
	if n := one.count(Assigned); n != 1 {
		t.Error("granted anew during the hand-over")
	}
	close(release)
	brokertest.Eventually(t, "granted anew", func() bool { n := one.count(Assigned); return n == 2 })
	l.wait(4)
	one.mu.Lock()
	defer one.mu.Unlock()
	var kinds []GroupEventKind
	for _, e := range one.events {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, []GroupEventKind{Assigned, Revoked, Assigned}) || len(one.events[2].Partitions) != 2 {
		t.Errorf("events %v", one.events)
	}
}

// TestGroupSlowConsumer: a consumer that does not even receive its events does
// not lose its membership, and gets them in order when it comes back.
func TestGroupSlowConsumer(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := OpenForTest(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: time.Second, RebalanceTimeout: time.Second,
		HeartbeatInterval: 50 * time.Millisecond}
	deaf := JoinGroup(context.Background(), c, cfg)
	// The generation is published before it is complete: a second member that joins then would share the first assignment.
	_, err := k.Admin().WaitGroup(brokertest.Within(t), cfg.Group, 1, in)
	brokertest.Must(t, err)
	startConsumer(t, l, c, "two", cfg, nil)
	time.Sleep(3 * time.Second)
	for i, want := range []struct {
		kind GroupEventKind
		n    int
	}{{Assigned, 4}, {Revoked, 2}} {
		e := <-deaf.Events()
		if e.Kind != want.kind || len(e.Partitions) != want.n {
			t.Fatalf("event %d: %v", i, e)
		}
		e.Done()
	}
	l.wait(2)
	go func() {
		for e := range deaf.Events() {
			e.Done()
		}
	}()
	brokertest.Must(t, deaf.Leave(brokertest.Within(t)))
	l.wait(4)
}

// TestGroupStaticRestart: a static member that comes back in time gets its
// partitions back, and no one else notices.
func TestGroupStaticRestart(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 6)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := func(id string) GroupConfig {
			return GroupConfig{Group: "g-" + in, Topics: []string{in}, InstanceID: id, SessionTimeout: 10 * time.Second}
		}
		one := startConsumer(t, l, c, "one", cfg("one"), nil)
		l.wait(6)
		two := startConsumer(t, l, c, "two", cfg("two"), nil)
		l.wait(3, 3)
		for i, end := range []func(x *consumer){
			func(x *consumer) { x.kill(); <-x.done },
			func(x *consumer) { x.stop(t) }, // a static member does not leave
		} {
			gen := one.m.Generation()
			events := len(one.events)
			held := slices.Clone(heldBy(l, "two"))
			end(two)
			start := time.Now()
			two = startConsumer(t, l, OpenForTest(t, k.Brokers), "two", cfg("two"), nil)
			l.wait(3, 3)
			t.Logf("restart %d: assigned after %v", i, time.Since(start).Round(time.Millisecond))
			if got := heldBy(l, "two"); !slices.Equal(got, held) {
				t.Errorf("restart %d: %v, before %v", i, got, held)
			}
			time.Sleep(500 * time.Millisecond)
			if k.Real() { // kfake compares subscriptions, Kafka the names of protocols
				if g := one.m.Generation(); g != gen {
					t.Errorf("restart %d: generation %v, before %v", i, g, gen)
				}
			}
			if len(one.events) != events {
				t.Errorf("restart %d: the other member had events %v", i, one.events[events:])
			}
		}
		// The leader restarts: it is not told that it is the leader.
		one.kill()
		<-one.done
		startConsumer(t, l, c, "one", cfg("one"), nil)
		l.wait(3, 3)
		three := startConsumer(t, l, c, "three", cfg(""), nil)
		l.wait(2, 2, 2)
		three.stop(t)
		l.wait(3, 3)
	})
}

// TestGroupStaticKilledHandingOver: a static member dies between being asked for
// partitions and joining again without them, and comes back. No one else would
// ever make it join, and those partitions would be nobody's.
func TestGroupStaticKilledHandingOver(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 4)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := func(id string) GroupConfig {
			return GroupConfig{Group: "g-" + in, Topics: []string{in}, InstanceID: id, SessionTimeout: 20 * time.Second}
		}
		asked := make(chan struct{})
		one := startConsumer(t, l, c, "one", cfg("one"), func(*consumer, GroupEvent) { close(asked); select {} })
		l.wait(4)
		startConsumer(t, l, c, "two", cfg("two"), nil)
		<-asked
		one.kill()
		<-one.done
		startConsumer(t, l, OpenForTest(t, k.Brokers), "one", cfg("one"), nil)
		l.wait(2, 2)
	})
}

// TestGroupTopicsChange: partitions are added, a topic appears, a static member
// comes back with another subscription. Each is noticed.
func TestGroupTopicsChange(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // it waits, for sessions that run out
		ctx := brokertest.Within(t)
		in, late := k.Topic(t, "in", 2), kafkatest.Unique("late")
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := func(id string, topics ...string) GroupConfig {
			return GroupConfig{Group: "g-" + in, Topics: topics, InstanceID: id, SessionTimeout: 10 * time.Second,
				MetadataInterval: 300 * time.Millisecond}
		}
		one := startConsumer(t, l, c, "one", cfg("one", in, late), nil)
		l.wait(2)
		two := startConsumer(t, l, c, "two", cfg("two", in, late), nil)
		l.wait(1, 1)
		brokertest.Must(t, k.Admin().AddPartitions(ctx, in, 6))
		l.wait(3, 3)
		brokertest.Must(t, k.Admin().CreateTopic(ctx, late, 2, 0, nil))
		defer k.Admin().DeleteTopic(context.Background(), late)
		l.wait(4, 4)
		// Both restart in turn, the leader among them, with fewer topics.
		for _, x := range []struct {
			old *consumer
			id  string
		}{{one, "one"}, {two, "two"}} {
			x.old.kill()
			<-x.old.done
			startConsumer(t, l, c, x.id, cfg(x.id, in), nil)
		}
		l.wait(3, 3)
		brokertest.Must(t, k.Admin().AddPartitions(ctx, in, 10))
		l.wait(5, 5)
	})
}

// TestGroupFind: members subscribe to what Find returns, each at its own time, and hand over what it no longer does.
func TestGroupFind(t *testing.T) {
	protocols(t, func(t *testing.T, k *kafkatest.Cluster, next bool) {
		t.Parallel()
		a, b := k.Topic(t, "a", 2), k.Topic(t, "b", 4)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		var found atomic.Pointer[[]string]
		found.Store(&[]string{a})
		cfg := func(id string, every time.Duration) GroupConfig {
			return GroupConfig{Consumer: next, Group: "g-" + a, Topics: []string{a}, InstanceID: id, SessionTimeout: 10 * time.Second,
				MetadataInterval: every, HeartbeatInterval: 100 * time.Millisecond,
				Find: func(context.Context) ([]string, error) {
					if now := found.Load(); now != nil {
						return *now, nil
					}
					return nil, errors.New("no answer")
				}}
		}
		startConsumer(t, l, c, "one", cfg("one", 100*time.Millisecond), nil)
		l.wait(2)
		startConsumer(t, l, c, "two", cfg("two", 300*time.Millisecond), nil)
		l.wait(1, 1)
		found.Store(&[]string{b, a, b})
		l.wait(3, 3)
		found.Store(nil) // an error changes nothing
		time.Sleep(time.Second)
		l.wait(3, 3)
		found.Store(&[]string{b})
		l.wait(2, 2)
		found.Store(&[]string{}) // nothing matches
		l.wait()
		found.Store(&[]string{a, b})
		l.wait(3, 3)
	})
}

// TestGroupKilled: a dynamic member ends without a word; after the session
// time-out the others have its partitions.
func TestGroupKilled(t *testing.T) {
	protocols(t, func(t *testing.T, k *kafkatest.Cluster, next bool) {
		in := k.Topic(t, "in", 6)
		l := newLedger(t)
		cfg := GroupConfig{Consumer: next, Group: "g-" + in, Topics: []string{in}, SessionTimeout: 2 * time.Second}
		one := startConsumer(t, l, OpenForTest(t, k.Brokers), "one", cfg, nil)
		startConsumer(t, l, OpenForTest(t, k.Brokers), "two", cfg, nil)
		l.wait(3, 3)
		one.kill()
		<-one.done
		start := time.Now()
		if err := one.m.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		l.wait(6)
		t.Logf("taken over after %v", time.Since(start).Round(time.Millisecond))
	})
}

// TestGroupInstanceFenced: the second live worker with an identity shuts the
// first one out, which ends.
func TestGroupInstanceFenced(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 4)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := GroupConfig{Group: "g-" + in, Topics: []string{in}, InstanceID: "same"}
		p := ProducerForTest(t, c, kafkatest.Unique("tx"))
		one := startConsumer(t, l, c, "one", cfg, nil)
		l.wait(4)
		gen := one.m.Generation()
		two := JoinGroup(context.Background(), c, cfg)
		e := <-two.Events()
		if e.Kind != Assigned || len(e.Partitions) != 4 {
			t.Fatal(e)
		}
		<-one.done
		err := one.m.Err()
		groupWantClass(t, "the first", err, InstanceFenced)
		if !strings.Contains(err.Error(), `"same"`) || !strings.Contains(err.Error(), settingInstanceID) {
			t.Error(err)
		}
		if n := one.count(Lost); n != 1 {
			t.Error("no Lost")
		}
		groupWantClass(t, "a commit of the first", p.CommitOffsets(brokertest.Within(t), gen, cfg.Group,
			map[record.TP]Offset{brokertest.TP(in, 0): {Offset: 1}}), InstanceFenced)
		if _, err := one.m.Newer(context.Background(), one.m.Generation()); !errors.Is(err, ErrMembershipLost) {
			t.Error(err)
		}
		go func() {
			for e := range two.Events() {
				e.Done()
			}
		}()
		brokertest.Must(t, two.Leave(brokertest.Within(t)))
	})
}
