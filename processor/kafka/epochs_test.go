package kafka

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// TestEpochWire: request and response of OffsetForLeaderEpoch against franz-go's
// codec, which comes from the protocol's own definition.
func TestEpochWire(t *testing.T) {
	q := &epochEnds{ends: []epochEnd{
		{tp: brokertest.TP("a", 0), current: record.EpochOf(5), epoch: record.EpochOf(3)},
		{tp: brokertest.TP("a", 2), current: record.EpochOf(0), epoch: record.EpochOf(0)},
		{tp: brokertest.TP("b", 1), current: record.EpochOf(7), epoch: record.EpochOf(9)},
	}}
	res := kmsg.NewPtrOffsetForLeaderEpochResponse()
	res.Version = offsetForLeaderEpochVersion
	for _, topic := range []string{"b", "a"} { // in any order
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = topic
		for _, p := range q.ends {
			if p.tp.Topic == topic {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.tp.Partition, p.epoch.Number()-1, 100+int64(p.tp.Partition)
				if topic == "b" {
					rp.ErrorCode = kerr.FencedLeaderEpoch.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
		}
		res.Topics = append(res.Topics, rt)
	}
	w := brokertest.Answer(42, res.AppendTo(nil))
	if _, err := q.Exchange(w, 0, 42, "client"); err != nil {
		t.Fatal(err)
	}
	b := w.Sent.Bytes()
	if int(binary.BigEndian.Uint32(b)) != len(b)-4 || binary.BigEndian.Uint16(b[4:]) != 23 ||
		binary.BigEndian.Uint16(b[6:]) != offsetForLeaderEpochVersion {
		t.Fatalf("header %x", b[:14])
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version = offsetForLeaderEpochVersion
	if err := req.ReadFrom(b[14+len("client"):]); err != nil {
		t.Fatal(err)
	}
	if req.ReplicaID != -1 || len(req.Topics) != 2 || len(req.Topics[0].Partitions) != 2 || len(req.Topics[1].Partitions) != 1 {
		t.Fatalf("%+v", req)
	}
	for i, rp := range slices.Concat(req.Topics[0].Partitions, req.Topics[1].Partitions) {
		if p := q.ends[i]; rp.Partition != p.tp.Partition || rp.CurrentLeaderEpoch != p.current.Number() || rp.LeaderEpoch != p.epoch.Number() {
			t.Errorf("%+v, want %+v", rp, p)
		}
	}
	for i, want := range []struct {
		code kafkago.Error
		last record.Epoch
		end  int64
	}{{0, record.EpochOf(2), 100}, {0, 0, 102}, {kafkago.FencedLeaderEpoch, record.EpochOf(8), 101}} {
		if p := q.ends[i]; !p.answered || p.code != want.code || p.last != want.last || p.end != want.end {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
}

// TestDivergence: what an answer means for a position.
func TestDivergence(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		current, epoch, last int32
		end                  int64
		diverged             bool
		parts                int64
	}{
		{"the epoch goes on", 3, 3, 3, 500, false, 0},
		{"the epoch ended at the position", 4, 3, 3, 100, false, 0},
		{"the epoch ended before it", 4, 3, 3, 99, true, 99},
		{"the epoch is not there, and the one before ended before it", 4, 3, 1, 60, true, 60},
		{"the epoch is not there, but all before the position is", 4, 3, 2, 100, false, 0},
		{"another log", 0, 3, -1, -1, true, -1},
		{"a broker that keeps no epochs", 4, 3, -1, -1, false, 0},
	} {
		p := epochEnd{tp: brokertest.TP("a", 0), position: 100, end: tc.end,
			current: record.EpochOf(tc.current), epoch: record.EpochOf(tc.epoch), last: record.EpochOf(tc.last)}
		d := p.diverged()
		if (d != nil) != tc.diverged || d != nil && *d != (DivergedError{brokertest.TP("a", 0), 100, record.EpochOf(tc.epoch), tc.parts}) {
			t.Errorf("%s: %v", tc.name, d)
		}
	}
	if !OffsetLost(&DivergedError{}) || !OffsetLost(&OffsetOutOfRangeError{}) || OffsetLost(kafkago.OffsetOutOfRange) {
		t.Error("OffsetLost")
	}
}

// epochQuestions counts what is asked about the epochs of a kfake's log. answer
// changes the answers.
type epochQuestions struct {
	mu     sync.Mutex
	asked  []kmsg.OffsetForLeaderEpochRequestTopicPartition
	answer func(*kmsg.OffsetForLeaderEpochResponseTopicPartition)
}

func askEpochs(fake *kfake.Cluster) *epochQuestions {
	q := &epochQuestions{}
	fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		res := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, rt := range req.Topics {
			q.asked = append(q.asked, rt.Partitions...)
			if q.answer == nil {
				continue
			}
			t := kmsg.NewOffsetForLeaderEpochResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.Partition, p.LeaderEpoch = rp.Partition, rp.LeaderEpoch
				q.answer(&p)
				t.Partitions = append(t.Partitions, p)
			}
			res.Topics = append(res.Topics, t)
		}
		return res, nil, q.answer != nil
	})
	return q
}

func (q *epochQuestions) drain() []kmsg.OffsetForLeaderEpochRequestTopicPartition {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked := q.asked
	q.asked = nil
	return asked
}

// TestFetchEpochs: a fetcher sends the leader's epoch, notices a new term of the
// same leader, too, asks before it goes on whether the log is the one it has read,
// and ends where it is not.
func TestFetchEpochs(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "in"))
	q := askEpochs(fake)
	cl := brokertest.Franz(t, fake.ListenAddrs())
	c := OpenForTest(t, fake.ListenAddrs())
	var mu sync.Mutex
	sent := map[int32]int{}
	fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, rt := range kreq.(*kmsg.FetchRequest).Topics {
			for _, rp := range rt.Partitions {
				sent[rp.CurrentLeaderEpoch]++
			}
		}
		return nil, nil, false
	})
	f := NewFetcher(c, FetchConfig{MaxWait: 50 * time.Millisecond})
	defer f.Close()
	s := f.Add(brokertest.TP("in", 0), 0)
	first := fake.LeaderFor("in", 0)
	brokertest.Write(t, cl, "in", 0, 0, 100)
	readTo(t, s, 0, 100, func(*record.Record) {})
	if n := len(q.drain()); n > 0 {
		t.Errorf("asked %d times before anything was read from another leader", n)
	}
	at := int64(100)
	for epoch := int32(1); epoch <= 2; epoch++ { // away, and back
		brokertest.Must(t, fake.MoveTopicPartition("in", 0, (first+epoch)%2))
		brokertest.Write(t, cl, "in", 0, int(at), 50)
		readTo(t, s, at, at+50, func(*record.Record) {})
		at += 50
		asked := q.drain()
		if len(asked) == 0 {
			t.Fatalf("nothing is asked of the leader of epoch %d", epoch)
		}
		for _, a := range asked {
			if a.CurrentLeaderEpoch != epoch || a.LeaderEpoch != epoch-1 {
				t.Errorf("asked %+v of the leader of epoch %d", a, epoch)
			}
		}
	}
	mu.Lock()
	if sent[-1] > 0 || sent[0] == 0 || sent[1] == 0 || sent[2] == 0 {
		t.Errorf("fetches by leader epoch: %v", sent)
	}
	mu.Unlock()

	// The next leader has lost the last 30 of 200.
	q.mu.Lock()
	q.answer = func(p *kmsg.OffsetForLeaderEpochResponseTopicPartition) { p.EndOffset = 170 }
	q.mu.Unlock()
	brokertest.Must(t, fake.MoveTopicPartition("in", 0, 1-fake.LeaderFor("in", 0)))
	brokertest.Write(t, cl, "in", 0, int(at), 50)
	var d *DivergedError
	for d == nil {
		ch := receive(t, s)
		if ch.Err == nil && ch.Raw != nil {
			t.Fatalf("records from %d of a log that has diverged", ch.From)
		}
		if ch.Err != nil && !errors.As(ch.Err, &d) {
			t.Fatal(ch.Err)
		}
		ch.Release()
	}
	if *d != (DivergedError{brokertest.TP("in", 0), 200, record.EpochOf(2), 170}) {
		t.Errorf("%+v", d)
	}
	t.Log(d)

	// The leader's epoch goes with ListOffsets, too: one that is out of date is
	// refused, and found out.
	var epochs []int32
	fake.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		epochs = append(epochs, kreq.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].CurrentLeaderEpoch)
		return nil, nil, false
	})
	other := OpenForTest(t, fake.ListenAddrs())
	tps := []record.TP{brokertest.TP("in", 0)}
	_, err := other.Offsets.ListOffsets(brokertest.Within(t), tps, Latest)
	brokertest.Must(t, err)
	for range 2 {
		brokertest.Must(t, fake.MoveTopicPartition("in", 0, 1-fake.LeaderFor("in", 0)))
	}
	_, err = other.Offsets.ListOffsets(brokertest.Within(t), tps, Latest)
	brokertest.Must(t, err)
	if !slices.Equal(epochs, []int32{3, 3, 5}) {
		t.Errorf("ListOffsets with epochs %v", epochs)
	}

	// A position from elsewhere: with its epoch it is checked, without it is not.
	ch := receive(t, f.Resume(brokertest.TP("in", 0), 180, record.EpochOf(2)))
	if !errors.As(ch.Err, &d) || *d != (DivergedError{brokertest.TP("in", 0), 180, record.EpochOf(2), 170}) {
		t.Errorf("%+v", ch)
	}
	readTo(t, f.Resume(brokertest.TP("in", 0), 170, record.EpochOf(2)), 170, 250, func(*record.Record) {})
	readTo(t, f.Add(brokertest.TP("in", 0), 180), 180, 250, func(*record.Record) {})
}
