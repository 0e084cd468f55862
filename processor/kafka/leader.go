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

// plan returns the assignments of all members. Only the leader calls it.
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
	counts, err := m.counts(ctx, slices.Compact(topics), topicPatience)
	if err != nil {
		return nil, err
	}
	plan, settled := assign(candidates, counts), settled(candidates)
	out := make([]syncgroup.RequestAssignment, len(candidates))
	for i := range candidates {
		id := candidates[i].id
		owes := len(without(candidates[i].owned, plan[id])) > 0 || candidates[i].waits(settled)
		out[i] = syncgroup.RequestAssignment{
			MemberID:   id,
			Assignment: appendAssignment(plan[id], countsDigest(candidates[i].topics, counts), owes),
		}
	}
	return out, nil
}

// topicPatience is how long a topic has to be unknown before a plan leaves it out.
const topicPatience = 5 * time.Second

// counts asks for the topics' partition counts; a topic that does not exist has 0. A
// plan with such a count takes the topic's partitions from everyone, so that it is
// believed only after patience: a broker that has just started may not know all topics
// yet, and a topic that was made just now is not known to every broker. The next plans
// do not wait for that topic again: the other members, who have less patience with a
// leader, would join again before each plan.
func (m *Member) counts(ctx context.Context, topics []string, patience time.Duration) (map[string]int, error) {
	counts := make(map[string]int, len(topics))
	if len(topics) == 0 {
		return counts, nil
	}
	delay := newBackoff(100*time.Millisecond, time.Second)
	for start := time.Now(); ; {
		if err := m.c.Refresh(ctx, topics...); err != nil {
			return nil, err
		}
		again := false
		for _, t := range topics {
			n, err := m.c.Partitions(ctx, t)
			if err != nil {
				if ClassOf(err) != Fatal && !errors.Is(err, kafkago.UnknownTopicOrPartition) {
					return nil, err
				}
				if !m.isMissing(t) {
					m.cfg.Log.Warn("a topic has no partitions", "error", err)
					again = true
				}
			}
			counts[t] = n
		}
		if !again || time.Since(start) > patience {
			m.noteMissing(counts, patience)
			return counts, nil
		}
		if err := delay.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// isMissing reports whether a plan has waited for a topic in vain.
func (m *Member) isMissing(topic string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.missing[topic]
}

// noteMissing notes which topics there are, and after patience those that there are not.
func (m *Member) noteMissing(counts map[string]int, patience time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t, n := range counts {
		switch {
		case n > 0:
			delete(m.missing, t)
		case patience > 0:
			if m.missing == nil {
				m.missing = map[string]bool{}
			}
			m.missing[t] = true
		}
	}
}
