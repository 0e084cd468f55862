package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

type coordinatorKey struct {
	kind int8
	key  string
}

// Kinds of coordinators, as FindCoordinator numbers them.
const (
	groupCoordinator int8 = 0
	txnCoordinator   int8 = 1
)

// coordinators knows which brokers coordinate groups and transactional ids.
type coordinators struct {
	cluster *Cluster

	mu    sync.RWMutex
	known map[coordinatorKey]int32 // broker ids
}

// find returns the broker that coordinates a group (groupCoordinator) or
// a transactional id (txnCoordinator), from the cache if it is there. The
// broker's own error (COORDINATOR_NOT_AVAILABLE while the internal topic is being
// made, authorisation) comes back as it is.
func (c *coordinators) find(ctx context.Context, kind int8, key string) (int32, error) {
	k := coordinatorKey{kind, key}
	c.mu.RLock()
	id, ok := c.known[k]
	c.mu.RUnlock()
	if ok {
		return id, nil
	}
	m, err := c.cluster.roundTrip(ctx, -1, &findcoordinator.Request{Key: key, KeyType: kind})
	if err != nil {
		return -1, err
	}
	res := m.(*findcoordinator.Response)
	if res.ErrorCode != 0 {
		what := "group"
		if kind == txnCoordinator {
			what = "transactional id"
		}
		return -1, fmt.Errorf("kafka: coordinator of %s %q: %w", what, key, newCodeError(res.ErrorCode))
	}
	c.mu.Lock()
	c.known[k] = res.NodeID
	c.mu.Unlock()
	c.cluster.metadata.add(res.NodeID, net.JoinHostPort(res.Host, strconv.Itoa(int(res.Port))))
	return res.NodeID, nil
}

// forget makes the next find ask again: after
// NOT_COORDINATOR, or when the coordinator does not answer.
func (c *coordinators) forget(kind int8, key string) {
	c.mu.Lock()
	delete(c.known, coordinatorKey{kind, key})
	c.mu.Unlock()
}

// send sends a request to a coordinator. The response is read into m itself (wireMessage).
func (c *coordinators) send(ctx context.Context, kind int8, key string, m wireMessage) error {
	id, err := c.find(ctx, kind, key)
	if err != nil {
		return err
	}
	_, err = c.cluster.roundTrip(ctx, id, m)
	return err
}

// retry reports whether an idempotent request to a coordinator is worth
// repeating, and forgets the coordinator when it may have moved.
func (c *coordinators) retry(kind int8, key string, err error) bool {
	if errors.Is(err, ErrClosed) {
		return false
	}
	var broken *BrokerError
	if errors.As(err, &broken) {
		c.forget(kind, key)
		return ClassOf(err) != Fatal
	}
	var code kafkago.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafkago.NotCoordinatorForGroup, kafkago.GroupCoordinatorNotAvailable, kafkago.BrokerNotAvailable:
		c.forget(kind, key)
		return true
	case kafkago.GroupLoadInProgress, kafkago.UnstableOffsetCommit, kafkago.RequestTimedOut,
		kafkago.NotEnoughReplicas, kafkago.NotEnoughReplicasAfterAppend:
		return true
	}
	return false
}

// findWithin is find, waiting while there is none yet: the first
// request of a fresh cluster makes the internal topic.
func (c *coordinators) findWithin(ctx context.Context, kind int8, key string) (int32, error) {
	delay := newBackoff(20*time.Millisecond, 500*time.Millisecond)
	for {
		id, err := c.find(ctx, kind, key)
		if err == nil || !c.retry(kind, key, err) || delay.Wait(ctx) != nil {
			return id, err
		}
	}
}

// Coordinator sends requests to the broker that coordinates a group, wherever that is.
type Coordinator struct {
	c     *coordinators
	group string
}

// Coordinator returns the coordinator of a group. Whether there is one shows at the
// first request.
func (c *Client) Coordinator(group string) Coordinator { return Coordinator{c.coordinators, group} }

// RoundTripWithin calls Cluster.RoundTripWithin for the coordinator, which is looked up if it
// is not known and forgotten if it does not answer. The error of a look-up has no code:
// what a broker answers to FindCoordinator (COORDINATOR_NOT_AVAILABLE, say) is not the
// group's answer to m. Its class is Unknown, or Fatal where it cannot succeed.
func (c Coordinator) RoundTripWithin(ctx context.Context, timeout time.Duration, m protocol.Message) (protocol.Message, error) {
	broker, err := c.c.find(ctx, groupCoordinator, c.group)
	if err != nil {
		if ClassOf(err) != Fatal {
			err = &unfound{err}
		}
		return nil, err
	}
	res, err := c.c.cluster.RoundTripWithin(ctx, timeout, broker, m)
	if err != nil {
		c.Forget()
	}
	return res, err
}

// broker returns the broker that coordinates the group as far as it is known; -1: it is not.
func (c Coordinator) broker() int32 {
	c.c.mu.RLock()
	defer c.c.mu.RUnlock()
	if id, ok := c.c.known[coordinatorKey{groupCoordinator, c.group}]; ok {
		return id
	}
	return -1
}

// Forget makes the next request look the coordinator up: after NOT_COORDINATOR, and
// whenever an answer says that another broker may know better.
func (c Coordinator) Forget() { c.c.forget(groupCoordinator, c.group) }

// unfound is the error of a look-up. It does not unwrap, so that its code is not taken
// for the coordinator's.
type unfound struct{ err error }

func (u *unfound) Error() string { return u.err.Error() }
