package kafka

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"odradek/processor/kafka/record"
)

// The consumer protocol (KIP-848): the coordinator assigns. A member has one request, ConsumerGroupHeartbeat, which says what it
// subscribes to and what it holds, and whose response has its epoch and its assignment.
//
// The coordinator assigns a partition only after the member that had it has sent a heartbeat without it, which this one does when the
// Revoked event is done: the transaction with the partition's records has ended. A member that does not get there within the
// rebalance timeout is fenced. The epoch is what commits carry as the generation.
//
// Each heartbeat says everything, so that what a lost request or response has changed is said again.

// consumerHeartbeatAPI is ConsumerGroupHeartbeat, which kafka-go does not know. In version 1 members choose their ids.
const (
	consumerHeartbeatAPI     = protocol.ApiKey(68)
	consumerHeartbeatVersion = 1
)

// Member epochs that mean something else.
const (
	joiningEpoch int32 = 0
	leavingEpoch int32 = -1
	pausingEpoch int32 = -2 // a static member ends, and is expected back within the session timeout
)

type topicID [16]byte

// consumerHeartbeat is a ConsumerGroupHeartbeat and its response.
type consumerHeartbeat struct {
	group, memberID, instanceID string
	epoch                       int32
	rebalance                   time.Duration
	topics                      []string
	owned                       map[topicID][]int32

	code       kafkago.Error
	next       int32 // epoch
	interval   time.Duration
	assigned   bool // the response has an assignment
	assignment map[topicID][]int32
}

func (*consumerHeartbeat) ApiKey() protocol.ApiKey { return consumerHeartbeatAPI }

func (h *consumerHeartbeat) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, consumerHeartbeatAPI, consumerHeartbeatVersion, correlation, clientID, true)
	b = appendCompactString(b, h.group)
	b = appendCompactString(b, h.memberID)
	b = be.AppendUint32(b, uint32(h.epoch))
	b = appendCompactNullable(b, h.instanceID)
	b = append(b, 0) // no rack
	b = be.AppendUint32(b, uint32(h.rebalance.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(len(h.topics)+1))
	for _, t := range h.topics {
		b = appendCompactString(b, t)
	}
	b = append(b, 0) // no pattern: the worker finds topics itself
	b = appendCompactString(b, "uniform")
	b = binary.AppendUvarint(b, uint64(len(h.owned)+1))
	for id, partitions := range h.owned {
		b = append(b, id[:]...)
		b = binary.AppendUvarint(b, uint64(len(partitions)+1))
		for _, p := range partitions {
			b = be.AppendUint32(b, uint32(p))
		}
		b = append(b, 0) // no tagged fields
	}
	b = append(b, 0)
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	h.code = kafkago.Error(r.Int16())
	r.CompactString() // message
	r.CompactString() // member id
	h.next = r.Int32()
	h.interval = time.Duration(r.Int32()) * time.Millisecond
	if h.assigned = int8(r.uint8()) > 0; h.assigned {
		h.assignment = map[topicID][]int32{}
		for n := r.CompactCount(18); n > 0 && r.Err() == nil; n-- {
			var id topicID
			r.Fill(id[:])
			for k := r.CompactCount(4); k > 0 && r.Err() == nil; k-- {
				h.assignment[id] = append(h.assignment[id], r.Int32())
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return h, r.End()
}

// topicIDs is Metadata v12 and its response: the ids of topics, which kafka-go does not read.
type topicIDs struct {
	topics []string
	ids    map[string]topicID
}

const topicIDsVersion = 12

func (*topicIDs) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (d *topicIDs) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	b := appendRequest(nil, protocol.Metadata, topicIDsVersion, correlation, clientID, true)
	b = binary.AppendUvarint(b, uint64(len(d.topics)+1))
	for _, t := range d.topics {
		b = append(b, make([]byte, len(topicID{}))...) // asked for by name
		b = appendCompactString(b, t)
		b = append(b, 0) // no tagged fields
	}
	b = append(b, 0, 0, 0) // create none, no permissions, no tagged fields
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	for n := r.CompactCount(11); n > 0 && r.Err() == nil; n-- {
		r.Int32()         // broker
		r.CompactString() // host
		r.Int32()         // port
		r.CompactString() // rack
		r.Tags()
	}
	r.CompactString() // cluster
	r.Int32()         // controller
	for n := r.CompactCount(26); n > 0 && r.Err() == nil; n-- {
		code := r.Int16()
		name := string(r.CompactString())
		var id topicID
		r.Fill(id[:])
		r.uint8() // internal
		for k := r.CompactCount(18); k > 0 && r.Err() == nil; k-- {
			r.Int16()     // error
			r.Int32()     // partition
			r.Int32()     // leader
			r.Int32()     // leader epoch
			for range 3 { // replicas, those in sync, those offline
				for j := r.CompactCount(4); j > 0 && r.Err() == nil; j-- {
					r.Int32()
				}
			}
			r.Tags()
		}
		r.Int32() // permissions
		r.Tags()
		if code == 0 {
			d.ids[name] = id
		}
	}
	r.Tags()
	return d, r.End()
}

// beat sends a heartbeat, which joins the group where the member is not in it.
func (mm *membership) beat(ctx context.Context) {
	m := mm.m
	mm.mustJoin = false
	if mm.memberID == "" {
		mm.memberID = rand.Text()
	}
	h := mm.newHeartbeat(max(mm.generation, joiningEpoch))
	held := slices.Clone(mm.held)
	timeout := min(m.c.RequestTimeout(), max(m.cfg.SessionTimeout/3, 500*time.Millisecond))
	mm.request(ctx, "beat", timeout, h, func() error {
		for _, tp := range held {
			if id, ok := m.ids[tp.Topic]; ok {
				h.owned[id] = append(h.owned[id], tp.Partition)
			}
		}
		return nil
	}, func(_ protocol.Message, r *result) {
		r.beat = h
		switch r.err = newCodeError(h.code); {
		case errors.Is(r.err, kafkago.GroupIdNotFound):
			r.err = fmt.Errorf("%w (members by the classic protocol are in it: stop them, or change %s)", r.err, settingGroupProtocol)
		case r.err == nil && h.assigned:
			r.assigned, r.err = m.named(ctx, h.assignment, h.topics)
		}
	})
}

func (mm *membership) newHeartbeat(epoch int32) *consumerHeartbeat {
	cfg := &mm.m.cfg
	return &consumerHeartbeat{group: cfg.Group, memberID: mm.memberID, instanceID: cfg.InstanceID, epoch: epoch,
		rebalance: cfg.RebalanceTimeout, topics: mm.topics, owned: map[topicID][]int32{}}
}

// named returns an assignment with the topics' names. A topic that does not exist any more is left out.
func (m *Member) named(ctx context.Context, assignment map[topicID][]int32, topics []string) ([]record.TP, error) {
	known := func(id topicID) (string, bool) {
		for name, have := range m.ids {
			if have == id {
				return name, true
			}
		}
		return "", false
	}
	var tps []record.TP
	asked := false
	for id, partitions := range assignment {
		name, ok := known(id)
		if !ok && !asked {
			asked = true
			q := &topicIDs{topics: topics, ids: map[string]topicID{}}
			if _, err := m.c.RoundTripWithin(ctx, m.c.RequestTimeout()/6, -1, q); err != nil {
				return nil, err
			}
			maps.Copy(m.ids, q.ids) // the ids of topics that are held and no longer subscribed to stay: a heartbeat has to say so
			name, ok = known(id)
		}
		for _, p := range partitions {
			if ok {
				tps = append(tps, record.TP{Topic: name, Partition: p})
			}
		}
	}
	slices.SortFunc(tps, record.TP.Compare)
	return tps, nil
}
