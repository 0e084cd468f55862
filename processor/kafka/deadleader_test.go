package kafka

import (
	"context"
	"log/slog"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestGroupDeadLeader: the leader dies between its join and its plan, as one of a worker that crashes again and again does,
// and the coordinator waits for it for a session longer than the others'. A member that waits for the plan keeps its
// partitions, and its commits stop for a part of the session only.
func TestGroupDeadLeader(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in, group := k.Topic(t, "in", 2), kafkatest.Unique("g")
		c := OpenForTest(t, k.Brokers)
		ctx := brokertest.Within(t)
		cl := brokertest.Franz(t, k.Brokers)

		const session, leaderSession = 6 * time.Second, 12 * time.Second
		r := newRawMember(cl, group, leaderSession)
		lead := func(generation int32) *kmsg.JoinGroupResponse {
			t.Helper()
			res, err := r.enter(ctx, &subscription{topics: []string{in}, generation: generation})
			brokertest.Must(t, err)
			return res
		}
		// plan gives both partitions to the other member.
		plan := func(res *kmsg.JoinGroupResponse) error {
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Group, sync.Generation, sync.MemberID = group, res.Generation, res.MemberID
			sync.ProtocolType, sync.Protocol = &r.join.ProtocolType, &r.join.Protocols[0].Name
			for _, m := range res.Members {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = m.MemberID, appendAssignment(nil, 0, false)
				if m.MemberID != res.MemberID {
					a.MemberAssignment = appendAssignment([]record.TP{brokertest.TP(in, 0), brokertest.TP(in, 1)}, 0, false)
				}
				sync.GroupAssignment = append(sync.GroupAssignment, a)
			}
			answer, err := sync.RequestWith(ctx, cl)
			brokertest.Must(t, err)
			return kerr.ErrorForCode(answer.ErrorCode)
		}
		brokertest.Must(t, plan(lead(-1)))
		l := newLedger(t)
		x := startConsumer(t, l, c, "one", GroupConfig{Group: group, Topics: []string{in}, SessionTimeout: session,
			RebalanceTimeout: 15 * time.Second}, nil)
		var joined *kmsg.JoinGroupResponse
		for joined == nil || len(joined.Members) < 2 || plan(joined) != nil {
			generation := int32(-1)
			if joined != nil {
				generation = joined.Generation
			}
			joined = lead(generation)
		}
		l.wait(2)
		last := lead(joined.Generation) // and nothing more
		if last.LeaderID != r.join.MemberID || len(last.Members) != 2 {
			t.Fatalf("leader %s of %d members", last.LeaderID, len(last.Members))
		}
		died := time.Now()
		var gap time.Duration // the longest time without a commit
		for before := died; ; time.Sleep(20 * time.Millisecond) {
			err := x.m.Commit(ctx, func(gen Generation) error {
				once, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				return c.Offsets.CommitOffsets(once, gen, group, map[record.TP]Offset{brokertest.TP(in, 0): {Offset: 1}})
			})
			if err == nil {
				gap = max(gap, time.Since(before))
				before = time.Now()
			}
			if g := x.m.Generation(); time.Since(died) > leaderSession && g.ID > last.Generation && err == nil {
				_, err := k.Admin().WaitGroup(ctx, group, 1, in)
				brokertest.Must(t, err)
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("the group does not go on: %v", err)
			}
		}
		t.Logf("without a commit for %v", gap)
		if gap > session/2 {
			t.Errorf("no commit for %v", gap)
		}
		if n := x.count(Lost) + x.count(Revoked); n > 0 {
			t.Errorf("partitions were lost or revoked %d times: %v", n, x.events)
		}
	})
}

// rawMember is a member of a group that sends what the test tells it to, and nothing more.
type rawMember struct {
	cl   *kgo.Client
	join *kmsg.JoinGroupRequest
}

func newRawMember(cl *kgo.Client, group string, session time.Duration) *rawMember {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = int32(session.Milliseconds()), 15_000
	return &rawMember{cl, join}
}

// enter joins the group, and returns when all members have joined.
func (r *rawMember) enter(ctx context.Context, sub *subscription) (*kmsg.JoinGroupResponse, error) {
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = protocolName, sub.encode()
	r.join.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
	for {
		res, err := r.join.RequestWith(ctx, r.cl)
		if err != nil {
			return nil, err
		}
		r.join.MemberID = res.MemberID
		if res.ErrorCode != kerr.MemberIDRequired.Code {
			return res, kerr.ErrorForCode(res.ErrorCode)
		}
	}
}

// TestGroupDeadNewMembers: members join and die before the others have joined, as a worker does that crashes at its start
// again and again. No partition stands still for their sessions, and one that lives has its share as soon as it has joined
// twice.
func TestGroupDeadNewMembers(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		in, group := k.Topic(t, "in", 6), kafkatest.Unique("g")
		ctx := brokertest.Within(t)
		l := newLedger(t)
		config := GroupConfig{Group: group, Topics: []string{in}, SessionTimeout: 6 * time.Second, RebalanceTimeout: 15 * time.Second,
			HeartbeatInterval: 300 * time.Millisecond}
		x := startConsumer(t, l, OpenForTest(t, k.Brokers), "one", config, nil)
		l.wait(6)
		const dead = 3
		entered := make(chan error, dead)
		for range dead {
			r := newRawMember(brokertest.Franz(t, k.Brokers), group, 6*time.Second)
			go func() {
				_, err := r.enter(ctx, &subscription{topics: []string{in}, generation: -1})
				entered <- err
			}()
		}
		for range dead {
			brokertest.Must(t, <-entered)
		}
		_, err := k.Admin().WaitGroup(ctx, group, 1, in) // their sessions are over
		brokertest.Must(t, err)
		if n := x.count(Lost) + x.count(Revoked); n > 0 {
			t.Errorf("partitions were lost or revoked %d times: %v", n, x.events)
		}
		y := startConsumer(t, l, OpenForTest(t, k.Brokers), "two", config, nil)
		l.wait(3, 3)
		if n := x.count(Lost) + y.count(Lost); n > 0 {
			t.Errorf("partitions were lost %d times", n)
		}
	})
}

// TestSyncDuringRebalance: the answer that another rebalance has begun is one of the coordinator, and begins the session again.
func TestSyncDuringRebalance(t *testing.T) {
	c := GroupConfig{Group: "g", SessionTimeout: time.Second, Log: slog.New(slog.DiscardHandler)}
	s := newMembership(&Member{cfg: c, changed: make(chan struct{})})
	s.held, s.generation, s.call = []record.TP{brokertest.TP("in", 0)}, 3, "sync"
	s.alive = time.Now().Add(-time.Hour)
	if err := s.answered(t.Context(), result{sent: s.alive, err: kafkago.RebalanceInProgress}); err != nil || !s.mustJoin {
		t.Fatalf("joins again: %t, %v", s.mustJoin, err)
	}
	if s.expire(time.Now()); len(s.held) == 0 {
		t.Error("partitions are lost")
	}
}
