package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Group is a consumer group as its coordinator sees it.
type Group struct {
	State    string // Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
	Protocol string // the assignor's name
	Members  []Member
}

// Member is one member of a group.
type Member struct {
	ID, InstanceID, ClientID string
	Assigned                 []TP // in order; empty while the group is not stable
}

// staleAfter is how long a request to a group's coordinator may take before another
// client repeats it.
const staleAfter = 2 * time.Second

// toCoordinator sends an idempotent request to a group's coordinator, and repeats it on a
// fresh client if it fails: OffsetFetch and DescribeGroups of franz-go 1.22 stay with a
// coordinator that was killed, and are refused for as long as the client lives, although
// another broker coordinates the group.
func (a *Admin) toCoordinator(ctx context.Context, send func(ctx context.Context, cl *kgo.Client) error) error {
	first, cancel := context.WithTimeout(ctx, staleAfter)
	err := send(first, a.cl)
	cancel()
	if err == nil || ctx.Err() != nil {
		return err
	}
	cl, err := a.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	return send(ctx, cl)
}

// Group describes a group; one that is not known has the state "Dead" on Kafka
// and no members.
func (a *Admin) Group(ctx context.Context, name string) (Group, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{name}
	var r *kmsg.DescribeGroupsResponse
	err := a.toCoordinator(ctx, func(ctx context.Context, cl *kgo.Client) (err error) {
		r, err = req.RequestWith(ctx, cl)
		return err
	})
	if err != nil {
		return Group{}, fmt.Errorf("kafkatest: group %s: %w", name, err)
	}
	d := r.Groups[0]
	if err := kerr.ErrorForCode(d.ErrorCode); errors.Is(err, kerr.GroupIDNotFound) {
		return Group{State: "Dead"}, nil
	} else if err != nil {
		return Group{}, fmt.Errorf("kafkatest: group %s: %w", name, err)
	}
	g := Group{State: d.State, Protocol: d.Protocol}
	for _, m := range d.Members {
		out := Member{ID: m.MemberID, ClientID: m.ClientID}
		if m.InstanceID != nil {
			out.InstanceID = *m.InstanceID
		}
		var as kmsg.ConsumerMemberAssignment
		if as.ReadFrom(m.MemberAssignment) == nil {
			for _, t := range as.Topics {
				for _, p := range t.Partitions {
					out.Assigned = append(out.Assigned, TP{t.Topic, p})
				}
			}
		}
		sort.Slice(out.Assigned, func(i, j int) bool { return less(out.Assigned[i], out.Assigned[j]) })
		g.Members = append(g.Members, out)
	}
	sort.Slice(g.Members, func(i, j int) bool { return g.Members[i].ID < g.Members[j].ID })
	return g, nil
}

func less(a, b TP) bool {
	if a.Topic != b.Topic {
		return a.Topic < b.Topic
	}
	return a.Partition < b.Partition
}

// WaitGroup waits until a group is stable with that many members and each
// partition of the topics has exactly one owner; with 0 members, until it is
// empty or gone.
func (a *Admin) WaitGroup(ctx context.Context, name string, members int, topics ...string) (Group, error) {
	var g Group
	err := poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
		var err error
		if g, err = a.Group(ctx, name); err != nil {
			return err
		}
		if len(g.Members) != members || members > 0 && g.State != "Stable" {
			return fmt.Errorf("%s with %d members, not %d", g.State, len(g.Members), members)
		}
		if members == 0 {
			return nil
		}
		owners := make(map[TP]int)
		for _, m := range g.Members {
			for _, tp := range m.Assigned {
				owners[tp]++
			}
		}
		for _, topic := range topics {
			ps, err := a.Partitions(ctx, topic)
			if err != nil {
				return err
			}
			for _, p := range ps {
				if n := owners[TP{topic, p.ID}]; n != 1 {
					return fmt.Errorf("%s/%d has %d owners", topic, p.ID, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		return g, fmt.Errorf("kafkatest: group %s: %w", name, err)
	}
	return g, nil
}

// Committed is a group's committed offset of a partition.
type Committed struct {
	Offset   int64
	Metadata string
}

// Offsets returns what a group has committed; partitions without an offset are
// not in it. With stable it waits for transactions that hold offsets to end,
// else it returns what was committed before them.
func (a *Admin) Offsets(ctx context.Context, group string, stable bool) (map[TP]Committed, error) {
	out := make(map[TP]Committed)
	err := poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
		clear(out)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.Topics, req.RequireStable = group, nil, stable
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.Topics = group, nil
		req.Groups = append(req.Groups, g)
		var r *kmsg.OffsetFetchResponse
		err := a.toCoordinator(ctx, func(ctx context.Context, cl *kgo.Client) (err error) {
			r, err = req.RequestWith(ctx, cl)
			return err
		})
		if err != nil {
			return err
		}
		code := r.ErrorCode
		type row struct {
			tp   TP
			c    Committed
			code int16
		}
		var rows []row
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				rows = append(rows, row{TP{t.Topic, p.Partition}, committed(p.Offset, p.Metadata), p.ErrorCode})
			}
		}
		for _, g := range r.Groups {
			code = g.ErrorCode
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					rows = append(rows, row{TP{t.Topic, p.Partition}, committed(p.Offset, p.Metadata), p.ErrorCode})
				}
			}
		}
		if err := kerr.ErrorForCode(code); errors.Is(err, kerr.GroupIDNotFound) {
			return nil // kfake's word for a group that never committed
		} else if err != nil {
			return err
		}
		for _, r := range rows {
			if err := kerr.ErrorForCode(r.code); err != nil {
				return err
			}
			if r.c.Offset >= 0 {
				out[r.tp] = r.c
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("kafkatest: offsets of group %s: %w", group, err)
	}
	return out, nil
}

func committed(offset int64, metadata *string) Committed {
	c := Committed{Offset: offset}
	if metadata != nil {
		c.Metadata = *metadata
	}
	return c
}

// WaitCommitted waits until a group has committed offsets past every record of
// the topic that is visible at the call.
func (a *Admin) WaitCommitted(ctx context.Context, group, topic string) error {
	return a.WaitCommittedTo(ctx, group, topic, nil)
}

// WaitCommittedTo waits until a group has committed at least these offsets; nil
// stands for WaitCommitted's.
func (a *Admin) WaitCommittedTo(ctx context.Context, group, topic string, ends map[int32]int64) error {
	if ends == nil {
		ends = make(map[int32]int64)
		err := a.Read(ctx, topic, true, func(r *Record) error { ends[r.Partition] = r.Offset + 1; return nil })
		if err != nil {
			return err
		}
	}
	err := poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
		got, err := a.Offsets(ctx, group, true)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if c, ok := got[TP{topic, p}]; end > 0 && (!ok || c.Offset < end) {
				return fmt.Errorf("%s/%d: committed %d (any: %t) of %d", topic, p, c.Offset, ok, end)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("kafkatest: group %s has not read all: %w", group, err)
	}
	return nil
}

// SetOffsets commits offsets for a group without members.
func (a *Admin) SetOffsets(ctx context.Context, group string, offsets map[TP]Committed) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	topics := make(map[string]*kmsg.OffsetCommitRequestTopic)
	for tp, c := range offsets {
		t := topics[tp.Topic]
		if t == nil {
			m, err := a.metadata(ctx, tp.Topic)
			if err != nil {
				return err
			}
			nt := kmsg.NewOffsetCommitRequestTopic()
			nt.Topic, nt.TopicID = tp.Topic, m.Topics[0].TopicID
			t = &nt
			topics[tp.Topic] = t
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = tp.Partition, c.Offset, kmsg.StringPtr(c.Metadata)
		t.Partitions = append(t.Partitions, p)
	}
	for _, t := range topics {
		req.Topics = append(req.Topics, *t)
	}
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: set offsets of %s: %w", group, err)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := failed(fmt.Sprintf("set offset of %s for %s/%d", group, t.Topic, p.Partition), p.ErrorCode, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
