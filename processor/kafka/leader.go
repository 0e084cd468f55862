package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// plan is the leader's part: who gets what.
func (m *Member) plan(ctx context.Context, members []joingroup.ResponseMember) ([]syncgroup.RequestAssignment, error) {
	candidates := make([]candidate, len(members))
	var topics []string
	for i := range members {
		jm := &members[i]
		sub, err := parseSubscription(jm.Metadata)
		if err != nil { // no topics, no claims: it gets nothing and the others can work
			m.cfg.Log.Warn("a member's subscription cannot be read", "member", jm.MemberID, "error", err)
		}
		candidates[i] = candidate{id: jm.MemberID, instance: jm.GroupInstanceID, subscription: sub}
		topics = append(topics, sub.topics...)
	}
	slices.Sort(topics)
	counts, err := m.counts(ctx, slices.Compact(topics), unknownTopicPatience)
	if err != nil {
		return nil, err
	}
	plan := assign(candidates, counts)
	out := make([]syncgroup.RequestAssignment, len(candidates))
	for i := range candidates {
		id := candidates[i].id
		owes := len(without(candidates[i].owned, plan[id])) > 0
		out[i] = syncgroup.RequestAssignment{
			MemberID:   id,
			Assignment: appendAssignment(plan[id], countsDigest(candidates[i].topics, counts), owes),
		}
	}
	return out, nil
}

// counts asks for the topics' partition counts; a topic that is not there has 0.
// In a plan that takes its partitions from everyone, or leaves them to nobody
// until the next look, so there it is believed only when it has been true for
// patience: a broker that has just started, or a topic that was made just now,
// may not be known everywhere yet.
func (m *Member) counts(ctx context.Context, topics []string, patience time.Duration) (map[string]int, error) {
	counts := make(map[string]int, len(topics))
	if len(topics) == 0 {
		return counts, nil
	}
	delay := retryDelay{first: 100 * time.Millisecond, max: time.Second}
	for start := time.Now(); ; {
		if err := m.c.refresh(ctx, topics...); err != nil {
			return nil, err
		}
		again := false
		for _, t := range topics {
			n, err := m.c.partitionCount(ctx, t)
			if err != nil {
				if ClassOf(err) != Fatal && !errors.Is(err, kafkago.UnknownTopicOrPartition) {
					return nil, err
				}
				m.cfg.Log.Warn("no partitions of a topic", "error", err)
				again = true
			}
			counts[t] = n
		}
		if !again || time.Since(start) > patience {
			return counts, nil
		}
		if err := delay.wait(ctx); err != nil {
			return nil, err
		}
	}
}
