package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"odradek/processor/kafka/record"
)

// protocolName is what the members of a group agree on: this assignor with the
// cooperative protocol (KIP-429).
const protocolName = "odradek-cooperative-sticky"

// subscription is the metadata that a member sends to the leader when it joins.
type subscription struct {
	topics     []string
	owned      []record.TP
	generation int32 // in which owned was assigned, -1 none
}

// candidate is a member as the assignor sees it.
type candidate struct {
	id       string // member id
	instance string // group instance id, "" for a dynamic member
	subscription
}

// rank orders members. A static member keeps its place over a restart.
func (c *candidate) rank() string {
	if c.instance != "" {
		return c.instance
	}
	return c.id
}

// completed reports whether the member has completed a generation with the others, or comes in the place of one that has.
func (c *candidate) completed() bool { return c.generation >= 0 || c.instance != "" }

// settled returns the topics to which a member subscribes that has completed a generation.
//
// A dynamic member that has not may be dead already. While it waits for the others to join, the coordinator expects no
// heartbeat of it, and its session begins when all have joined: one that dies meanwhile, as a worker does that crashes at
// its start again and again, is in the next generation, for a whole session. Partitions that it is given stand still as
// long. So it gets none of a settled topic; the plan has it join again at once (owes), and if it does it gets its share.
func settled(members []candidate) map[string]bool {
	topics := map[string]bool{}
	for i := range members {
		if members[i].completed() {
			for _, t := range members[i].topics {
				topics[t] = true
			}
		}
	}
	return topics
}

// waits reports whether the member has to join again before it gets its share.
func (c *candidate) waits(settled map[string]bool) bool {
	return !c.completed() && slices.ContainsFunc(c.topics, func(t string) bool { return settled[t] })
}

// assign plans who gets which partitions of the topics with these partition
// counts. It is sticky, balanced and cooperative:
//
//   - A member keeps what it owns, unless another has too few: then the least
//     number of partitions moves. With equal subscriptions no two members differ by
//     more than one partition, over all topics together.
//   - A partition that moves is in no one's assignment until its owner has dropped
//     it: the owner sees it missing, hands it over and joins again, and that round
//     gives it away. So at no time two members hold a partition.
//   - Owning counts only in the newest generation that claims the partition. A
//     partition claimed by two in the same generation belongs to neither: both
//     drop it, and a later round gives it away.
//   - A member gets no partition of a settled topic before it has completed a generation.
//
// The plan depends on the arguments alone, not on the order of members. Every
// member has an entry, sorted by topic and partition.
func assign(members []candidate, counts map[string]int) map[string][]record.TP {
	p := newPlanner(members, counts)
	p.keep()
	p.spread()
	p.level()
	out := make(map[string][]record.TP, len(members))
	for i := range p.members {
		m := &p.members[i]
		granted := []record.TP{}
		for tp := range m.has {
			// Withheld while anyone else still holds it.
			if claims := p.claims[tp]; len(claims) == 0 || len(claims) == 1 && claims[0] == i {
				granted = append(granted, tp)
			}
		}
		slices.SortFunc(granted, record.TP.Compare)
		out[m.id] = granted
	}
	return out
}

// planner holds a plan in the making.
type planner struct {
	topics  []string // sorted
	counts  map[string]int
	members []plannedMember     // sorted by rank
	claims  map[record.TP][]int // members whose claim to own it counts
	takers  map[string][]int    // subscribers of each topic
}

type plannedMember struct {
	*candidate
	has   map[record.TP]struct{}
	count map[string]int // of has, by topic
}

func newPlanner(members []candidate, counts map[string]int) *planner {
	p := &planner{
		counts: counts,
		claims: map[record.TP][]int{},
		takers: map[string][]int{},
	}
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.id, b.id))
	})
	settled := settled(members)
	for i := range sorted {
		if !sorted[i].completed() {
			sorted[i].topics = slices.DeleteFunc(slices.Clone(sorted[i].topics), func(t string) bool { return settled[t] })
		}
		p.members = append(p.members, plannedMember{candidate: &sorted[i], has: map[record.TP]struct{}{}, count: map[string]int{}})
		for _, t := range sorted[i].topics {
			if takers := p.takers[t]; len(takers) == 0 || takers[len(takers)-1] != i {
				p.takers[t] = append(takers, i)
			}
		}
	}
	for t := range p.takers {
		p.topics = append(p.topics, t)
	}
	slices.Sort(p.topics)
	return p
}

// keep leaves every partition with the member whose claim to it counts.
func (p *planner) keep() {
	for i := range p.members {
		for _, tp := range p.members[i].owned {
			if tp.Partition < 0 || int(tp.Partition) >= p.counts[tp.Topic] {
				continue // the topic was deleted, or created again with fewer partitions
			}
			if claims := p.claims[tp]; !slices.Contains(claims, i) {
				p.claims[tp] = append(claims, i)
			}
		}
	}
	for tp, claims := range p.claims {
		best, tied := claims[0], false
		for _, i := range claims[1:] {
			switch a, b := p.members[i].generation, p.members[best].generation; {
			case a > b:
				best, tied = i, false
			case a == b:
				tied = true
			}
		}
		if tied {
			continue
		}
		if slices.Contains(p.takers[tp.Topic], best) {
			p.give(tp, best)
		}
		// Only claims that count withhold the partition. A stale one must not: it would
		// take the partition from its owner and stop the owner's work.
		p.claims[tp] = []int{best}
	}
}

func (p *planner) give(tp record.TP, to int) {
	m := &p.members[to]
	m.has[tp] = struct{}{}
	m.count[tp.Topic]++
}

func (p *planner) withdraw(tp record.TP, from int) {
	m := &p.members[from]
	delete(m.has, tp)
	m.count[tp.Topic]--
}

// spread gives each partition without an owner to the subscriber with the fewest
// partitions, and among those to the one with the fewest of the topic.
func (p *planner) spread() {
	taken := map[record.TP]struct{}{}
	for i := range p.members {
		for tp := range p.members[i].has {
			taken[tp] = struct{}{}
		}
	}
	for _, t := range p.topics {
		for n := range p.counts[t] {
			tp := record.TP{Topic: t, Partition: int32(n)}
			if _, ok := taken[tp]; ok {
				continue
			}
			best := -1
			for _, i := range p.takers[t] {
				if best < 0 || p.compareLoad(i, best, t) < 0 {
					best = i
				}
			}
			p.give(tp, best)
		}
	}
}

func (p *planner) compareLoad(i, j int, topic string) int {
	a, b := &p.members[i], &p.members[j]
	return cmp.Or(cmp.Compare(len(a.has), len(b.has)), cmp.Compare(a.count[topic], b.count[topic]), cmp.Compare(i, j))
}

// level moves partitions from members with more to members with at least two
// fewer until there are none. Always taking from the fullest for the emptiest
// makes the number of moves the least possible where all subscribe to the same:
// each move takes one partition off a member that must lose one, or gives one to a
// member that must gain one, or both.
func (p *planner) level() {
	for {
		from, to, topic := p.widest()
		if from < 0 {
			return
		}
		last := record.TP{Topic: topic, Partition: -1}
		for tp := range p.members[from].has {
			if tp.Topic == topic && tp.Partition > last.Partition {
				last = tp
			}
		}
		p.withdraw(last, from)
		p.give(last, to)
	}
}

// widest finds the two members that are furthest apart, by at least two, with a
// topic that can move between them: of those topics the one of which the two
// have the most unequal numbers, so that every topic spreads over the members.
func (p *planner) widest() (from, to int, topic string) {
	order := make([]int, len(p.members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(len(p.members[i].has), len(p.members[j].has))
	})
	from, best := -1, 1
	for _, i := range order { // the emptiest first
		for k := len(order) - 1; k >= 0; k-- { // the fullest first
			j := order[k]
			gap := len(p.members[j].has) - len(p.members[i].has)
			if gap <= best {
				break
			}
			t, ok := p.movable(j, i)
			if ok {
				from, to, topic, best = j, i, t, gap
				break
			}
		}
	}
	return from, to, topic
}

func (p *planner) movable(from, to int) (topic string, ok bool) {
	a, b := &p.members[from], &p.members[to]
	most := 0
	for _, t := range b.topics {
		n := a.count[t]
		if n == 0 {
			continue
		}
		if d := n - b.count[t]; !ok || d > most || d == most && t > topic {
			topic, most, ok = t, d, true
		}
	}
	return topic, ok
}

// without returns the partitions of a that are not in b, in a's order.
func without(a, b []record.TP) []record.TP {
	if len(b) == 0 {
		return slices.Clone(a)
	}
	in := make(map[record.TP]struct{}, len(b))
	for _, tp := range b {
		in[tp] = struct{}{}
	}
	var out []record.TP
	for _, tp := range a {
		if _, ok := in[tp]; !ok {
			out = append(out, tp)
		}
	}
	return out
}

// countsDigest condenses the topics that a member subscribes to and their
// partition counts. The leader sends it with the assignment, so that a member
// can tell whether the assignment was made for what it sees.
func countsDigest(topics []string, counts map[string]int) uint64 {
	topics = slices.Clone(topics)
	slices.Sort(topics)
	h := fnv.New64a()
	var b []byte
	for _, t := range slices.Compact(topics) {
		b = binary.BigEndian.AppendUint32(b[:0], uint32(len(t)))
		b = append(b, t...)
		b = binary.BigEndian.AppendUint32(b, uint32(counts[t]))
		h.Write(b)
	}
	return h.Sum64()
}

// The metadata of the "consumer" protocol, in the versions that Java's tools
// can show: subscription 1, assignment 1.
// https://github.com/apache/kafka/tree/trunk/clients/src/main/resources/common/message
// (ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json). The
// generation stands where Java's cooperative sticky assignor has it, first in
// the user data.

func (s *subscription) encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.topics)))
	for _, t := range s.topics {
		b = appendString(b, t)
	}
	b = binary.BigEndian.AppendUint32(b, 4)
	b = binary.BigEndian.AppendUint32(b, uint32(s.generation))
	return appendPartitions(b, s.owned)
}

// parseSubscription reads a member's metadata, of this program or of another of
// the same protocol. Without user data the generation is -1.
func parseSubscription(b []byte) (subscription, error) {
	r := newWireReader(b)
	s := subscription{generation: -1}
	version := r.Int16()
	for n := r.Count(2); n > 0 && r.Err() == nil; n-- {
		s.topics = append(s.topics, string(r.String16()))
	}
	if user := readUserData(r); len(user) >= 4 {
		s.generation = int32(binary.BigEndian.Uint32(user))
	}
	if version >= 1 {
		s.owned = readPartitions(r)
	}
	if r.Err() != nil {
		return subscription{}, fmt.Errorf("kafka: group subscription: %w", r.Err())
	}
	return s, nil
}

// appendAssignment writes a member's assignment. owes says that the member has to join again: it claimed more, which others
// may be waiting for, and hands that over first; or it has not completed a generation before this one.
func appendAssignment(tps []record.TP, digest uint64, owes bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = appendPartitions(b, tps)
	b = binary.BigEndian.AppendUint32(b, 9)
	b = binary.BigEndian.AppendUint64(b, digest)
	if owes {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseAssignment reads what the leader gave this member. No bytes at all are no
// partitions: brokers answer so to a member that the leader's plan left out.
func parseAssignment(b []byte) (tps []record.TP, digest uint64, owes bool, err error) {
	if len(b) == 0 {
		return nil, 0, false, nil
	}
	r := newWireReader(b)
	r.Int16()
	tps = readPartitions(r)
	if user := readUserData(r); len(user) >= 8 {
		digest, owes = binary.BigEndian.Uint64(user), len(user) > 8 && user[8]&1 != 0
	}
	if r.Err() != nil {
		return nil, 0, false, fmt.Errorf("kafka: group assignment: %w", r.Err())
	}
	slices.SortFunc(tps, record.TP.Compare)
	return slices.Compact(tps), digest, owes, nil
}

// appendPartitions writes tps, grouped by topic; they must be sorted.
func appendPartitions(b []byte, tps []record.TP) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	topics := uint32(0)
	for i := 0; i < len(tps); {
		j := i
		for j < len(tps) && tps[j].Topic == tps[i].Topic {
			j++
		}
		b = appendString(b, tps[i].Topic)
		b = binary.BigEndian.AppendUint32(b, uint32(j-i))
		for ; i < j; i++ {
			b = binary.BigEndian.AppendUint32(b, uint32(tps[i].Partition))
		}
		topics++
	}
	binary.BigEndian.PutUint32(b[at:], topics)
	return b
}

// readPartitions reads what appendPartitions wrote.
func readPartitions(r *wireReader) []record.TP {
	var tps []record.TP
	for n := r.Count(6); n > 0 && r.Err() == nil; n-- {
		topic := string(r.String16())
		for k := r.Count(4); k > 0; k-- {
			tps = append(tps, record.TP{Topic: topic, Partition: r.Int32()})
		}
	}
	return tps
}

func readUserData(r *wireReader) []byte { return r.Bytes(max(int(r.Int32()), 0)) }
