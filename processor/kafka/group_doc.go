package kafka

// This file implements a member of a consumer group: it reports which partitions are
// assigned to this worker, and until when. It implements the classic protocol (JoinGroup, SyncGroup,
// Heartbeat) with cooperative rebalancing (KIP-429) and static members (KIP-345).
//
// # The path of a partition
//
//  1. Join starts a Member; membership.loop joins and sends the partitions that the member holds.
//  2. The member that the coordinator names leader plans who gets what: Member.plan asks
//     for the topics' partition counts, assign moves as few partitions as it can. A
//     partition that moves is in nobody's assignment until its owner has given it back.
//  3. SyncGroup brings each member its assignment; membership.reconcile turns the difference to what
//     is held into events: Assigned, or Revoked, whose Done gives the partitions back.
//  4. The consumer commits with Member.Commit, in the newest generation that goes with
//     the events it has received. A member that has lost its partitions is fenced off by
//     its generation.
//
// # What is not obvious
//
// The leader's plan depends on the members' claims and on the partition counts alone
// (assignor.go), so that any member that becomes leader plans the same.
//
// The member's goroutine never waits for the consumer. Heartbeats and rebalances continue during a hand-over, which may
// take longer than the session.
//
// A dynamic member that joins a running group gets partitions in its second generation: in the first it may be dead
// already, see settled.
//
// A Lost event and the generation go together: until the consumer has dealt with the
// event, Generation returns the generation that has ended, so that a commit of partitions
// that may be another member's is refused.
//
// A static leader that restarts is not named leader again (KIP-814), so that every
// member compares the partition counts, see membership.compareCounts.
