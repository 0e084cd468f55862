package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// ledger watches who holds what: no two consumers may hold a partition.
type ledger struct {
	t      testing.TB
	mu     sync.Mutex
	holder map[record.TP]string
	log    []string
	moves  int // grants of a partition that another had before
	last   map[record.TP]string
}

func newLedger(t testing.TB) *ledger {
	return &ledger{t: t, holder: map[record.TP]string{}, last: map[record.TP]string{}}
}

func (l *ledger) note(format string, args ...any) {
	l.log = append(l.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (l *ledger) grant(name string, tps []record.TP) {
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

func (l *ledger) drop(name string, tps []record.TP) {
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
	maps.DeleteFunc(l.holder, func(_ record.TP, h string) bool { return h == name })
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

// consumer is a member with a consumer that a test directs.
type consumer struct {
	name   string
	m      *Member
	l      *ledger
	kill   context.CancelFunc
	done   chan struct{}
	hand   func(c *consumer, e GroupEvent) // what a hand-over consists of; nil: nothing
	mu     sync.Mutex
	events []GroupEvent
}

func startConsumer(t testing.TB, l *ledger, c *Client, name string, cfg GroupConfig, hand func(*consumer, GroupEvent)) *consumer {
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
	x := &consumer{name: name, l: l, kill: cancel, done: make(chan struct{}), hand: hand, m: JoinGroup(ctx, c, cfg)}
	go x.run()
	t.Cleanup(func() { cancel(); <-x.done })
	return x
}

func (c *consumer) run() {
	defer close(c.done)
	for e := range c.m.Events() {
		c.mu.Lock()
		c.events = append(c.events, e)
		c.mu.Unlock()
		switch e.Kind {
		case Assigned:
			c.l.grant(c.name, e.Partitions)
		case Revoked:
			// Others of this consumer go on while one set is handed over.
			go func() {
				if c.hand != nil {
					c.hand(c, e)
				}
				c.l.drop(c.name, e.Partitions)
				e.Done()
			}()
		case Lost:
			c.l.drop(c.name, e.Partitions)
			e.Done()
		}
	}
	c.l.dropAll(c.name)
}

func (c *consumer) count(kind GroupEventKind) (events int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Kind == kind {
			events++
		}
	}
	return events
}

func (c *consumer) stop(t testing.TB) {
	t.Helper()
	if err := c.m.Leave(brokertest.Within(t)); err != nil {
		t.Errorf("%s leaves: %v", c.name, err)
	}
	<-c.done
}

// commit commits an offset for partitions with the member's generation.
func commit(ctx context.Context, p *Producer, m *Member, group string, tps []record.TP, offset int64) error {
	offsets := map[record.TP]Offset{}
	for _, tp := range tps {
		offsets[tp] = Offset{Offset: offset, Metadata: m.Generation().MemberID}
	}
	err := m.Commit(ctx, func(gen Generation) error { return p.CommitOffsets(ctx, gen, group, offsets) })
	if err != nil {
		return err
	}
	return p.End(ctx, true)
}

func heldBy(l *ledger, name string) []record.TP {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tps []record.TP
	for tp, h := range l.holder {
		if h == name {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, record.TP.Compare)
	return tps
}

func groupWantClass(t testing.TB, what string, err error, want Class) {
	t.Helper()
	if got := ClassOf(err); got != want {
		t.Fatalf("%s: class %v, want %v: %v", what, got, want, err)
	}
}
