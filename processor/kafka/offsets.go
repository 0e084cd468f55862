package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"

	"odradek/processor/kafka/record"
)

// Offset is a committed position: the next offset to read. -1: none committed.
type Offset struct {
	Offset   int64
	Metadata string
	Epoch    record.Epoch // of the last record before it
}

// Generation is a membership as commits name it. The coordinator takes a commit
// only from a member of the present generation, and so fences off one that lost
// its partitions. {-1, "", ""} commits outside a group, unfenced.
type Generation struct {
	ID                   int32
	MemberID, InstanceID string
}

// Special times for ListOffsets.
const (
	Latest   int64 = -1 // the high watermark: the offset that the next record gets
	Earliest int64 = -2 // the first offset that is still there
)

// offsetFetch is OffsetFetch v7 with require_stable (KIP-447); kafka-go stops at
// v5. A position that an open transaction is about to move answers
// UNSTABLE_OFFSET_COMMIT (88) instead of the old value.
type offsetFetch struct {
	group string
	tps   []TP // sorted

	offsets map[TP]Offset
	codes   map[TP]kafkago.Error // partitions with an error
	code    kafkago.Error        // of the whole request
}

const offsetFetchVersion = 7

func (*offsetFetch) ApiKey() protocol.ApiKey { return protocol.OffsetFetch }

func (o *offsetFetch) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, protocol.OffsetFetch, offsetFetchVersion, correlation, clientID, true)
	b = appendCompactString(b, o.group)
	topics := 0
	for i := range o.tps {
		if i == 0 || o.tps[i].Topic != o.tps[i-1].Topic {
			topics++
		}
	}
	b = binary.AppendUvarint(b, uint64(topics+1))
	for rest := o.tps; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Topic == rest[0].Topic {
			n++
		}
		b = appendCompactString(b, rest[0].Topic)
		b = binary.AppendUvarint(b, uint64(n+1))
		for _, tp := range rest[:n] {
			b = be.AppendUint32(b, uint32(tp.Partition))
		}
		b = append(b, 0)
		rest = rest[n:]
	}
	b = append(b, 1, 0) // require_stable, no tagged fields
	o.offsets, o.codes = map[TP]Offset{}, map[TP]kafkago.Error{}
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	for n := r.CompactCount(3); n > 0 && r.Err() == nil; n-- {
		topic := string(r.CompactString())
		for n := r.CompactCount(16); n > 0 && r.Err() == nil; n-- {
			tp := TP{Topic: topic, Partition: r.Int32()}
			off := Offset{Offset: r.Int64()}
			off.Epoch = record.EpochOf(r.Int32())
			off.Metadata = string(r.CompactString())
			if code := r.Int16(); code != 0 {
				o.codes[tp] = kafkago.Error(code)
			}
			r.Tags()
			o.offsets[tp] = off
		}
		r.Tags()
	}
	o.code = kafkago.Error(r.Int16())
	r.Tags()
	return o, r.End()
}

// Offsets is the part of a Client that reads and commits offsets of groups, and lists offsets of
// partitions.
type Offsets struct {
	cluster      *Cluster
	coordinators *coordinators
}

// Committed returns the group's committed positions, -1 where there is none.
// While an open transaction is about to move one it waits, as long as the context
// lasts: a transaction ends at its producer's time-out at the latest. Needs Kafka
// 2.5.
func (o *Offsets) Committed(ctx context.Context, group string, tps []TP) (map[TP]Offset, error) {
	out := make(map[TP]Offset, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	if v := o.cluster.transport.newest(protocol.OffsetFetch); v < offsetFetchVersion {
		return nil, fmt.Errorf("kafka: the broker has OffsetFetch up to v%d; v%d is needed (Kafka 2.5): %w",
			v, offsetFetchVersion, kafkago.UnsupportedVersion)
	}
	tps = slices.Clone(tps)
	slices.SortFunc(tps, record.TP.Compare)
	delay := newBackoff(10*time.Millisecond, 200*time.Millisecond)
	var before error // the outcome of the last attempt
	for {
		res := &offsetFetch{group: group, tps: tps}
		err := o.coordinators.send(ctx, groupCoordinator, group, res)
		if err == nil {
			switch res.code {
			case 0:
			case kafkago.GroupIdNotFound: // no such group: nothing is committed
				for _, tp := range tps {
					out[tp] = Offset{Offset: -1}
				}
				return out, nil
			default:
				err = fmt.Errorf("kafka: committed offsets of group %q: %w", group, newCodeError(res.code))
			}
		}
		for _, tp := range tps {
			if err != nil {
				break
			}
			off, ok := res.offsets[tp]
			code := res.codes[tp]
			if !ok {
				err = fmt.Errorf("kafka: committed offset of %s in group %q: missing from the broker's response", tp, group)
			} else if code != 0 && code != kafkago.UnknownTopicOrPartition {
				err = Lacks(fmt.Errorf("kafka: committed offset of %s in group %q: %w", tp, group, newCodeError(code)), OpDescribe, tp.Topic)
			}
			if code != 0 || off.Offset < 0 {
				off = Offset{Offset: -1}
			}
			out[tp] = off
		}
		if err == nil {
			return out, nil
		}
		if before != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("%w; then: %w", before, err) // the end of ctx is not the reason
		}
		if !o.coordinators.retry(groupCoordinator, group, err) {
			return nil, err
		}
		before = err
		if delay.Wait(ctx) != nil {
			return nil, err
		}
	}
}

// Held reports whether an error of Committed says that an open transaction is about to move a position.
func Held(err error) bool { return errors.Is(err, kafkago.UnstableOffsetCommit) }

// CommitOffsets commits positions outside a transaction, for at-least-once. gen
// fences members that have lost their partitions; Generation{ID: -1} outside a
// group. It retries while the coordinator moves; a refusal is an *OffsetError.
func (o *Offsets) CommitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if len(offsets) == 0 {
		return nil
	}
	commit := &offsetcommit.Request{
		GroupID:         group,
		GenerationID:    gen.ID,
		MemberID:        gen.MemberID,
		GroupInstanceID: gen.InstanceID,
		RetentionTimeMs: -1,
	}
	tps := make([]TP, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, record.TP.Compare)
	for _, tp := range tps {
		if n := len(commit.Topics); n == 0 || commit.Topics[n-1].Name != tp.Topic {
			commit.Topics = append(commit.Topics, offsetcommit.RequestTopic{Name: tp.Topic})
		}
		t := &commit.Topics[len(commit.Topics)-1]
		t.Partitions = append(t.Partitions, offsetcommit.RequestPartition{
			PartitionIndex:       tp.Partition,
			CommittedOffset:      offsets[tp].Offset,
			CommittedLeaderEpoch: offsets[tp].Epoch.Number(),
			CommittedMetadata:    offsets[tp].Metadata,
		})
	}
	var req protocol.Message = commit
	if o.cluster.Supports(protocol.OffsetCommit, offsetCommitVersion) {
		req = &offsetCommit{commit}
	}
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	for {
		id, err := o.coordinators.find(ctx, groupCoordinator, group)
		var m protocol.Message
		if err == nil {
			m, err = o.cluster.roundTrip(ctx, id, req)
		}
		if err == nil {
			var errs []error
			for _, t := range m.(*offsetcommit.Response).Topics {
				for _, p := range t.Partitions {
					if p.ErrorCode != 0 {
						errs = append(errs, &OffsetError{Group: group, TP: TP{Topic: t.Name, Partition: p.PartitionIndex}, Code: kafkago.Error(p.ErrorCode)})
					}
				}
			}
			err = gravest(errs...)
		}
		if err == nil {
			return nil
		}
		// To commit the same positions twice does no harm: an unknown outcome is retried, too.
		if !o.coordinators.retry(groupCoordinator, group, err) {
			return err
		}
		if delay.Wait(ctx) != nil {
			return err
		}
	}
}

// offsetCommit is OffsetCommit v9, which members by the consumer protocol have to commit with (KIP-848); kafka-go stops at v7. The
// response is kafka-go's.
type offsetCommit struct{ *offsetcommit.Request }

const offsetCommitVersion = 9

func (o *offsetCommit) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, protocol.OffsetCommit, offsetCommitVersion, correlation, clientID, true)
	b = appendCompactString(b, o.GroupID)
	b = be.AppendUint32(b, uint32(o.GenerationID))
	b = appendCompactString(b, o.MemberID)
	b = appendCompactNullable(b, o.GroupInstanceID)
	b = binary.AppendUvarint(b, uint64(len(o.Topics)+1))
	for _, t := range o.Topics {
		b = appendCompactString(b, t.Name)
		b = binary.AppendUvarint(b, uint64(len(t.Partitions)+1))
		for _, p := range t.Partitions {
			b = be.AppendUint32(b, uint32(p.PartitionIndex))
			b = be.AppendUint64(b, uint64(p.CommittedOffset))
			b = be.AppendUint32(b, uint32(p.CommittedLeaderEpoch))
			b = appendCompactString(b, p.CommittedMetadata)
			b = append(b, 0) // no tagged fields
		}
		b = append(b, 0)
	}
	b = append(b, 0)
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	res := &offsetcommit.Response{ThrottleTimeMs: r.Int32()}
	for n := r.CompactCount(3); n > 0 && r.Err() == nil; n-- {
		t := offsetcommit.ResponseTopic{Name: string(r.CompactString())}
		for k := r.CompactCount(7); k > 0 && r.Err() == nil; k-- {
			t.Partitions = append(t.Partitions, offsetcommit.ResponsePartition{PartitionIndex: r.Int32(), ErrorCode: r.Int16()})
			r.Tags()
		}
		r.Tags()
		res.Topics = append(res.Topics, t)
	}
	r.Tags()
	return res, r.End()
}

// ListOffsets returns an offset for each partition: Latest, Earliest, or for a
// time in ms since the epoch the first record that is as late; when none is, the
// high watermark, which is where such a record would appear.
func (o *Offsets) ListOffsets(ctx context.Context, tps []TP, at int64) (map[TP]int64, error) {
	return o.listOffsets(ctx, tps, at, 0)
}

// ListStable returns the last stable offset of each partition: the first offset
// of an open transaction, or the high watermark. A reader of committed records
// gets no further (KIP-98).
func (o *Offsets) ListStable(ctx context.Context, tps []TP) (map[TP]int64, error) {
	return o.listOffsets(ctx, tps, Latest, 1)
}

func (o *Offsets) listOffsets(ctx context.Context, tps []TP, at int64, isolation int8) (map[TP]int64, error) {
	var mu sync.Mutex
	out := make(map[TP]int64, len(tps))
	err := o.cluster.EachLeader(ctx, tps, func(ctx context.Context, broker int32, tps []TP) (map[TP]kafkago.Error, error) {
		req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: isolation}
		for _, tp := range tps {
			_, epoch, _ := o.cluster.Leader(tp) // without one the broker does not compare terms
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
				req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: tp.Topic})
			}
			t := &req.Topics[len(req.Topics)-1]
			t.Partitions = append(t.Partitions, listoffsets.RequestPartition{
				Partition: tp.Partition, CurrentLeaderEpoch: epoch.Number(), Timestamp: at,
			})
		}
		m, err := o.cluster.roundTrip(ctx, broker, req)
		if err != nil {
			return nil, err
		}
		codes := map[TP]kafkago.Error{}
		mu.Lock()
		defer mu.Unlock()
		for _, t := range m.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				tp := TP{Topic: t.Topic, Partition: p.Partition}
				if p.ErrorCode != 0 {
					codes[tp] = kafkago.Error(p.ErrorCode)
				} else {
					out[tp] = p.Offset
				}
			}
		}
		return codes, nil
	})
	if err != nil {
		return nil, err
	}
	var late []TP
	for _, tp := range tps {
		off, ok := out[tp]
		if !ok {
			return nil, fmt.Errorf("kafka: offsets of %s: missing from the broker's response", tp)
		}
		if off < 0 && at >= 0 {
			late = append(late, tp)
		}
	}
	if len(late) > 0 {
		end, err := o.listOffsets(ctx, late, Latest, 0)
		if err != nil {
			return nil, err
		}
		for tp, off := range end {
			out[tp] = off
		}
	}
	return out, nil
}
