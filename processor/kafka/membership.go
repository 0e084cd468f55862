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
func (mm *membership) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		mm.reconcile()
		if mm.leaving != nil {
			if len(mm.held) == 0 && len(mm.queue) == 0 {
				mm.leaveGroup(ctx)
				return nil
			}
			if err := mm.leaving.Err(); err != nil {
				mm.leaveGroup(ctx)
				return fmt.Errorf("kafka: group %q: left with %d partitions not handed over: %w", mm.m.cfg.Group, len(mm.held), err)
			}
		}
		now := time.Now()
		mm.expire(now)
		mm.start(ctx, now)
		timer.Reset(time.Until(mm.next()))
		mm.m.spare.Store(mm.synced && len(mm.held) == 0 && len(mm.queue) == 0 &&
			(mm.waiting() || now.Sub(mm.alive) <= mm.m.cfg.SessionTimeout))

		// Channels that do not apply at the moment are nil: select ignores them.
		var deliver chan<- GroupEvent
		var head GroupEvent
		if len(mm.queue) > 0 {
			deliver, head = mm.m.events, mm.queue[0]
		}
		var revoked, over, hurry <-chan struct{}
		if mm.pending != nil {
			revoked = mm.pending.done
		}
		if mm.lastLost != nil && mm.passed {
			over = mm.lastLost.done
		}
		if mm.leaving != nil {
			hurry = mm.leaving.Done()
		}
		select {
		case deliver <- head:
			mm.queue = mm.queue[1:]
			mm.delivered(head)
		case <-revoked:
			mm.handedOver()
		case <-over:
			mm.lossIsOver()
		case r := <-mm.calls:
			if err := mm.answered(ctx, r); err != nil {
				mm.lose("membership has ended")
				mm.drain(ctx)
				return err
			}
		case l := <-mm.looks:
			mm.compare(l)
		case lctx := <-mm.m.leave:
			mm.leaving = lctx //nolint:fatcontext // another context, not one around this
			mm.log.Info("leaving the group", "partitions", len(mm.held))
		case <-hurry:
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("kafka: group %q: %w", mm.m.cfg.Group, context.Cause(ctx))
		}
	}
}

// reconcile turns the difference between target and held into events.
func (mm *membership) reconcile() {
	target := mm.target
	if mm.leaving != nil {
		target = nil
	}
	if mm.pending == nil {
		if gone := without(mm.held, target); len(gone) > 0 {
			mm.revoking = gone
			mm.pending = mm.push(Revoked, gone)
			mm.logMove("partitions revoked", gone)
		}
	}
	if fresh := without(target, mm.held); len(fresh) > 0 {
		mm.held = append(slices.Clone(mm.held), fresh...)
		slices.SortFunc(mm.held, record.TP.Compare)
		mm.push(Assigned, fresh)
		mm.logMove("partitions assigned", fresh)
	}
}

func (mm *membership) push(kind GroupEventKind, tps []record.TP) *ack {
	a := &ack{done: make(chan struct{})}
	mm.queue = append(mm.queue, GroupEvent{Kind: kind, Generation: mm.identity(), Partitions: slices.Clone(tps), ack: a})
	return a
}

// logMove logs that partitions come or go, in one line: a worker may have hundreds of them.
func (mm *membership) logMove(what string, tps []record.TP) {
	mm.log.Info(what, "generation", mm.generation, "partitions", len(tps), "first", tps[0].String())
}

func (mm *membership) identity() Generation {
	return Generation{ID: mm.generation, MemberID: mm.memberID, InstanceID: mm.m.cfg.InstanceID}
}

func (mm *membership) delivered(e GroupEvent) {
	switch {
	case mm.lastLost == nil:
	case e.ack == mm.lastLost:
		mm.passed = true
	case mm.passed:
		mm.lossIsOver() // a consumer that receives the next event has dealt with the one before
	}
}

// lossIsOver lets Generation move on: the consumer knows now that it holds
// nothing from before.
func (mm *membership) lossIsOver() {
	mm.lastLost, mm.passed = nil, false
	if mm.generation >= 0 {
		mm.m.publish(mm.identity(), false)
	}
}

// handedOver handles the Done of a Revoked event. Partitions that are not in the newest assignment are free to move;
// the next JoinGroup tells the leader so.
func (mm *membership) handedOver() {
	mm.held = without(mm.held, mm.revoking)
	if len(without(mm.revoking, mm.target)) > 0 && mm.leaving == nil {
		mm.mustJoin = true
	}
	mm.revoking, mm.pending = nil, nil
}

// lose drops everything: the coordinator has given it to others, or may have.
func (mm *membership) lose(why string) {
	if len(mm.held) > 0 {
		mm.log.Warn("partitions lost", "generation", mm.generation, "partitions", len(mm.held), "first", mm.held[0].String(), "why", why)
		// The consumer works with partitions of the old membership until it gets
		// to this event. If Generation moved on before, a commit for them in the
		// meantime would carry a new, valid generation, and be taken although
		// another member may have them.
		mm.m.publish(mm.m.Generation(), true)
		mm.lastLost, mm.passed = mm.push(Lost, mm.held), false
	}
	mm.held, mm.target, mm.revoking, mm.pending = nil, nil, nil, nil
	mm.generation, mm.leader, mm.mustJoin, mm.synced = -1, false, true, false
}

// expire gives the session up when the coordinator has not answered for as long as it
// waits for a member. While a join or a sync waits, it expects no heartbeat.
func (mm *membership) expire(now time.Time) {
	if mm.waiting() || len(mm.held) == 0 {
		return
	}
	if now.Sub(mm.alive) > mm.m.cfg.SessionTimeout {
		mm.lose("no heartbeat has got through for the session timeout")
	}
}

// waiting reports whether the request in flight is one that the coordinator answers when
// the other members are ready. Until then it expects no heartbeats.
func (mm *membership) waiting() bool { return mm.call == "join" || mm.call == "sync" }

// next returns when the loop has something to do without being woken.
func (mm *membership) next() time.Time {
	next := mm.lookAt
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if mm.call == "" {
		switch {
		case mm.mustJoin:
			earlier(mm.retryAt)
		case mm.retryAt.After(mm.beatAt):
			earlier(mm.retryAt)
		default:
			earlier(mm.beatAt)
		}
	}
	if !mm.waiting() && len(mm.held) > 0 {
		earlier(mm.alive.Add(mm.m.cfg.SessionTimeout + time.Millisecond))
	}
	return next
}

// start sends what is due: one request of the group protocol at a time, and
// apart from that a request for metadata.
func (mm *membership) start(ctx context.Context, now time.Time) {
	if mm.call == "" && !now.Before(mm.retryAt) {
		switch due := !now.Before(mm.beatAt); {
		case mm.m.cfg.Consumer && (mm.mustJoin || due):
			mm.beat(ctx)
		case mm.mustJoin:
			mm.join(ctx)
		case due:
			mm.heartbeat(ctx)
		}
	}
	if !now.Before(mm.lookAt) {
		mm.lookAt = now.Add(mm.m.cfg.MetadataInterval)
		if !mm.looking && !mm.mustJoin && !mm.waiting() {
			mm.looking = true
			topics := mm.topics
			go func() {
				if find := mm.m.cfg.Find; find != nil {
					found, err := find(ctx)
					if err != nil {
						mm.log.Warn("cannot look for topics; trying again", "error", err)
					} else {
						topics = inOrder(found)
					}
				}
				counts, _ := mm.m.counts(ctx, topics, 0) // nil on an error: another time
				mm.looks <- look{topics, counts}
			}()
		}
	}
}

// request sends a request to the group's coordinator, in the background. before, if it
// is not nil, completes the request there first.
func (mm *membership) request(ctx context.Context, name string, timeout time.Duration, req protocol.Message,
	before func() error, read func(protocol.Message, *result)) {
	mm.call = name
	m := mm.m
	go func() {
		r := result{sent: time.Now()}
		if before != nil {
			if r.err = before(); r.err != nil {
				mm.calls <- r
				return
			}
		}
		var res protocol.Message
		if res, r.err = m.coordinator.RoundTripWithin(ctx, timeout, req); r.err == nil {
			read(res, &r)
			r.by = m.coordinator.broker()
		}
		mm.calls <- r
	}()
}

func (mm *membership) join(ctx context.Context) {
	cfg := &mm.m.cfg
	sub := subscription{topics: mm.topics, owned: mm.held, generation: mm.generation}
	if mm.leaving != nil && cfg.InstanceID == "" {
		// A member that hands over and leaves wants nothing new. A static member leaves
		// its subscription behind for the one that comes back.
		sub.topics = nil
	}
	mm.mustJoin = false
	mm.request(ctx, "join", mm.m.c.RequestTimeout()+cfg.RebalanceTimeout, &joingroup.Request{
		GroupID:            cfg.Group,
		SessionTimeoutMS:   int32(cfg.SessionTimeout.Milliseconds()),
		RebalanceTimeoutMS: int32(cfg.RebalanceTimeout.Milliseconds()),
		MemberID:           mm.memberID,
		GroupInstanceID:    cfg.InstanceID,
		ProtocolType:       "consumer",
		Protocols:          []joingroup.RequestProtocol{{Name: protocolName, Metadata: sub.encode()}},
	}, nil, func(res protocol.Message, r *result) {
		r.join = res.(*joingroup.Response)
		r.err = newCodeError(r.join.ErrorCode)
	})
}

func (mm *membership) synchronize(ctx context.Context, members []joingroup.ResponseMember) {
	m := mm.m
	req := &syncgroup.Request{
		GroupID: m.cfg.Group, GenerationID: mm.generation, MemberID: mm.memberID, GroupInstanceID: m.cfg.InstanceID,
		ProtocolType: "consumer", ProtocolName: protocolName, // kafka-go would send "" where null is meant
	}
	var plan func() error
	if mm.leader {
		plan = func() (err error) {
			req.Assignments, err = m.plan(ctx, members)
			return err
		}
	}
	// Until the leader has sent its plan, no commit is taken. One that has died is noticed when its session is over, and
	// leaves this to its successor. A member that joins again meanwhile, in another generation than before, takes the group
	// back to where it waits for members: there commits are taken. The leader may only be slow, so the next one gets more
	// time, but not the whole session, after which this member would give up what it holds.
	timeout := mm.patience
	mm.patience = min(2*timeout, m.cfg.SessionTimeout*2/3)
	mm.request(ctx, "sync", timeout, req, plan, func(res protocol.Message, r *result) {
		r.sync = res.(*syncgroup.Response)
		r.err = newCodeError(r.sync.ErrorCode)
	})
}

// planPatience returns how long a member waits for the leader's plan at first.
func (m *Member) planPatience() time.Duration {
	return max(m.cfg.SessionTimeout/8, min(time.Second, m.cfg.SessionTimeout/2))
}

func (mm *membership) heartbeat(ctx context.Context) {
	cfg := &mm.m.cfg
	// Several attempts have to fit into the session.
	timeout := min(mm.m.c.RequestTimeout(), max(cfg.SessionTimeout/3, 500*time.Millisecond))
	mm.request(ctx, "heartbeat", timeout, &heartbeatRequest{
		GroupID: cfg.Group, GenerationID: mm.generation, MemberID: mm.memberID, GroupInstanceID: cfg.InstanceID,
	}, nil, func(res protocol.Message, r *result) { r.err = newCodeError(res.(*heartbeatResponse).ErrorCode) })
}

// answered handles the result of a request. An error is the end of the membership.
func (mm *membership) answered(ctx context.Context, r result) error {
	call := mm.call
	mm.call = ""
	now := time.Now()
	if r.err != nil {
		return mm.failed(call, r, now)
	}
	switch call {
	case "join":
		mm.memberID, mm.generation, mm.admitted = r.join.MemberID, r.join.GenerationID, r.by
		mm.leader = r.join.LeaderID == r.join.MemberID && len(r.join.Members) > 0
		mm.alive = now // the session begins when the last member has joined
		if mm.lastLost == nil {
			// What is held was claimed in this join. No one else gets it in this
			// generation, and the old one is void: commits have to carry the new one.
			mm.m.publish(mm.identity(), false)
		}
		mm.log.Info("joined the group", "generation", mm.generation, "member", mm.memberID,
			"leader", mm.leader, "members", len(r.join.Members))
		mm.synchronize(ctx, r.join.Members)
	case "sync":
		tps, digest, owes, err := parseAssignment(r.sync.Assignments)
		if err != nil {
			return mm.failed(call, result{sent: r.sent, err: err}, now)
		}
		mm.target, mm.digest, mm.differs, mm.synced = tps, digest, 0, true
		if owes && len(without(mm.held, tps)) == 0 {
			// Either this is its first generation (settled). Or the claim was made by a static
			// member that died before it had handed partitions over and joined again. This member
			// has come back in its place with its assignment (KIP-345), and holds nothing of what
			// others wait for.
			mm.log.Info("no partition is left to hand over; rejoining", "generation", mm.generation)
			mm.mustJoin = true
		}
		mm.alive = now
		mm.patience = mm.m.planPatience()
		mm.beatAt = now.Add(mm.m.cfg.HeartbeatInterval)
		mm.recovered()
	case "heartbeat":
		mm.alive = r.sent
		mm.beatAt = r.sent.Add(mm.m.cfg.HeartbeatInterval)
		mm.recovered()
	case "beat":
		if mm.generation < 0 {
			mm.log.Info("joined the group", "epoch", r.beat.next, "member", mm.memberID)
		}
		mm.generation, mm.alive, mm.synced = r.beat.next, r.sent, true
		if mm.lastLost == nil {
			mm.m.publish(mm.identity(), false)
		}
		if r.beat.assigned {
			mm.target = r.assigned
		}
		mm.beatAt = r.sent.Add(min(mm.m.cfg.HeartbeatInterval, r.beat.interval))
		mm.recovered()
	}
	return nil
}

func (mm *membership) recovered() {
	mm.delay.Reset()
	mm.retryAt, mm.logged = time.Time{}, time.Time{}
}

// failed handles the error of a request.
func (mm *membership) failed(call string, r result, now time.Time) error {
	m := mm.m
	var code kafkago.Error
	errors.As(r.err, &code)
	if call == "join" || call == "sync" {
		mm.mustJoin, mm.synced = true, false // the generation was not completed
	}
	switch code {
	case kafkago.MemberIDRequired: // KIP-394: the first join of a dynamic member only names it
		if r.join != nil && r.join.MemberID != "" && r.join.MemberID != mm.memberID {
			mm.memberID = r.join.MemberID
			return nil
		}
	case kafkago.RebalanceInProgress:
		mm.mustJoin = true
		if call == "heartbeat" {
			mm.alive = r.sent // the coordinator has taken it as one
			mm.recovered()
			return nil
		}
		if call == "sync" {
			mm.alive = now // the session begins again, as after a plan: the member was waiting until now
			return nil
		}
	case kafkago.UnknownMemberId:
		mm.lose("the coordinator does not know the member")
		mm.memberID = ""
	case kafkago.IllegalGeneration, codeFencedMemberEpoch:
		mm.lose("the group has gone on without the member")
	case codeUnreleasedInstanceID:
		// The member before was killed: it keeps its id for its session. It may also be alive, and then keeps it for longer.
	case kafkago.NotCoordinatorForGroup, kafkago.GroupCoordinatorNotAvailable:
		m.coordinator.Forget()
	case kafkago.FencedInstanceID:
		if mm.admitted < 0 || r.by == mm.admitted {
			return m.fatal(r.err)
		}
		// Another broker has admitted this member than the one that does not know it: maybe one that was frozen, and did not know yet that
		// the group was not its own any more. So it need not be another worker that has the instance id. If there is one, this
		// member takes the id from it, and that one is told so by the broker that admitted it.
		mm.lose("the coordinator knows the instance under another member id than the broker that admitted it")
		mm.memberID, mm.admitted = "", -1
	default:
		if c := ClassOf(code); c == Fatal || c == InstanceFenced || errors.Is(r.err, ErrClosed) {
			return m.fatal(r.err)
		}
	}
	mm.retryAt = now.Add(mm.delay.Next())
	if now.Sub(mm.logged) > 30*time.Second { // once in a while: it may take hours
		mm.logged = now
		mm.log.Warn("group request failed; trying again", "request", call, "error", r.err)
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
func (mm *membership) compare(l look) {
	mm.looking = false
	counts := l.counts
	if !mm.mustJoin && !mm.waiting() && mm.leaving == nil && !slices.Equal(l.topics, mm.topics) {
		mm.log.Info("other topics match; rejoining", "topics", len(l.topics), "new", less(l.topics, mm.topics), "gone", less(mm.topics, l.topics))
		mm.topics, mm.mustJoin = l.topics, true
		return
	}
	if counts == nil || mm.mustJoin || mm.generation < 0 || mm.waiting() || mm.digest == 0 {
		return
	}
	if countsDigest(mm.topics, counts) == mm.digest {
		mm.differs = 0
		return
	}
	if mm.differs++; mm.leader || mm.differs > 1 {
		mm.log.Info("topics have changed; rejoining", "partitions", counts)
		mm.mustJoin = true
	}
}

// less returns the topics of a that are not in b.
func less(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(t string) bool { return slices.Contains(b, t) })
}

// leaveGroup takes a dynamic member out of the group.
func (mm *membership) leaveGroup(ctx context.Context) {
	m := mm.m
	if m.cfg.InstanceID != "" && !m.cfg.Consumer || mm.memberID == "" || m.cfg.Consumer && mm.generation < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	delay := newBackoff(50*time.Millisecond, time.Second)
	for {
		err := mm.sendLeave(ctx)
		if err == nil || errors.Is(err, kafkago.UnknownMemberId) {
			return
		}
		m.coordinator.Forget()
		if c := ClassOf(err); c == Fatal || delay.Wait(ctx) != nil {
			mm.log.Warn("could not leave the group; its session will time out", "error", err)
			return
		}
	}
}

func (mm *membership) sendLeave(ctx context.Context) error {
	m := mm.m
	if m.cfg.Consumer {
		h := mm.newHeartbeat(leavingEpoch)
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
		GroupID: m.cfg.Group, MemberID: mm.memberID, Members: []leaveGroupMember{{MemberID: mm.memberID}},
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
func (mm *membership) drain(ctx context.Context) {
	var hurry <-chan struct{}
	for len(mm.queue) > 0 {
		if mm.leaving != nil {
			hurry = mm.leaving.Done()
		}
		select {
		case mm.m.events <- mm.queue[0]:
			mm.queue = mm.queue[1:]
		case mm.leaving = <-mm.m.leave:
		case <-hurry:
			return
		case <-ctx.Done():
			return
		}
	}
}
