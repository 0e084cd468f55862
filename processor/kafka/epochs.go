package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"odradek/processor/kafka/record"
)

// DivergedError says that records before a position are not in the log any more,
// regardless of the records at their offsets now: a leader was elected that did not have them,
// or the topic was deleted and created again (KIP-320).
type DivergedError struct {
	TP     record.TP
	Offset int64        // the position
	Epoch  record.Epoch // of the last record before it
	End    int64        // where that epoch ends in the log, and the two logs diverge; -1: the log has no epoch as large
}

func (e *DivergedError) Error() string { return "kafka: " + e.TP.String() + ": " + e.Reason() }

// Reason returns the error's text without the partition.
func (e *DivergedError) Reason() string {
	if e.End < 0 {
		return fmt.Sprintf("offset %d follows a record of leader epoch %s, and the log has no epoch as large: "+
			"the topic was deleted and created again", e.Offset, e.Epoch)
	}
	return fmt.Sprintf("offset %d follows a record of leader epoch %s, which ends at offset %d in the log: what came after was lost in an "+
		"unclean leader election",
		e.Offset, e.Epoch, e.End)
}

// OffsetLost reports whether err says that a position is not in the log any more:
// retention has removed it (*OffsetOutOfRangeError), or a new leader does not have it
// (*DivergedError).
func OffsetLost(err error) bool {
	var gone *OffsetOutOfRangeError
	var other *DivergedError
	return errors.As(err, &gone) || errors.As(err, &other)
}

// errMissing is why a partition is requested again: the response did not have it.
var errMissing = errors.New("the broker's response lacks the partition")

// offsetForLeaderEpochVersion is the version that is sent, of Kafka 2.3. kafka-go has
// only the name of the API.
const offsetForLeaderEpochVersion = 3

// keepsEpochs reports whether the cluster can be asked about epochs. One that
// cannot is older than 2.3, or not Apache Kafka; positions are not checked there.
func keepsEpochs(c *Cluster) bool {
	return c.Supports(protocol.OffsetForLeaderEpoch, offsetForLeaderEpochVersion)
}

// ask sends the questions to a broker. They are answered from memory, and needed to get away from
// a leader that hangs: a sixth of the usual time has to do, as for metadata.
func (e *epochEnds) ask(ctx context.Context, c *Cluster, broker int32) error {
	_, err := c.RoundTripWithin(ctx, c.RequestTimeout()/6, broker, e)
	return err
}

// epochEnds is an OffsetForLeaderEpoch v3 for partitions of one broker, and its
// response.
type epochEnds struct{ ends []epochEnd } // sorted

// epochEnd asks where an epoch ends.
type epochEnd struct {
	tp             record.TP
	position       int64
	current, epoch record.Epoch // of the leader as we know it; of the last record before position

	answered bool
	code     kafkago.Error
	last     record.Epoch // the largest epoch of the log that is not larger; 0: there is none
	end      int64        // where the next one begins
}

func (*epochEnds) ApiKey() protocol.ApiKey { return protocol.OffsetForLeaderEpoch }

func (e *epochEnds) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, protocol.OffsetForLeaderEpoch, offsetForLeaderEpochVersion, correlation, clientID, false)
	b = be.AppendUint32(b, 0xffffffff) // replica id: a consumer
	topics := len(b)
	b = be.AppendUint32(b, 0)
	n := uint32(0)
	for rest := e.ends; len(rest) > 0; n++ {
		k := 1
		for k < len(rest) && rest[k].tp.Topic == rest[0].tp.Topic {
			k++
		}
		b = appendString(b, rest[0].tp.Topic)
		b = be.AppendUint32(b, uint32(k))
		for i := range rest[:k] {
			b = be.AppendUint32(b, uint32(rest[i].tp.Partition))
			b = be.AppendUint32(b, uint32(rest[i].current.Number()))
			b = be.AppendUint32(b, uint32(rest[i].epoch.Number()))
		}
		rest = rest[k:]
	}
	be.PutUint32(b[topics:], n)
	var r wireReader
	if err := r.Ask(rw, b, correlation, false); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	for n := r.Count(6); n > 0 && r.Err() == nil; n-- {
		topic := string(r.String16())
		for n := r.Count(18); n > 0 && r.Err() == nil; n-- {
			code := kafkago.Error(r.Int16())
			tp := record.TP{Topic: topic, Partition: r.Int32()}
			last, end := record.EpochOf(r.Int32()), r.Int64()
			if i := slices.IndexFunc(e.ends, func(p epochEnd) bool { return p.tp == tp }); i >= 0 {
				p := &e.ends[i]
				p.answered, p.code, p.last, p.end = true, code, last, end
			}
		}
	}
	return e, r.End()
}

// diverged judges the position by the response; nil: the log has what was read before
// it.
func (e *epochEnd) diverged() *DivergedError {
	switch {
	case e.last == 0 || e.end < 0:
		// A leader begins its own epoch with its term, so it knows every epoch up to
		// that. A broker that denies one of those does not keep epochs as Kafka does,
		// and its response says nothing about the log.
		if e.epoch <= e.current {
			return nil
		}
		return &DivergedError{TP: e.tp, Offset: e.position, Epoch: e.epoch, End: -1}
	case e.end < e.position:
		return &DivergedError{TP: e.tp, Offset: e.position, Epoch: e.epoch, End: e.end}
	}
	return nil
}

// DivergedOffsets asks the leaders whether the logs still have what was read before
// positions, and returns those that have not. A position without an epoch is not
// asked about.
func DivergedOffsets(ctx context.Context, c *Cluster, positions map[record.TP]Offset) (map[record.TP]*DivergedError, error) {
	out := map[record.TP]*DivergedError{}
	if !keepsEpochs(c) {
		return out, nil
	}
	var tps []record.TP
	for tp, off := range positions {
		if off.Epoch > 0 && off.Offset >= 0 {
			tps = append(tps, tp)
		}
	}
	var mu sync.Mutex
	err := c.EachLeader(ctx, tps, func(ctx context.Context, broker int32, tps []record.TP) (map[record.TP]kafkago.Error, error) {
		q := &epochEnds{}
		for _, tp := range tps {
			if _, current, err := c.Leader(tp); err == nil && current > 0 {
				q.ends = append(q.ends, epochEnd{tp: tp, position: positions[tp].Offset, current: current, epoch: positions[tp].Epoch})
			}
		}
		if len(q.ends) == 0 {
			return nil, nil
		}
		if err := q.ask(ctx, c, broker); err != nil {
			return nil, err
		}
		codes := map[record.TP]kafkago.Error{}
		mu.Lock()
		defer mu.Unlock()
		for i := range q.ends {
			switch p := &q.ends[i]; {
			case !p.answered:
				codes[p.tp] = kafkago.NotLeaderForPartition
			case p.code != 0:
				codes[p.tp] = p.code
			default:
				if d := p.diverged(); d != nil {
					out[p.tp] = d
				}
			}
		}
		return codes, nil
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: leader epochs: %w", err)
	}
	return out, nil
}

// check asks a leader about sources whose last record is of another leader's
// term, before anything is fetched from it.
func (f *Fetcher) check(broker int32, sources []*FetchSource) {
	q := &epochEnds{}
	f.mu.Lock()
	slices.SortFunc(sources, func(a, b *FetchSource) int { return record.TP.Compare(a.tp, b.tp) })
	sources = slices.DeleteFunc(sources, func(s *FetchSource) bool {
		if n := len(q.ends); n > 0 && q.ends[n-1].tp == s.tp { // a second source of one partition
			f.requeue(s)
			return true
		}
		q.ends = append(q.ends, epochEnd{tp: s.tp, position: s.position, current: s.leaderEpoch, epoch: s.read})
		return false
	})
	f.mu.Unlock()
	err := q.ask(f.ctx, f.c, broker)
	if f.ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range sources {
		if s.closed {
			continue
		}
		if err != nil { // the transport may still write to q
			f.putOff(s, err)
			continue
		}
		switch p := &q.ends[i]; {
		case !p.answered:
			f.putOff(s, errMissing)
		case p.code == kafkago.TopicAuthorizationFailed:
			s.end(fmt.Errorf("kafka: leader epochs of %s: %w", s.tp, newCodeError(p.code)))
		case p.code != 0:
			f.putOff(s, p.code)
		default:
			if d := p.diverged(); d != nil {
				s.end(d)
				continue
			}
			s.checked = s.leaderEpoch
			f.attach(s, broker)
		}
	}
}
