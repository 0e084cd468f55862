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
// whatever is at their offsets now: a leader was elected that did not have them,
// or the topic was made anew.
type DivergedError struct {
	TP     TP
	Offset int64        // the position
	Epoch  record.Epoch // of the last record before it
	End    int64        // where that epoch ends in the log, and the two logs part; -1: the log has no epoch as large
}

func (e *DivergedError) Error() string { return "kafka: " + e.TP.String() + ": " + e.Reason() }

// Reason is the error without the partition.
func (e *DivergedError) Reason() string {
	if e.End < 0 {
		return fmt.Sprintf("offset %d follows a record of leader epoch %s, and the log has no epoch as large: the topic was made anew", e.Offset,
			e.Epoch)
	}
	return fmt.Sprintf("offset %d follows a record of leader epoch %s, which ends at offset %d in the log: what came after was lost in an "+
		"unclean leader election",
		e.Offset, e.Epoch, e.End)
}

// OffsetLost reports an error that says that a position is not in the log, or not
// in this log: retention or a new leader took it.
func OffsetLost(err error) bool {
	var gone *OffsetOutOfRangeError
	var other *DivergedError
	return errors.As(err, &gone) || errors.As(err, &other)
}

// offsetForLeaderEpochVersion is the one that is spoken, of Kafka 2.3; kafka-go
// knows the name of the API alone.
const offsetForLeaderEpochVersion = 3

// keepsEpochs reports whether the cluster can be asked about epochs. One that
// cannot is older than 2.3, or not Apache Kafka; positions are not checked there.
func (c *Client) keepsEpochs() bool {
	v, ok := c.versions[protocol.OffsetForLeaderEpoch]
	return ok && v.min <= offsetForLeaderEpochVersion && v.max >= offsetForLeaderEpochVersion
}

// epochEnds is an OffsetForLeaderEpoch v3 for partitions of one broker, and its
// response.
type epochEnds struct{ parts []epochEnd } // sorted

// epochEnd asks where an epoch ends.
type epochEnd struct {
	tp             TP
	position       int64
	current, epoch record.Epoch // of the leader as we know it; of the last record before position

	answered bool
	code     kafkago.Error
	last     record.Epoch // the largest epoch of the log that is not larger; 0: there is none
	end      int64        // where the next one begins
}

func (*epochEnds) ApiKey() protocol.ApiKey { return protocol.OffsetForLeaderEpoch }

func (q *epochEnds) exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, protocol.OffsetForLeaderEpoch, offsetForLeaderEpochVersion, correlation, clientID, false)
	b = be.AppendUint32(b, 0xffffffff) // replica id: a consumer
	topics := len(b)
	b = be.AppendUint32(b, 0)
	n := uint32(0)
	for rest := q.parts; len(rest) > 0; n++ {
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
	if err := writeRequest(rw, b); err != nil {
		return nil, err
	}

	var r responseReader
	if err := r.begin(rw, correlation, false); err != nil {
		return nil, err
	}
	r.int32() // throttle time
	for n := r.count(6); n > 0 && r.err == nil; n-- {
		topic := string(r.string16())
		for n := r.count(18); n > 0 && r.err == nil; n-- {
			code := kafkago.Error(r.int16())
			tp := TP{Topic: topic, Partition: r.int32()}
			last, end := record.EpochOf(r.int32()), r.int64()
			if i := slices.IndexFunc(q.parts, func(p epochEnd) bool { return p.tp == tp }); i >= 0 {
				p := &q.parts[i]
				p.answered, p.code, p.last, p.end = true, code, last, end
			}
		}
	}
	return q, r.end()
}

// diverged says what the answer means for the position; nil: what was read before
// it is what the log has.
func (p *epochEnd) diverged() *DivergedError {
	switch {
	case p.last == 0 || p.end < 0:
		// A leader begins its own epoch with its term, so it knows every epoch up to
		// that. A broker that denies one of those does not keep epochs as Kafka does,
		// and its answer says nothing about the log.
		if p.epoch <= p.current {
			return nil
		}
		return &DivergedError{TP: p.tp, Offset: p.position, Epoch: p.epoch, End: -1}
	case p.end < p.position:
		return &DivergedError{TP: p.tp, Offset: p.position, Epoch: p.epoch, End: p.end}
	}
	return nil
}

// Diverged asks the leaders whether the logs still have what was read before
// positions, and returns those that have not. A position without an epoch is not
// asked about.
func (c *Client) Diverged(ctx context.Context, positions map[TP]Offset) (map[TP]*DivergedError, error) {
	out := map[TP]*DivergedError{}
	if !c.keepsEpochs() {
		return out, nil
	}
	var tps []TP
	for tp, off := range positions {
		if off.Epoch > 0 && off.Offset >= 0 {
			tps = append(tps, tp)
		}
	}
	var mu sync.Mutex
	err := c.eachLeader(ctx, tps, func(ctx context.Context, broker int32, tps []TP) (map[TP]kafkago.Error, error) {
		q := &epochEnds{}
		for _, tp := range tps {
			if ps, err := c.cachedPartition(tp); err == nil && ps.epoch > 0 {
				q.parts = append(q.parts, epochEnd{tp: tp, position: positions[tp].Offset, current: ps.epoch, epoch: positions[tp].Epoch})
			}
		}
		if len(q.parts) == 0 {
			return nil, nil
		}
		if _, err := c.roundTrip(ctx, broker, q); err != nil {
			return nil, err
		}
		codes := map[TP]kafkago.Error{}
		mu.Lock()
		defer mu.Unlock()
		for i := range q.parts {
			switch p := &q.parts[i]; {
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
func (f *Fetcher) check(broker int32, sources []*Source) {
	q := &epochEnds{}
	f.mu.Lock()
	slices.SortFunc(sources, func(a, b *Source) int { return compareTP(a.tp, b.tp) })
	sources = slices.DeleteFunc(sources, func(s *Source) bool {
		if n := len(q.parts); n > 0 && q.parts[n-1].tp == s.tp { // a second source of one partition
			f.orphan(s)
			return true
		}
		q.parts = append(q.parts, epochEnd{tp: s.tp, position: s.position, current: s.leaderEpoch, epoch: s.read})
		return false
	})
	f.mu.Unlock()
	_, err := f.c.roundTrip(f.ctx, broker, q)
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
		switch p := &q.parts[i]; {
		case !p.answered:
			f.putOff(s, errors.New("the broker's response leaves the partition out"))
		case p.code == kafkago.TopicAuthorizationFailed:
			s.end(fmt.Errorf("kafka: leader epochs of %s: %w", s.tp, p.code))
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
