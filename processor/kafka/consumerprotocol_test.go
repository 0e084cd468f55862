package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

var protocolNames = map[bool]string{false: "classic", true: "consumer"}

// protocols runs a test with both group protocols on every kind of cluster that has them.
func protocols(t *testing.T, f func(t *testing.T, k *kafkatest.Cluster, consumer bool)) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		for _, consumer := range []bool{false, true} {
			t.Run(protocolNames[consumer], func(t *testing.T) {
				if c := OpenForTest(t, k.Brokers); consumer && c.Cluster.Lacking(ConsumerProtocol) != "" {
					t.Skip("brokers without " + c.Cluster.Lacking(ConsumerProtocol))
				}
				f(t, k, consumer)
			})
		}
	})
}

// onFake runs a test with both group protocols, on a kfake of its own.
func onFake(t *testing.T, f func(t *testing.T, consumer bool)) {
	for _, consumer := range []bool{false, true} {
		t.Run(protocolNames[consumer], func(t *testing.T) { f(t, consumer) })
	}
}

// TestConsumerHeartbeatWire compares requests and responses with another client's codec.
func TestConsumerHeartbeatWire(t *testing.T) {
	res := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	res.Version, res.ErrorCode, res.ErrorMessage, res.MemberID = 1, 110, kmsg.StringPtr("fenced"), kmsg.StringPtr("m")
	res.MemberEpoch, res.HeartbeatIntervalMillis = 7, 5000
	for _, assigned := range []bool{false, true} {
		for _, instance := range []string{"", "i"} {
			want := map[topicID][]int32(nil)
			res.Assignment = nil
			if assigned {
				want = map[topicID][]int32{{1}: {3, 5}, {2}: {0}}
				res.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{
					{TopicID: [16]byte{1}, Partitions: []int32{3, 5}}, {TopicID: [16]byte{2}, Partitions: []int32{0}}}}
			}
			body := res.AppendTo([]byte{0}) // no tagged fields in the header
			h := &consumerHeartbeat{group: "g", memberID: "m", instanceID: instance, epoch: 6, rebalance: time.Minute, topics: []string{"a", "b"},
				owned: map[topicID][]int32{{1}: {3}}}
			c := brokertest.Answer(9, body)
			if _, err := h.Exchange(c, 0, 9, "client"); err != nil {
				t.Fatal(err)
			}
			if h.code != 110 || h.next != 7 || h.interval != 5*time.Second || h.assigned != assigned || !reflect.DeepEqual(h.assignment, want) {
				t.Errorf("%+v", h)
			}
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Version = 1
			if err := req.ReadFrom(c.Sent.Bytes()[21:]); err != nil || req.Group != "g" || req.MemberID != "m" || req.MemberEpoch != 6 ||
				(req.InstanceID == nil) != (instance == "") || req.RebalanceTimeoutMillis != 60000 ||
				!slices.Equal(req.SubscribedTopicNames, []string{"a", "b"}) || req.SubscribedTopicRegex != nil || *req.ServerAssignor != "uniform" ||
				len(req.Topics) != 1 || req.Topics[0].TopicID != [16]byte{1} || !slices.Equal(req.Topics[0].Partitions, []int32{3}) {
				t.Errorf("%+v, %v", req, err)
			}
			for i := range body {
				if _, err := h.Exchange(brokertest.Answer(9, body[:i]), 0, 9, ""); err == nil {
					t.Errorf("no error for %d of %d bytes", i, len(body))
				}
			}
		}
	}
}

// TestTopicIDsWire compares requests and responses with another client's codec.
func TestTopicIDsWire(t *testing.T) {
	res := kmsg.NewPtrMetadataResponse()
	res.Version = 12
	res.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "h", Port: 9, Rack: kmsg.StringPtr("r")}}
	for i, name := range []string{"a", "b"} {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID, topic.ErrorCode = &name, [16]byte{byte(i + 1)}, int16(3*i)
		topic.Partitions = []kmsg.MetadataResponseTopicPartition{{Partition: 1, Leader: 2, Replicas: []int32{1, 2}, ISR: []int32{1}}}
		res.Topics = append(res.Topics, topic)
	}
	body := res.AppendTo([]byte{0})
	c := brokertest.Answer(9, body)
	q := &topicIDs{topics: []string{"a", "b"}, ids: map[string]topicID{}}
	if _, err := q.Exchange(c, 0, 9, "client"); err != nil || !reflect.DeepEqual(q.ids, map[string]topicID{"a": {1}}) {
		t.Errorf("%v, %v", q.ids, err)
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	if err := req.ReadFrom(c.Sent.Bytes()[21:]); err != nil || len(req.Topics) != 2 || *req.Topics[1].Topic != "b" ||
		req.AllowAutoTopicCreation {
		t.Errorf("%+v, %v", req, err)
	}
	for i := range body {
		if _, err := q.Exchange(brokertest.Answer(9, body[:i]), 0, 9, ""); err == nil {
			t.Errorf("no error for %d of %d bytes", i, len(body))
		}
	}
}

// TestOffsetCommitWire compares requests and responses with another client's codec.
func TestOffsetCommitWire(t *testing.T) {
	res := kmsg.NewPtrOffsetCommitResponse()
	res.Version = 9
	res.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "in",
		Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 3, ErrorCode: 113}}}}
	c := brokertest.Answer(9, res.AppendTo([]byte{0}))
	m, err := (&offsetCommit{&offsetcommit.Request{GroupID: "g", GenerationID: 7, MemberID: "m", Topics: []offsetcommit.RequestTopic{
		{Name: "in", Partitions: []offsetcommit.RequestPartition{{PartitionIndex: 3, CommittedOffset: 6, CommittedLeaderEpoch: 5,
			CommittedMetadata: "floor"}}}}}}).Exchange(c, 7, 9, "client")
	if err != nil {
		t.Fatal(err)
	}
	if p := m.(*offsetcommit.Response).Topics[0]; p.Name != "in" || p.Partitions[0].PartitionIndex != 3 || p.Partitions[0].ErrorCode != 113 {
		t.Errorf("%+v", p)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = 9
	err = req.ReadFrom(c.Sent.Bytes()[21:])
	brokertest.Must(t, err)
	if p := req.Topics[0].Partitions[0]; req.Group != "g" || req.Generation != 7 || req.MemberID != "m" || req.InstanceID != nil ||
		p.Offset != 6 || *p.Metadata != "floor" || p.LeaderEpoch != 5 {
		t.Errorf("%+v, %v", req, err)
	}
}

// consumerProtocol runs a test on every kind of cluster that has the consumer protocol.
func consumerProtocol(t *testing.T, f func(t *testing.T, k *kafkatest.Cluster)) {
	protocols(t, func(t *testing.T, k *kafkatest.Cluster, consumer bool) {
		if !consumer {
			t.Skip("of the consumer protocol")
		}
		f(t, k)
	})
}

// TestConsumerProtocolStatic: a static member that has ended gets its partitions back at once and no one else notices; one
// that was killed gets them when its session is over, and until then the instance id is another's.
func TestConsumerProtocolStatic(t *testing.T) {
	consumerProtocol(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 6)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := func(id string) GroupConfig {
			return GroupConfig{Consumer: true, Group: "g-" + in, Topics: []string{in}, InstanceID: id, SessionTimeout: 20 * time.Second}
		}
		one := startConsumer(t, l, c, "one", cfg("one"), nil)
		l.wait(6)
		two := startConsumer(t, l, c, "two", cfg("two"), nil)
		l.wait(3, 3)
		events, held := len(one.events), heldBy(l, "two")
		two.stop(t)
		start := time.Now()
		two = startConsumer(t, l, c, "two", cfg("two"), nil)
		l.wait(3, 3)
		t.Logf("assigned after %v", time.Since(start).Round(time.Millisecond))
		if got := heldBy(l, "two"); !slices.Equal(got, held) || len(one.events) != events || time.Since(start) > 15*time.Second {
			t.Errorf("%v after %v, before %v; the other member had %d events", got, time.Since(start), held, len(one.events)-events)
		}
		two.kill()
		<-two.done
		start = time.Now()
		startConsumer(t, l, c, "two", cfg("two"), nil)
		l.wait(3, 3)
		if d := time.Since(start); d < 2*time.Second || d > 25*time.Second {
			t.Errorf("assigned %v after a kill, with a session of 6 s", d)
		}
	})
}

// logged sends each line of a log.
type logged chan string

func (l logged) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// TestConsumerProtocolBesideClassic: a member waits for members of the classic protocol to leave the group, and its log says so.
func TestConsumerProtocolBesideClassic(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	c := OpenForTest(t, k.Brokers)
	l := newLedger(t)
	classic := startConsumer(t, l, c, "classic", GroupConfig{Group: "g", Topics: []string{in}}, nil)
	l.wait(2)
	lines := make(logged, 16)
	m := JoinGroup(t.Context(), c, GroupConfig{Consumer: true, Group: "g", Topics: []string{in}, HeartbeatInterval: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(lines, nil))})
	if line := <-lines; !strings.Contains(line, "members by the classic protocol are in it: stop them, or change group_protocol") {
		t.Error(line)
	}
	classic.stop(t)
	if e := <-m.Events(); e.Kind != Assigned || len(e.Partitions) != 2 {
		t.Error(e)
	}
}

// TestConsumerProtocolLost: a member that the coordinator fences gives up what it holds, its commits are refused until its
// consumer knows, and it joins again.
func TestConsumerProtocolLost(t *testing.T) {
	t.Parallel()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	c := OpenForTest(t, k.Brokers)
	ctx := brokertest.Within(t)
	for _, code := range []*kerr.Error{kerr.UnknownMemberID, kerr.FencedMemberEpoch} {
		group := "g-" + code.Message
		l := newLedger(t)
		x := startConsumer(t, l, c, code.Message, GroupConfig{Consumer: true, Group: group, Topics: []string{in}}, nil)
		l.wait(2)
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupHeartbeat}, TopLevel: true, Group: group, Err: code})
		brokertest.Must(t, h.Wait(ctx, 1))
		brokertest.Eventually(t, "Lost", func() bool { return x.count(Lost) == 1 })
		l.wait(2)
		x.stop(t)
	}
}

// TestConsumerProtocolLateHandOver: a hand-over that takes longer than the rebalance time-out. Nobody gets the partitions before the
// coordinator has fenced the member, whose commit is refused.
func TestConsumerProtocolLateHandOver(t *testing.T) {
	consumerProtocol(t, func(t *testing.T, k *kafkatest.Cluster) {
		if k.Fake != nil {
			t.Skip("kfake begins the rebalance time-out anew with each heartbeat")
		}
		in := k.Topic(t, "in", 4)
		c := OpenForTest(t, k.Brokers)
		l := newLedger(t)
		cfg := GroupConfig{Consumer: true, Group: "g-" + in, Topics: []string{in}, RebalanceTimeout: 2 * time.Second}
		m := JoinGroup(context.Background(), c, GroupConfig{Consumer: true, Group: cfg.Group, Topics: cfg.Topics,
			RebalanceTimeout: cfg.RebalanceTimeout, HeartbeatInterval: 100 * time.Millisecond})
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = m.Leave(ctx)
		}()
		e := <-m.Events()
		if e.Kind != Assigned || len(e.Partitions) != 4 {
			t.Fatal(e)
		}
		startConsumer(t, l, c, "two", cfg, nil)
		e = <-m.Events()
		if e.Kind != Revoked {
			t.Fatal(e)
		}
		lost := <-m.Events()
		if lost.Kind != Lost || len(lost.Partitions) != 4 {
			t.Fatal(lost)
		}
		p := ProducerForTest(t, c, kafkatest.Unique("tx"))
		err := p.CommitOffsets(brokertest.Within(t), e.Generation, cfg.Group,
			map[record.TP]Offset{e.Partitions[0]: {Offset: 1}})
		groupWantClass(t, "a commit after the member was fenced", err, Rebalance)
		go func() {
			for e := range m.Events() {
				e.Done()
			}
		}()
		lost.Done()
	})
}

// TestConsumerProtocolAtLeastOnce: offsets outside of transactions are taken with the member's epoch, and refused with another.
func TestConsumerProtocolAtLeastOnce(t *testing.T) {
	consumerProtocol(t, func(t *testing.T, k *kafkatest.Cluster) {
		in := k.Topic(t, "in", 2)
		c := OpenForTest(t, k.Brokers)
		ctx := brokertest.Within(t)
		l := newLedger(t)
		group := "g-" + in
		x := startConsumer(t, l, c, "one", GroupConfig{Consumer: true, Group: group, Topics: []string{in}}, nil)
		l.wait(2)
		offsets := map[record.TP]Offset{brokertest.TP(in, 0): {Offset: 5, Metadata: "m"}}
		brokertest.Must(t, x.m.Commit(ctx, func(gen Generation) error { return c.Offsets.CommitOffsets(ctx, gen, group, offsets) }))
		gen := x.m.Generation()
		gen.ID--
		err := c.Offsets.CommitOffsets(ctx, gen, group, offsets)
		groupWantClass(t, "another epoch", err, Rebalance)
		var oe *OffsetError
		if !errors.As(err, &oe) {
			t.Error(err)
		}
		got, err := c.Offsets.Committed(ctx, group, []record.TP{brokertest.TP(in, 0)})
		brokertest.Must(t, err)
		if fmt.Sprint(got[brokertest.TP(in, 0)].Offset) != "5" {
			t.Error(got)
		}
	})
}
