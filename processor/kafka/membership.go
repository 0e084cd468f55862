package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"odradek/processor/kafka/record"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// membership is the state of a Member's goroutine, and of no one else.
//
// Two sets of partitions drive it. target is the newest assignment. held is what the
// consumer holds: granted by an Assigned event, and not yet given back by the Done of
// a Revoked one or taken by a Lost one.
// reconcile turns the difference into events, and held is what the member claims
// whenever it joins. The leader gives no partition away while another claims it.
// So a slow consumer delays a partition's move and nothing else, and a new
// generation may come at any time, also in the middle of a hand-over: one that
// returns a partition while it is being handed over grants it again afterwards.
type membership struct {
	m   *Member
	log *slog.Logger

	memberID   string
	generation int32 // -1: not a member
	leader     bool
	admitted   int32 // broker that answered the last join; -1: none has

	target []record.TP
	digest uint64 // of the partition counts the target was planned with
	held   []record.TP

	revoking []record.TP
	pending  *ack // of the Revoked event for revoking
	queue    []GroupEvent
	lastLost *ack // of the last Lost event, until it is over
	passed   bool // that event has been received

	call    string      // the request in flight, "" none
	calls   chan result // its result
	looks   chan look
	looking bool
	differs int // comparisons in a row whose counts were not the assignment's

	mustJoin bool
	synced   bool      // the last generation was completed, and nothing has failed since but heartbeats
	alive    time.Time // the coordinator's session time-out began here, or later
	retryAt  time.Time // not before this, after an error
	beatAt   time.Time
	topics   []string // of the subscription, in order
	lookAt   time.Time
	delay    backoff
	patience time.Duration // with a leader that has yet to send the plan
	logged   time.Time     // when errors were last logged

	leaving context.Context // nil: no
}

// result is the outcome of a request.
type result struct {
	sent time.Time
	by   int32 // broker
	err  error
	join *joingroup.Response
	sync *syncgroup.Response

	beat     *consumerHeartbeat
	assigned []record.TP
}

func newMembership(m *Member) *membership {
	return &membership{
		m: m, log: m.cfg.Log,
		generation: -1,
		admitted:   -1,
		calls:      make(chan result, 1),
		looks:      make(chan look, 1),
		topics:     m.cfg.Topics,
		mustJoin:   true,
		alive:      time.Now(),
		lookAt:     time.Now().Add(m.cfg.MetadataInterval),
		delay:      newBackoff(50*time.Millisecond, time.Second),
		patience:   m.planPatience(),
	}
}

// loop runs the membership to its end. A nil error is the end that Leave asks for.
func (s *membership) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.reconcile()
		if s.leaving != nil {
			if len(s.held) == 0 && len(s.queue) == 0 {
				s.leaveGroup(ctx)
				return nil
			}
			if err := s.leaving.Err(); err != nil {
				s.leaveGroup(ctx)
				return fmt.Errorf("kafka: group %q: left with %d partitions not handed over: %w", s.m.cfg.Group, len(s.held), err)
			}
		}
		now := time.Now()
		s.expire(now)
		s.start(ctx, now)
		timer.Reset(time.Until(s.next()))
		s.m.spare.Store(s.synced && len(s.held) == 0 && len(s.queue) == 0 &&
			(s.waiting() || now.Sub(s.alive) <= s.m.cfg.SessionTimeout))

		// Channels that do not apply at the moment are nil: select ignores them.
		var deliver chan<- GroupEvent
		var head GroupEvent
		if len(s.queue) > 0 {
			deliver, head = s.m.events, s.queue[0]
		}
		var revoked, over, hurry <-chan struct{}
		if s.pending != nil {
			revoked = s.pending.done
		}
		if s.lastLost != nil && s.passed {
			over = s.lastLost.done
		}
		if s.leaving != nil {
			hurry = s.leaving.Done()
		}
		select {
		case deliver <- head:
			s.queue = s.queue[1:]
			s.delivered(head)
		case <-revoked:
			s.handedOver()
		case <-over:
			s.lossIsOver()
		case r := <-s.calls:
			if err := s.answered(ctx, r); err != nil {
				s.lose("membership has ended")
				s.drain(ctx)
				return err
			}
		case l := <-s.looks:
			s.compare(l)
		case lctx := <-s.m.leave:
			s.leaving = lctx //nolint:fatcontext // another context, not one around this
			s.log.Info("leaving the group", "partitions", len(s.held))
		case <-hurry:
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("kafka: group %q: %w", s.m.cfg.Group, context.Cause(ctx))
		}
	}
}

// reconcile turns the difference between target and held into events.
func (s *membership) reconcile() {
	target := s.target
	if s.leaving != nil {
		target = nil
	}
	if s.pending == nil {
		if gone := without(s.held, target); len(gone) > 0 {
			s.revoking = gone
			s.pending = s.push(Revoked, gone)
			s.logMove("partitions revoked", gone)
		}
	}
	if fresh := without(target, s.held); len(fresh) > 0 {
		s.held = append(slices.Clone(s.held), fresh...)
		slices.SortFunc(s.held, record.TP.Compare)
		s.push(Assigned, fresh)
		s.logMove("partitions assigned", fresh)
	}
}

func (s *membership) push(kind GroupEventKind, tps []record.TP) *ack {
	a := &ack{done: make(chan struct{})}
	s.queue = append(s.queue, GroupEvent{Kind: kind, Generation: s.identity(), Partitions: slices.Clone(tps), ack: a})
	return a
}

// logMove logs that partitions come or go, in one line: a worker may have hundreds of them.
func (s *membership) logMove(what string, tps []record.TP) {
	s.log.Info(what, "generation", s.generation, "partitions", len(tps), "first", tps[0].String())
}

func (s *membership) identity() Generation {
	return Generation{ID: s.generation, MemberID: s.memberID, InstanceID: s.m.cfg.InstanceID}
}

func (s *membership) delivered(e GroupEvent) {
	switch {
	case s.lastLost == nil:
	case e.ack == s.lastLost:
		s.passed = true
	case s.passed:
		s.lossIsOver() // a consumer that receives the next event has dealt with the one before
	}
}

// lossIsOver lets Generation move on: the consumer knows now that it holds
// nothing from before.
func (s *membership) lossIsOver() {
	s.lastLost, s.passed = nil, false
	if s.generation >= 0 {
		s.m.publish(s.identity(), false)
	}
}

// handedOver handles the Done of a Revoked event. Partitions that are not in the newest assignment are free to move;
// the next JoinGroup tells the leader so.
func (s *membership) handedOver() {
	s.held = without(s.held, s.revoking)
	if len(without(s.revoking, s.target)) > 0 && s.leaving == nil {
		s.mustJoin = true
	}
	s.revoking, s.pending = nil, nil
}

// lose drops everything: the coordinator has given it to others, or may have.
func (s *membership) lose(why string) {
	if len(s.held) > 0 {
		s.log.Warn("partitions lost", "generation", s.generation, "partitions", len(s.held), "first", s.held[0].String(), "why", why)
		// The consumer works with partitions of the old membership until it gets
		// to this event. If Generation moved on before, a commit for them in the
		// meantime would carry a new, valid generation, and be taken although
		// another member may have them.
		s.m.publish(s.m.Generation(), true)
		s.lastLost, s.passed = s.push(Lost, s.held), false
	}
	s.held, s.target, s.revoking, s.pending = nil, nil, nil, nil
	s.generation, s.leader, s.mustJoin, s.synced = -1, false, true, false
}

// expire gives the session up when the coordinator has not answered for as long as it
// waits for a member. While a join or a sync waits, it expects no heartbeat.
func (s *membership) expire(now time.Time) {
	if s.waiting() || len(s.held) == 0 {
		return
	}
	if now.Sub(s.alive) > s.m.cfg.SessionTimeout {
		s.lose("no heartbeat has got through for the session timeout")
	}
}

// waiting reports whether the request in flight is one that the coordinator answers when
// the other members are ready. Until then it expects no heartbeats.
func (s *membership) waiting() bool { return s.call == "join" || s.call == "sync" }

// next returns when the loop has something to do without being woken.
func (s *membership) next() time.Time {
	next := s.lookAt
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if s.call == "" {
		switch {
		case s.mustJoin:
			earlier(s.retryAt)
		case s.retryAt.After(s.beatAt):
			earlier(s.retryAt)
		default:
			earlier(s.beatAt)
		}
	}
	if !s.waiting() && len(s.held) > 0 {
		earlier(s.alive.Add(s.m.cfg.SessionTimeout + time.Millisecond))
	}
	return next
}

// start sends what is due: one request of the group protocol at a time, and
// apart from that a request for metadata.
func (s *membership) start(ctx context.Context, now time.Time) {
	if s.call == "" && !now.Before(s.retryAt) {
		switch due := !now.Before(s.beatAt); {
		case s.m.cfg.Consumer && (s.mustJoin || due):
			s.beat(ctx)
		case s.mustJoin:
			s.join(ctx)
		case due:
			s.heartbeat(ctx)
		}
	}
	if !now.Before(s.lookAt) {
		s.lookAt = now.Add(s.m.cfg.MetadataInterval)
		if !s.looking && !s.mustJoin && !s.waiting() {
			s.looking = true
			topics := s.topics
			go func() {
				if find := s.m.cfg.Find; find != nil {
					found, err := find(ctx)
					if err != nil {
						s.log.Warn("cannot look for topics; trying again", "error", err)
					} else {
						topics = inOrder(found)
					}
				}
				counts, _ := s.m.counts(ctx, topics, 0) // nil on an error: another time
				s.looks <- look{topics, counts}
			}()
		}
	}
}

// request sends a request to the group's coordinator, in the background. before, if it
// is not nil, completes the request there first.
func (s *membership) request(ctx context.Context, name string, timeout time.Duration, req protocol.Message,
	before func() error, read func(protocol.Message, *result)) {
	s.call = name
	m := s.m
	go func() {
		r := result{sent: time.Now()}
		if before != nil {
			if r.err = before(); r.err != nil {
				s.calls <- r
				return
			}
		}
		var res protocol.Message
		if res, r.err = m.coordinator.RoundTripWithin(ctx, timeout, req); r.err == nil {
			read(res, &r)
			r.by = m.coordinator.broker()
		}
		s.calls <- r
	}()
}

func (s *membership) join(ctx context.Context) {
	cfg := &s.m.cfg
	sub := subscription{topics: s.topics, owned: s.held, generation: s.generation}
	if s.leaving != nil && cfg.InstanceID == "" {
		// A member that hands over and leaves wants nothing new. A static member leaves
		// its subscription behind for the one that comes back.
		sub.topics = nil
	}
	s.mustJoin = false
	s.request(ctx, "join", s.m.c.RequestTimeout()+cfg.RebalanceTimeout, &joingroup.Request{
		GroupID:            cfg.Group,
		SessionTimeoutMS:   int32(cfg.SessionTimeout.Milliseconds()),
		RebalanceTimeoutMS: int32(cfg.RebalanceTimeout.Milliseconds()),
		MemberID:           s.memberID,
		GroupInstanceID:    cfg.InstanceID,
		ProtocolType:       "consumer",
		Protocols:          []joingroup.RequestProtocol{{Name: protocolName, Metadata: sub.encode()}},
	}, nil, func(res protocol.Message, r *result) {
		r.join = res.(*joingroup.Response)
		r.err = newCodeError(r.join.ErrorCode)
	})
}

func (s *membership) synchronize(ctx context.Context, members []joingroup.ResponseMember) {
	m := s.m
	req := &syncgroup.Request{
		GroupID: m.cfg.Group, GenerationID: s.generation, MemberID: s.memberID, GroupInstanceID: m.cfg.InstanceID,
		ProtocolType: "consumer", ProtocolName: protocolName, // kafka-go would send "" where null is meant
	}
	var plan func() error
	if s.leader {
		plan = func() (err error) {
			req.Assignments, err = m.plan(ctx, members)
			return err
		}
	}
	// Until the leader has sent its plan, no commit is taken. One that has died is noticed when its session is over, and
	// leaves this to its successor. A member that joins again meanwhile, in another generation than before, takes the group
	// back to where it waits for members: there commits are taken. The leader may only be slow, so the next one gets more
	// time, but not the whole session, after which this member would give up what it holds.
	timeout := s.patience
	s.patience = min(2*timeout, m.cfg.SessionTimeout*2/3)
	s.request(ctx, "sync", timeout, req, plan, func(res protocol.Message, r *result) {
		r.sync = res.(*syncgroup.Response)
		r.err = newCodeError(r.sync.ErrorCode)
	})
}

// planPatience returns how long a member waits for the leader's plan at first.
func (m *Member) planPatience() time.Duration {
	return max(m.cfg.SessionTimeout/8, min(time.Second, m.cfg.SessionTimeout/2))
}

func (s *membership) heartbeat(ctx context.Context) {
	cfg := &s.m.cfg
	// Several attempts have to fit into the session.
	timeout := min(s.m.c.RequestTimeout(), max(cfg.SessionTimeout/3, 500*time.Millisecond))
	s.request(ctx, "heartbeat", timeout, &heartbeatRequest{
		GroupID: cfg.Group, GenerationID: s.generation, MemberID: s.memberID, GroupInstanceID: cfg.InstanceID,
	}, nil, func(res protocol.Message, r *result) { r.err = newCodeError(res.(*heartbeatResponse).ErrorCode) })
}

// answered handles the result of a request. An error is the end of the membership.
func (s *membership) answered(ctx context.Context, r result) error {
	call := s.call
	s.call = ""
	now := time.Now()
	if r.err != nil {
		return s.failed(call, r, now)
	}
	switch call {
	case "join":
		s.memberID, s.generation, s.admitted = r.join.MemberID, r.join.GenerationID, r.by
		s.leader = r.join.LeaderID == r.join.MemberID && len(r.join.Members) > 0
		s.alive = now // the session begins when the last member has joined
		if s.lastLost == nil {
			// What is held was claimed in this join. No one else gets it in this
			// generation, and the old one is void: commits have to carry the new one.
			s.m.publish(s.identity(), false)
		}
		s.log.Info("joined the group", "generation", s.generation, "member", s.memberID,
			"leader", s.leader, "members", len(r.join.Members))
		s.synchronize(ctx, r.join.Members)
	case "sync":
		tps, digest, owes, err := parseAssignment(r.sync.Assignments)
		if err != nil {
			return s.failed(call, result{sent: r.sent, err: err}, now)
		}
		s.target, s.digest, s.differs, s.synced = tps, digest, 0, true
		if owes && len(without(s.held, tps)) == 0 {
			// Either this is its first generation (settled). Or the claim was made by a static
			// member that died before it had handed partitions over and joined again. This member
			// has come back in its place with its assignment (KIP-345), and holds nothing of what
			// others wait for.
			s.log.Info("no partition is left to hand over; rejoining", "generation", s.generation)
			s.mustJoin = true
		}
		s.alive = now
		s.patience = s.m.planPatience()
		s.beatAt = now.Add(s.m.cfg.HeartbeatInterval)
		s.recovered()
	case "heartbeat":
		s.alive = r.sent
		s.beatAt = r.sent.Add(s.m.cfg.HeartbeatInterval)
		s.recovered()
	case "beat":
		if s.generation < 0 {
			s.log.Info("joined the group", "epoch", r.beat.next, "member", s.memberID)
		}
		s.generation, s.alive, s.synced = r.beat.next, r.sent, true
		if s.lastLost == nil {
			s.m.publish(s.identity(), false)
		}
		if r.beat.assigned {
			s.target = r.assigned
		}
		s.beatAt = r.sent.Add(min(s.m.cfg.HeartbeatInterval, r.beat.interval))
		s.recovered()
	}
	return nil
}

func (s *membership) recovered() {
	s.delay.Reset()
	s.retryAt, s.logged = time.Time{}, time.Time{}
}

// failed handles the error of a request.
func (s *membership) failed(call string, r result, now time.Time) error {
	m := s.m
	var code kafkago.Error
	errors.As(r.err, &code)
	if call == "join" || call == "sync" {
		s.mustJoin, s.synced = true, false // the generation was not completed
	}
	switch code {
	case kafkago.MemberIDRequired: // KIP-394: the first join of a dynamic member only names it
		if r.join != nil && r.join.MemberID != "" && r.join.MemberID != s.memberID {
			s.memberID = r.join.MemberID
			return nil
		}
	case kafkago.RebalanceInProgress:
		s.mustJoin = true
		if call == "heartbeat" {
			s.alive = r.sent // the coordinator has taken it as one
			s.recovered()
			return nil
		}
		if call == "sync" {
			s.alive = now // the session begins again, as after a plan: the member was waiting until now
			return nil
		}
	case kafkago.UnknownMemberId:
		s.lose("the coordinator does not know the member")
		s.memberID = ""
	case kafkago.IllegalGeneration, codeFencedMemberEpoch:
		s.lose("the group has gone on without the member")
	case codeUnreleasedInstanceID:
		// The member before was killed: it keeps its id for its session. It may also be alive, and then keeps it for longer.
	case kafkago.NotCoordinatorForGroup, kafkago.GroupCoordinatorNotAvailable:
		m.coordinator.Forget()
	case kafkago.FencedInstanceID:
		if s.admitted < 0 || r.by == s.admitted {
			return m.fatal(r.err)
		}
		// Another broker has admitted this member than the one that does not know it: maybe one that was frozen, and did not know yet that
		// the group was not its own any more. So it need not be another worker that has the instance id. If there is one, this
		// member takes the id from it, and that one is told so by the broker that admitted it.
		s.lose("the coordinator knows the instance under another member id than the broker that admitted it")
		s.memberID, s.admitted = "", -1
	default:
		if c := ClassOf(code); c == Fatal || c == InstanceFenced || errors.Is(r.err, ErrClosed) {
			return m.fatal(r.err)
		}
	}
	s.retryAt = now.Add(s.delay.Next())
	if now.Sub(s.logged) > 30*time.Second { // once in a while: it may take hours
		s.logged = now
		s.log.Warn("group request failed; trying again", "request", call, "error", r.err)
	}
	return nil
}

// look is what a request for metadata has found.
type look struct {
	topics []string       // to subscribe to
	counts map[string]int // of their partitions; nil: the request failed
}

// compare compares the topics with the subscription's, and the partition counts with the ones that the assignment was made
// for. A member with another subscription joins again. Where counts differ the leader joins again, to make a new plan. Another member
// waits for that until the second comparison: a static leader that has restarted does not
// learn that it is the leader (KIP-814), and the leader does not learn of a static
// member's new subscription.
func (s *membership) compare(l look) {
	s.looking = false
	counts := l.counts
	if !s.mustJoin && !s.waiting() && s.leaving == nil && !slices.Equal(l.topics, s.topics) {
		s.log.Info("other topics match; rejoining", "topics", len(l.topics), "new", less(l.topics, s.topics), "gone", less(s.topics, l.topics))
		s.topics, s.mustJoin = l.topics, true
		return
	}
	if counts == nil || s.mustJoin || s.generation < 0 || s.waiting() || s.digest == 0 {
		return
	}
	if countsDigest(s.topics, counts) == s.digest {
		s.differs = 0
		return
	}
	if s.differs++; s.leader || s.differs > 1 {
		s.log.Info("topics have changed; rejoining", "partitions", counts)
		s.mustJoin = true
	}
}

// less returns the topics of a that are not in b.
func less(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(t string) bool { return slices.Contains(b, t) })
}

// leaveGroup takes a dynamic member out of the group.
func (s *membership) leaveGroup(ctx context.Context) {
	m := s.m
	if m.cfg.InstanceID != "" && !m.cfg.Consumer || s.memberID == "" || m.cfg.Consumer && s.generation < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	delay := newBackoff(50*time.Millisecond, time.Second)
	for {
		err := s.sendLeave(ctx)
		if err == nil || errors.Is(err, kafkago.UnknownMemberId) {
			return
		}
		m.coordinator.Forget()
		if c := ClassOf(err); c == Fatal || delay.Wait(ctx) != nil {
			s.log.Warn("could not leave the group; its session will time out", "error", err)
			return
		}
	}
}

func (s *membership) sendLeave(ctx context.Context) error {
	m := s.m
	if m.cfg.Consumer {
		h := s.newHeartbeat(leavingEpoch)
		if m.cfg.InstanceID != "" {
			h.epoch = pausingEpoch
		}
		_, err := m.coordinator.RoundTripWithin(ctx, m.c.RequestTimeout(), h)
		if err == nil {
			err = newCodeError(h.code)
		}
		return err
	}
	res, err := m.coordinator.RoundTripWithin(ctx, m.c.RequestTimeout(), &leaveGroupRequest{
		GroupID: m.cfg.Group, MemberID: s.memberID, Members: []leaveGroupMember{{MemberID: s.memberID}},
	})
	if err == nil {
		err = leaveError(res.(*leaveGroupResponse))
	}
	return err
}

func leaveError(r *leaveGroupResponse) error {
	if r.ErrorCode != 0 {
		return newCodeError(r.ErrorCode)
	}
	for i := range r.Members {
		if r.Members[i].ErrorCode != 0 {
			return newCodeError(r.Members[i].ErrorCode)
		}
	}
	return nil
}

// drain delivers the last events of a membership that has failed.
func (s *membership) drain(ctx context.Context) {
	var hurry <-chan struct{}
	for len(s.queue) > 0 {
		if s.leaving != nil {
			hurry = s.leaving.Done()
		}
		select {
		case s.m.events <- s.queue[0]:
			s.queue = s.queue[1:]
		case s.leaving = <-s.m.leave:
		case <-hurry:
			return
		case <-ctx.Done():
			return
		}
	}
}
