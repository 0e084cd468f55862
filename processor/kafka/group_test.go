package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/brokertest"
)

// ledger watches who holds what: no two consumers may hold a partition.
type ledger struct {
	t      testing.TB
	mu     sync.Mutex
	holder map[TP]string
	log    []string
	moves  int // grants of a partition that another had before
	last   map[TP]string
}

func newLedger(t testing.TB) *ledger {
	return &ledger{t: t, holder: map[TP]string{}, last: map[TP]string{}}
}

func (l *ledger) note(format string, args ...any) {
	l.log = append(l.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (l *ledger) take(name string, tps []TP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("%s takes %v", name, tps)
	for _, tp := range tps {
		if h, ok := l.holder[tp]; ok {
			l.t.Errorf("%s is granted to %s while %s holds it\n%s", tp, name, h, strings.Join(l.log, "\n"))
		}
		l.holder[tp] = name
		if l.last[tp] != "" && l.last[tp] != name {
			l.moves++
		}
		l.last[tp] = name
	}
}

func (l *ledger) drop(name string, tps []TP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("%s drops %v", name, tps)
	for _, tp := range tps {
		if l.holder[tp] != name {
			l.t.Errorf("%s gives back %s, which %q holds\n%s", name, tp, l.holder[tp], strings.Join(l.log, "\n"))
		}
		delete(l.holder, tp)
	}
}

// dropAll is for a consumer that ends without a word.
func (l *ledger) dropAll(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("%s is gone", name)
	maps.DeleteFunc(l.holder, func(_ TP, h string) bool { return h == name })
}

// loads returns how many partitions each consumer holds, sorted.
func (l *ledger) loads() (loads []int, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byName := map[string]int{}
	for _, h := range l.holder {
		byName[h]++
	}
	for _, n := range byName {
		loads = append(loads, n)
		total += n
	}
	slices.Sort(loads)
	return loads, total
}

// wait waits until the consumers hold these numbers of partitions.
func (l *ledger) wait(want ...int) {
	l.t.Helper()
	var loads []int
	for start := time.Now(); time.Since(start) < 40*time.Second; time.Sleep(5 * time.Millisecond) {
		if loads, _ = l.loads(); slices.Equal(loads, want) {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Fatalf("loads %v, want %v\n%s", loads, want, strings.Join(l.log, "\n"))
}

// consumer is a member with a consumer that does what it is told.
type consumer struct {
	name   string
	m      *Member
	l      *ledger
	kill   context.CancelFunc
	done   chan struct{}
	hand   func(c *consumer, e Event) // what a hand-over consists of; nil: nothing
	mu     sync.Mutex
	events []Event
}

func startConsumer(t testing.TB, l *ledger, c *Client, name string, cfg GroupConfig, hand func(*consumer, Event)) *consumer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 6 * time.Second
	}
	if cfg.RebalanceTimeout == 0 {
		cfg.RebalanceTimeout = 10 * time.Second
	}
	if cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = 100 * time.Millisecond
	}
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil)).With("member", name)
	}
	x := &consumer{name: name, l: l, kill: cancel, done: make(chan struct{}), hand: hand, m: c.JoinGroup(ctx, cfg)}
	go x.run()
	t.Cleanup(func() { cancel(); <-x.done })
	return x
}

func (x *consumer) run() {
	defer close(x.done)
	for e := range x.m.Events() {
		x.mu.Lock()
		x.events = append(x.events, e)
		x.mu.Unlock()
		switch e.Kind {
		case Assigned:
			x.l.take(x.name, e.Partitions)
		case Revoked:
			// Others of this consumer go on while one set is handed over.
			go func() {
				if x.hand != nil {
					x.hand(x, e)
				}
				x.l.drop(x.name, e.Partitions)
				e.Done()
			}()
		case Lost:
			x.l.drop(x.name, e.Partitions)
			e.Done()
		}
	}
	x.l.dropAll(x.name)
}

func (x *consumer) count(kind EventKind) (events, partitions int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.events {
		if e.Kind == kind {
			events++
			partitions += len(e.Partitions)
		}
	}
	return events, partitions
}

func (x *consumer) stop(t testing.TB) {
	t.Helper()
	if err := x.m.Leave(within(t, 30*time.Second)); err != nil {
		t.Errorf("%s leaves: %v", x.name, err)
	}
	<-x.done
}

// commit commits an offset for partitions with the member's generation.
func commit(ctx context.Context, p *Producer, m *Member, group string, tps []TP, offset int64) error {
	offsets := map[TP]Offset{}
	for _, tp := range tps {
		offsets[tp] = Offset{offset, m.Generation().MemberID}
	}
	gen := m.Generation()
	for {
		err := p.CommitOffsets(ctx, gen, group, offsets)
		if ClassOf(err) == Rebalance {
			if newer, nerr := m.Newer(ctx, gen); nerr == nil {
				gen = newer
				continue
			}
		}
		if err != nil {
			return err
		}
		return p.End(ctx, true)
	}
}

// TestGroupJoinAndLeave: members come and go, what moves is handed over with a
// commit, and no more moves than must.
func TestGroupJoinAndLeave(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		a, b := k.Topic(t, "a", 7), k.Topic(t, "b", 3)
		cfg := GroupConfig{Group: brokertest.Unique("g"), Topics: []string{a, b}}
		c := open(t, k.Brokers)
		l := newLedger(t)
		hand := func(x *consumer, e Event) {
			p := newProducer(t, c, brokertest.Unique("tx"))
			if err := commit(within(t, 20*time.Second), p, x.m, cfg.Group, e.Partitions, 7); err != nil {
				t.Errorf("%s: commit in the hand-over: %v", x.name, err)
			}
		}
		one := startConsumer(t, l, c, "one", cfg, hand)
		l.wait(10)
		two := startConsumer(t, l, c, "two", cfg, hand)
		l.wait(5, 5)
		three := startConsumer(t, l, open(t, k.Brokers), "three", cfg, hand)
		l.wait(3, 3, 4)
		if l.moves != 5+3 {
			t.Errorf("%d moves, want 8", l.moves)
		}
		if _, err := k.Admin().WaitGroup(within(t, 10*time.Second), cfg.Group, 3, a, b); err != nil {
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
			if n, _ := x.count(Lost); n != 0 {
				t.Errorf("%s lost partitions", x.name)
			}
		}
		offsets, err := k.Admin().Offsets(within(t, 10*time.Second), cfg.Group, true)
		must(t, err)
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
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 6)
	c := open(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: 2 * time.Second, RebalanceTimeout: 3 * time.Second}
	var once sync.Once
	hand := func(x *consumer, e Event) {
		p := newProducer(t, c, "tx-"+x.name)
		once.Do(func() { time.Sleep(7 * time.Second) })
		if err := commit(within(t, 20*time.Second), p, x.m, "g", e.Partitions, 7); err != nil {
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
	eventually(t, "a generation with the newcomer", func() bool { return three.m.Generation().ID > before.ID })
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("the newcomer waited %v for someone else's hand-over", d)
	}
	l.wait(2, 2, 2)
	if n, _ := one.count(Lost); n != 0 {
		t.Errorf("lost\n%s", strings.Join(l.log, "\n"))
	}
	if l.moves != 4 {
		t.Errorf("%d moves, want 4\n%s", l.moves, strings.Join(l.log, "\n"))
	}
}

// TestGroupGivesBack: a partition is being handed over when the member that it
// was for leaves again. The first owner finishes and is granted it anew.
func TestGroupGivesBack(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := open(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Group: "g", Topics: []string{in}}
	release := make(chan struct{})
	one := startConsumer(t, l, c, "one", cfg, func(*consumer, Event) { <-release })
	l.wait(4)
	two := startConsumer(t, l, c, "two", cfg, nil)
	eventually(t, "hand-over", func() bool { n, _ := one.count(Revoked); return n == 1 })
	two.stop(t)
	gen := one.m.Generation()
	eventually(t, "a generation alone", func() bool { return one.m.Generation().ID > gen.ID })
	if n, _ := one.count(Assigned); n != 1 {
		t.Error("granted anew during the hand-over")
	}
	close(release)
	eventually(t, "granted anew", func() bool { n, _ := one.count(Assigned); return n == 2 })
	l.wait(4)
	one.mu.Lock()
	defer one.mu.Unlock()
	var kinds []EventKind
	for _, e := range one.events {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, []EventKind{Assigned, Revoked, Assigned}) || len(one.events[2].Partitions) != 2 {
		t.Errorf("events %v", one.events)
	}
}

// TestGroupSlowConsumer: a consumer that does not even receive its events does
// not lose its membership, and gets them in order when it comes back.
func TestGroupSlowConsumer(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := open(t, k.Brokers)
	l := newLedger(t)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: time.Second, RebalanceTimeout: time.Second, HeartbeatInterval: 50 * time.Millisecond}
	deaf := c.JoinGroup(context.Background(), cfg)
	eventually(t, "join", func() bool { return deaf.Generation().ID > 0 })
	startConsumer(t, l, c, "two", cfg, nil)
	time.Sleep(3 * time.Second)
	for i, want := range []struct {
		kind EventKind
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
	must(t, deaf.Leave(within(t, 10*time.Second)))
	l.wait(4)
}

// TestGroupStaticRestart: a static member that comes back in time gets its
// partitions back, and no one else notices.
func TestGroupStaticRestart(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		in := k.Topic(t, "in", 6)
		c := open(t, k.Brokers)
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
			two = startConsumer(t, l, open(t, k.Brokers), "two", cfg("two"), nil)
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

func heldBy(l *ledger, name string) []TP {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tps []TP
	for tp, h := range l.holder {
		if h == name {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, compareTP)
	return tps
}

// TestGroupTopicsChange: partitions are added, a topic appears, a static member
// comes back with another subscription. Each is noticed.
func TestGroupTopicsChange(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		ctx := within(t, 60*time.Second)
		in, late := k.Topic(t, "in", 2), brokertest.Unique("late")
		c := open(t, k.Brokers)
		l := newLedger(t)
		cfg := func(id string, topics ...string) GroupConfig {
			return GroupConfig{Group: "g-" + in, Topics: topics, InstanceID: id, SessionTimeout: 10 * time.Second, MetadataInterval: 300 * time.Millisecond}
		}
		one := startConsumer(t, l, c, "one", cfg("one", in, late), nil)
		l.wait(2)
		two := startConsumer(t, l, c, "two", cfg("two", in, late), nil)
		l.wait(1, 1)
		must(t, k.Admin().AddPartitions(ctx, in, 6))
		l.wait(3, 3)
		must(t, k.Admin().CreateTopic(ctx, late, 2, 0, nil))
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
		must(t, k.Admin().AddPartitions(ctx, in, 10))
		l.wait(5, 5)
	})
}

// TestGroupKilled: a dynamic member ends without a word; after the session
// time-out the others have its partitions.
func TestGroupKilled(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		in := k.Topic(t, "in", 6)
		l := newLedger(t)
		cfg := GroupConfig{Group: "g-" + in, Topics: []string{in}, SessionTimeout: 2 * time.Second}
		one := startConsumer(t, l, open(t, k.Brokers), "one", cfg, nil)
		startConsumer(t, l, open(t, k.Brokers), "two", cfg, nil)
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
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		in := k.Topic(t, "in", 4)
		c := open(t, k.Brokers)
		l := newLedger(t)
		cfg := GroupConfig{Group: "g-" + in, Topics: []string{in}, InstanceID: "same"}
		p := newProducer(t, c, brokertest.Unique("tx"))
		one := startConsumer(t, l, c, "one", cfg, nil)
		l.wait(4)
		gen := one.m.Generation()
		two := c.JoinGroup(context.Background(), cfg)
		e := <-two.Events()
		if e.Kind != Assigned || len(e.Partitions) != 4 {
			t.Fatal(e)
		}
		<-one.done
		err := one.m.Err()
		wantClass(t, "the first", err, InstanceFenced)
		if !strings.Contains(err.Error(), `"same"`) || !strings.Contains(err.Error(), envInstanceID) {
			t.Error(err)
		}
		if n, _ := one.count(Lost); n != 1 {
			t.Error("no Lost")
		}
		wantClass(t, "a commit of the first", p.CommitOffsets(within(t, 10*time.Second), gen, cfg.Group, map[TP]Offset{{in, 0}: {1, ""}}), InstanceFenced)
		if _, err := one.m.Newer(context.Background(), one.m.Generation()); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		go func() {
			for e := range two.Events() {
				e.Done()
			}
		}()
		must(t, two.Leave(within(t, 10*time.Second)))
	})
}

// TestGroupLostGeneration: a member is expelled and joins again before its
// consumer has seen the Lost event. Until then a commit must carry the dead
// generation, and be refused.
func TestGroupLostGeneration(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	c := open(t, k.Brokers)
	ctx := within(t, 30*time.Second)
	for _, code := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration} {
		group := "g-" + code.Message
		m := c.JoinGroup(ctx, GroupConfig{Group: group, Topics: []string{in}, HeartbeatInterval: 50 * time.Millisecond, SessionTimeout: 5 * time.Second, RebalanceTimeout: time.Second})
		e := <-m.Events()
		old := m.Generation()
		if e.Kind != Assigned || e.Generation != old {
			t.Fatalf("%v in %v", e, old)
		}
		p := newProducer(t, c, "tx-"+code.Message)
		offsets := map[TP]Offset{{in, 0}: {1, ""}}
		must(t, p.CommitOffsets(ctx, old, group, offsets))
		must(t, p.End(ctx, true))

		// The broker answers so once, and has a new generation after the next join.
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Group: group, Err: code})
		must(t, h.Wait(ctx, 1))
		joins := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SyncGroup}, Group: group, Observe: true, Count: -1})
		_ = joins
		time.Sleep(2 * time.Second) // long enough to join again
		if got := m.Generation(); got != old {
			t.Fatalf("generation %v before the consumer knows that %v is lost", got, old)
		}
		wantClass(t, "commit", p.CommitOffsets(ctx, m.Generation(), group, offsets), Rebalance)
		if _, err := m.Newer(ctx, old); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		must(t, p.Abort(ctx))
		e = <-m.Events()
		if e.Kind != Lost || len(e.Partitions) != 2 || e.Generation.ID != old.ID {
			t.Fatal(e)
		}
		e.Done()
		gen, err := m.Newer(ctx, old)
		for errors.Is(err, ErrLost) { // Done has not been seen yet
			time.Sleep(time.Millisecond)
			gen, err = m.Newer(ctx, old)
		}
		must(t, err)
		e = <-m.Events()
		if e.Kind != Assigned || len(e.Partitions) != 2 || e.Generation != gen {
			t.Fatalf("%v in %v", e, gen)
		}
		must(t, p.CommitOffsets(ctx, m.Generation(), group, offsets))
		must(t, p.End(ctx, true))
		go func() {
			for e := range m.Events() {
				e.Done()
			}
		}()
		must(t, m.Leave(ctx))
	}
}

// TestGroupCommitMeetsRebalance: a transaction is under way when the generation
// changes. What the member keeps it can commit, with the newer generation.
func TestGroupCommitMeetsRebalance(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		in, out := k.Topic(t, "in", 4), k.Topic(t, "out", 1)
		c := open(t, k.Brokers)
		ctx := within(t, 60*time.Second)
		l := newLedger(t)
		cfg := GroupConfig{Group: "g-" + in, Topics: []string{in}}
		one := startConsumer(t, l, c, "one", cfg, nil)
		l.wait(4)
		p := newProducer(t, c, brokertest.Unique("tx"))
		gen := one.m.Generation()
		startConsumer(t, l, c, "two", cfg, nil)
		l.wait(2, 2)
		kept := heldBy(l, "one")[0]
		err := p.Send(ctx, batchesOf(t, out, 1, 10, "x"), gen, cfg.Group, map[TP]Offset{kept: {5, "m"}})
		wantClass(t, "send with the old generation", err, Rebalance)
		var oe *OffsetError
		if !errors.As(err, &oe) || oe.TP != kept || oe.Group != cfg.Group {
			t.Error(err)
		}
		wantClass(t, "commit of it", p.End(ctx, true), Rebalance)
		newer, err := one.m.Newer(ctx, gen)
		must(t, err)
		must(t, p.CommitOffsets(ctx, newer, cfg.Group, map[TP]Offset{kept: {5, "m"}}))
		must(t, p.End(ctx, true))
		wantValues(t, k, out, 1, 10, "x")
		got, err := k.Admin().Offsets(ctx, cfg.Group, true)
		must(t, err)
		if len(got) != 1 || got[brokertest.TP{Topic: kept.Topic, Partition: kept.Partition}].Offset != 5 {
			t.Errorf("%v", got)
		}
	})
}

// TestGroupCoordinatorTrouble: the coordinator is not there yet, loads, moves;
// the member goes on without losing anything.
func TestGroupCoordinatorTrouble(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := open(t, k.Brokers)
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
	h = k.Fake.Fault(f(kmsg.Heartbeat, kerr.NotCoordinator), f(kmsg.Heartbeat, kerr.CoordinatorLoadInProgress), f(kmsg.Heartbeat, kerr.CoordinatorNotAvailable))
	must(t, h.Wait(within(t, 20*time.Second), 9))
	two := startConsumer(t, l, c, "two", cfg, nil)
	for range 10 {
		k.Fake.RehashCoordinators()
		time.Sleep(150 * time.Millisecond)
	}
	l.wait(2, 2)
	for _, x := range []*consumer{one, two} {
		if n, _ := x.count(Lost); n != 0 {
			t.Errorf("%s lost partitions", x.name)
		}
	}
	one.stop(t)
	k.Fake.RehashCoordinators()
	l.wait(4)
}

// TestGroupBrokersDown: no broker answers for longer than the session. The
// member says Lost, goes on trying, and comes back with the brokers.
func TestGroupBrokersDown(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{Dir: t.TempDir()})
	in := k.Topic(t, "in", 4)
	l := newLedger(t)
	one := startConsumer(t, l, open(t, k.Brokers), "one", GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: 2 * time.Second}, nil)
	l.wait(4)
	k.Fake.Close()
	start := time.Now()
	l.wait()
	if d := time.Since(start); d < time.Second || d > 10*time.Second {
		t.Errorf("lost after %v", d)
	}
	if n, _ := one.count(Lost); n != 1 {
		t.Error("no Lost")
	}
	must(t, k.Restart(within(t, 20*time.Second)))
	l.wait(4)
}

// TestGroupErrors: what trying again does not help ends the membership, with
// words that say what to change.
func TestGroupErrors(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		in := k.Topic(t, "in", 4)
		c := open(t, k.Brokers)
		f := func(name string, cfg GroupConfig, wants ...string) {
			t.Helper()
			m := c.JoinGroup(context.Background(), cfg)
			select {
			case e, ok := <-m.Events():
				if ok {
					t.Fatalf("%s: %v", name, e)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: no error", name)
			}
			wantClass(t, name, m.Err(), Fatal)
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
		group := brokertest.Unique("g")
		f("session", GroupConfig{Group: group, Topics: []string{in}, SessionTimeout: 10 * time.Millisecond}, "10ms", envSessionTimeout)

		// Another program's consumers, with another assignor.
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(in), kgo.Balancers(kgo.RangeBalancer()))
		must(t, err)
		defer cl.Close()
		go cl.PollFetches(context.Background())
		_, err = k.Admin().WaitGroup(within(t, 30*time.Second), group, 1, in)
		must(t, err)
		f("foreign group", GroupConfig{Group: group, Topics: []string{in}}, group, "another program", envGroup)
	})
}

// TestGroupFatalWhileHolding: the end comes with a Lost event.
func TestGroupFatalWhileHolding(t *testing.T) {
	t.Parallel()
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	l := newLedger(t)
	x := startConsumer(t, l, open(t, k.Brokers), "one", GroupConfig{Group: "g", Topics: []string{in}}, nil)
	l.wait(4)
	k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.GroupAuthorizationFailed, TopLevel: true})
	<-x.done
	if n, _ := x.count(Lost); n != 1 {
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
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	in := k.Topic(t, "in", 4)
	c := open(t, k.Brokers)
	cfg := GroupConfig{Group: "g", Topics: []string{in}, SessionTimeout: 30 * time.Second, HeartbeatInterval: 100 * time.Millisecond}
	m := c.JoinGroup(context.Background(), cfg)
	<-m.Events() // and nothing more is received
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := m.Leave(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
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
	m = c.JoinGroup(context.Background(), cfg)
	time.Sleep(50 * time.Millisecond)
	must(t, m.Leave(within(t, 10*time.Second)))
	must(t, m.Leave(context.Background()))
}

// TestGroupChurn: members come, go, die and are expelled at random while
// coordinators move and hand-overs take their time. No partition is ever held
// twice, and when it is over everything is held.
func TestGroupChurn(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	a, b := k.Topic(t, "a", 9), k.Topic(t, "b", 4)
	l := newLedger(t)
	c := open(t, k.Brokers)
	var mu sync.Mutex
	hand := func(*consumer, Event) {
		mu.Lock()
		d := time.Duration(r.IntN(400)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
	}
	var live []*consumer
	n := 0
	join := func() {
		n++
		cfg := GroupConfig{Group: "g", Topics: []string{a, b}, SessionTimeout: 10 * time.Second, RebalanceTimeout: 5 * time.Second, HeartbeatInterval: 50 * time.Millisecond}
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
