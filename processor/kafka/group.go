package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"odradek/processor/kafka/record"

	kafkago "github.com/segmentio/kafka-go"
)

// GroupConfig describes a membership.
type GroupConfig struct {
	Group  string
	Topics []string
	// Consumer selects the consumer protocol (KIP-848) and not the classic one: the coordinator assigns partitions, and the
	// brokers' group.consumer.session.timeout.ms counts; SessionTimeout is only how long the member waits for an answer
	// before it gives up what it holds. A hand-over must end within RebalanceTimeout.
	Consumer bool
	// InstanceID makes the member static (KIP-345): it does not leave when it
	// ends, and one that comes back with the same id within SessionTimeout gets
	// its partitions back without a rebalance. There may be one live member with
	// an id; the newest fences the others off. "" is a dynamic member.
	InstanceID string
	// SessionTimeout is how long the coordinator waits for a heartbeat before it
	// gives the member's partitions to others; default 45 s.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the coordinator waits for all members to join a
	// new generation; default 60 s. A hand-over may take longer than this and than
	// SessionTimeout: the member joins generations while it hands over.
	RebalanceTimeout time.Duration
	// HeartbeatInterval is how soon a rebalance is noticed; default 3 s.
	HeartbeatInterval time.Duration
	// MetadataInterval is the time from one request for the topics' partition counts to the
	// next; default 30 s.
	MetadataInterval time.Duration
	// Find returns the topics to subscribe to from now on, before each of these requests; nil: they stay Topics. After
	// an error they stay as they are. It is not called on the consumer's goroutine.
	Find func(context.Context) ([]string, error)
	Log  *slog.Logger // nil: no log
}

// Names of the worker's settings that errors of this file point to.
const (
	settingInstanceID     = "instance_id"
	settingSessionTimeout = "session_timeout"
	settingGroupProtocol  = "group_protocol"
)

// GroupEventKind is what a GroupEvent means for its partitions.
type GroupEventKind int

const (
	// Assigned means that the partitions are this member's now. Read their committed
	// offsets, not earlier ones.
	Assigned GroupEventKind = iota
	// Revoked means that the partitions have to go to other members. They are still this
	// member's: finish, commit, forget them, then call Done. Until then no one
	// else gets them, and commits are taken.
	Revoked
	// Lost means that the partitions are not this member's any more, and may be another's.
	// No commit is possible. Forget them and call Done.
	Lost
)

// String returns the kind in lower case.
func (k GroupEventKind) String() string { return [...]string{"assigned", "revoked", "lost"}[k] }

// GroupEvent is a change of the partitions that the member holds.
type GroupEvent struct {
	Kind       GroupEventKind
	Generation Generation
	Partitions []record.TP // sorted by topic and partition, never empty
	ack        *ack
}

// ack is closed when the consumer has dealt with an event.
type ack struct {
	once sync.Once
	done chan struct{}
}

// Done reports to the member that the consumer has dealt with the event. It may be called from any
// goroutine, more than once, and for events of all kinds.
func (e GroupEvent) Done() {
	if e.ack != nil {
		e.ack.once.Do(func() { close(e.ack.done) })
	}
}

// ErrMembershipLost says that a member has lost the partitions that it held in the generation
// that was asked about.
var ErrMembershipLost = errors.New("kafka: membership lost")

// Member is a member of a consumer group, by the classic protocol (JoinGroup,
// SyncGroup, Heartbeat) with cooperative rebalancing (KIP-429): partitions that
// stay are worked on without a break while others move.
// Its goroutine never waits for the consumer: heartbeats and rebalances continue while an event waits to be
// received or a hand-over to be done.
type Member struct {
	c           *Cluster
	coordinator Coordinator
	cfg         GroupConfig
	events      chan GroupEvent
	leave       chan context.Context
	ended       chan struct{}
	spare       atomic.Bool

	mu         sync.Mutex
	generation Generation
	lost       bool          // the consumer has yet to deal with a Lost event: generation has ended
	changed    chan struct{} // closed when generation or lost changes
	err        error
	missing    map[string]bool // topics that a plan has waited for in vain, until they are there

	ids map[string]topicID // of topics, in the consumer protocol; of the request in flight
}

// JoinGroup starts a membership. It lasts until Leave, until the context ends
// (at once, without a hand-over: the group finds out after SessionTimeout) or
// until an error that a retry cannot mend, which Err returns.
func JoinGroup(ctx context.Context, c *Client, cfg GroupConfig) *Member {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&cfg.SessionTimeout, 45*time.Second)
	set(&cfg.RebalanceTimeout, 60*time.Second)
	set(&cfg.HeartbeatInterval, 3*time.Second)
	set(&cfg.MetadataInterval, 30*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("group", cfg.Group)
	cfg.Topics = inOrder(cfg.Topics)
	m := &Member{
		c: c.Cluster, coordinator: c.Coordinator(cfg.Group), cfg: cfg,
		events:     make(chan GroupEvent),
		leave:      make(chan context.Context, 1),
		ended:      make(chan struct{}),
		generation: Generation{ID: -1, InstanceID: cfg.InstanceID},
		changed:    make(chan struct{}),
		ids:        map[string]topicID{},
	}
	go m.run(ctx)
	return m
}

// inOrder returns the topics in order, each once.
func inOrder(topics []string) []string {
	topics = slices.Clone(topics)
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Events delivers the changes in order. It is closed when the membership has
// ended; from then on the member holds nothing, regardless of earlier events.
func (m *Member) Events() <-chan GroupEvent { return m.events }

// Generation returns the generation to commit with. It is always one that goes
// with the events received so far: while a Lost event has not been received and
// dealt with (Done, or the next event received), it is the old generation, which
// the coordinator refuses, even if the member has joined a new one already.
func (m *Member) Generation() Generation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}

// Newer waits until the generation to commit with is another than old, and
// returns it. A commit can meet a rebalance that the coordinator has completed
// and that this member has yet to learn of. The member keeps what it holds, and the
// commit can be repeated with the newer generation. If instead the partitions
// are lost, or the membership has ended, the error is ErrMembershipLost.
func (m *Member) Newer(ctx context.Context, old Generation) (Generation, error) {
	for {
		m.mu.Lock()
		gen, lost, changed := m.generation, m.lost, m.changed
		m.mu.Unlock()
		if lost {
			return Generation{}, ErrMembershipLost
		}
		if gen != old {
			return gen, nil
		}
		select {
		case <-changed:
		case <-m.ended:
			return Generation{}, ErrMembershipLost
		case <-ctx.Done():
			return Generation{}, ctx.Err()
		}
	}
}

// Commit calls commit, which commits offsets with the generation that it is given,
// and calls it again where the group refuses that generation and the member still
// holds what it held. There are two such answers:
//
//   - REBALANCE_IN_PROGRESS: the generation is the newest, its members have joined,
//     and the coordinator waits for the leader's SyncGroup. The answer changes when
//     that has come, and no newer generation need follow, so the same generation is
//     tried again after a pause, or a newer one as soon as there is one.
//   - The generation or the member is another one by now: Newer tells which.
//
// It returns what commit returned last: nil, an error of another class, or the
// refusal when the partitions are lost or ctx has ended.
func (m *Member) Commit(ctx context.Context, commit func(Generation) error) error {
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	for gen := m.Generation(); ; {
		err := commit(gen)
		if class := ClassOf(err); class != Rebalance && class != InstanceFenced {
			return err
		}
		pause, stop := ctx, context.CancelFunc(func() {})
		syncing := errors.Is(err, kafkago.RebalanceInProgress)
		if syncing {
			pause, stop = context.WithTimeout(ctx, delay.Next())
		}
		newer, ended := m.Newer(pause, gen)
		stop()
		switch {
		case ended == nil:
			gen = newer
		case errors.Is(ended, ErrMembershipLost), !syncing, ctx.Err() != nil:
			return err
		}
	}
}

// Spare reports whether the member is in the group and the group has no partition for
// it. It turns false when the coordinator has not answered for SessionTimeout.
func (m *Member) Spare() bool { return m.spare.Load() }

// Leave ends the membership: everything is revoked, and when that is done, or when the context ends, a
// dynamic member leaves the group, so that others take its partitions at once. The consumer must receive the
// events meanwhile. It returns Err, or the context's error if the hand-over was cut short. Called again it
// waits for the first call to end.
func (m *Member) Leave(ctx context.Context) error {
	select {
	case m.leave <- ctx:
	default:
	}
	<-m.ended
	return m.Err()
}

// Err returns why the membership ended; nil while it lasts and after Leave. An
// error of class kafka.InstanceFenced means that another live member has the same
// InstanceID.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *Member) publish(gen Generation, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == gen && m.lost == lost {
		return
	}
	m.generation, m.lost = gen, lost
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Member) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	s := newMembership(m)
	err := s.loop(ctx)
	cancel() // a request that is still in flight
	m.mu.Lock()
	m.err = err
	m.lost = true
	m.mu.Unlock()
	m.spare.Store(false)
	if err != nil && ClassOf(err) != Unknown { // not for a context that ended
		m.cfg.Log.Error("group membership ended", "error", err)
	}
	close(m.ended)
	close(m.events)
}

// fatal returns an error that ends the membership, with what the user can do.
func (m *Member) fatal(err error) error {
	hint := ""
	switch {
	case errors.Is(err, kafkago.InconsistentGroupProtocol):
		hint = fmt.Sprintf("; another program is in group %q: choose a group of its own", m.cfg.Group)
	case errors.Is(err, kafkago.InvalidSessionTimeout):
		hint = fmt.Sprintf("; %v is outside the brokers' group.min.session.timeout.ms to group.max.session.timeout.ms: change %s",
			m.cfg.SessionTimeout, settingSessionTimeout)
	case m.cfg.Consumer && errors.Is(err, kafkago.UnsupportedVersion):
		hint = fmt.Sprintf("; the brokers do not let groups use the consumer protocol (group.coordinator.rebalance.protocols, "+
			"group.version): change %s", settingGroupProtocol)
	case errors.Is(err, kafkago.InvalidGroupId):
		hint = "; change the group"
	case errors.Is(err, kafkago.GroupAuthorizationFailed):
		hint = fmt.Sprintf("; the worker needs READ on group %q", m.cfg.Group)
	case errors.Is(err, kafkago.GroupMaxSizeReached):
		hint = "; raise the brokers' group.max.size or run fewer workers"
	case errors.Is(err, kafkago.FencedInstanceID):
		hint = fmt.Sprintf("; another live worker has instance id %q: %s must differ between workers", m.cfg.InstanceID, settingInstanceID)
	}
	return fmt.Errorf("kafka: group %q: %w%s", m.cfg.Group, err, hint)
}
