package kafka

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

func tps(partitions ...int32) []record.TP {
	var out []record.TP
	for _, p := range partitions {
		out = append(out, brokertest.TP("t", p))
	}
	return out
}

func member(id string, generation int32, owned []record.TP, topics ...string) candidate {
	return candidate{id: id, subscription: subscription{topics: topics, owned: owned, generation: generation}}
}

func TestAssign(t *testing.T) {
	f := func(name string, counts map[string]int, members []candidate, want map[string][]record.TP) {
		t.Helper()
		for i, m := range want {
			if m == nil {
				want[i] = []record.TP{}
			}
		}
		if got := assign(members, counts); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, got, want)
		}
	}
	ten := map[string]int{"t": 10}
	f("no members", ten, nil, map[string][]record.TP{})
	f("no topic", nil, []candidate{member("a", -1, nil, "t")}, map[string][]record.TP{"a": nil})
	f("alone", map[string]int{"t": 2, "u": 1}, []candidate{member("a", -1, nil, "u", "t")},
		map[string][]record.TP{"a": {brokertest.TP("t", 0), brokertest.TP("t", 1), brokertest.TP("u", 0)}})
	f("two new ones share each topic", map[string]int{"t": 2, "u": 2},
		[]candidate{member("b", -1, nil, "t", "u"), member("a", -1, nil, "t", "u")},
		map[string][]record.TP{"a": {brokertest.TP("t", 0), brokertest.TP("u", 0)}, "b": {brokertest.TP("t", 1), brokertest.TP("u", 1)}})
	f("balanced over topics of one partition", map[string]int{"t": 1, "u": 1, "v": 1, "w": 1},
		[]candidate{member("a", -1, nil, "t", "u", "v", "w"), member("b", -1, nil, "t", "u", "v", "w")},
		map[string][]record.TP{"a": {brokertest.TP("t", 0), brokertest.TP("v", 0)}, "b": {brokertest.TP("u", 0), brokertest.TP("w", 0)}})
	f("what moves is withheld", map[string]int{"t": 4},
		[]candidate{member("a", 1, tps(0, 1, 2, 3), "t"), member("b", 1, nil, "t")},
		map[string][]record.TP{"a": tps(0, 1), "b": nil})
	f("then granted", map[string]int{"t": 4},
		[]candidate{member("a", 2, tps(0, 1), "t"), member("b", 2, nil, "t")},
		map[string][]record.TP{"a": tps(0, 1), "b": tps(2, 3)})
	f("new partitions go to the emptiest", map[string]int{"t": 5},
		[]candidate{member("a", 1, tps(0, 1), "t"), member("b", 1, tps(2), "t")},
		map[string][]record.TP{"a": tps(0, 1, 4), "b": tps(2, 3)})
	f("a stale claim loses", map[string]int{"t": 2},
		[]candidate{member("a", 3, tps(0, 1), "t"), member("b", 7, tps(1), "t")},
		map[string][]record.TP{"a": tps(0), "b": tps(1)})
	f("equal claims both lose", map[string]int{"t": 1},
		[]candidate{member("a", 3, tps(0), "t"), member("b", 3, tps(0), "t")},
		map[string][]record.TP{"a": nil, "b": nil})
	f("a partition that does not exist is not kept", map[string]int{"t": 1},
		[]candidate{member("a", 3, append(tps(0, 7), brokertest.TP("gone", 0)), "t", "gone")},
		map[string][]record.TP{"a": tps(0)})
	f("one that leaves subscribes to nothing and holds on", map[string]int{"t": 2},
		[]candidate{member("a", 3, tps(0)), member("b", 3, tps(1), "t")},
		map[string][]record.TP{"a": nil, "b": tps(1)})
	f("different subscriptions", map[string]int{"t": 4, "u": 2},
		[]candidate{member("a", -1, nil, "t"), member("b", -1, nil, "t", "u")},
		map[string][]record.TP{"a": tps(0, 2, 3), "b": {brokertest.TP("t", 1), brokertest.TP("u", 0), brokertest.TP("u", 1)}})
	f("a new one waits", map[string]int{"t": 5},
		[]candidate{member("a", 1, tps(0, 1), "t"), member("b", 1, tps(2, 3), "t"), member("c", -1, nil, "t")},
		map[string][]record.TP{"a": tps(0, 1, 4), "b": tps(2, 3), "c": nil})
	f("a new one does not wait for a topic that no other has", map[string]int{"t": 2, "u": 2},
		[]candidate{member("a", 1, tps(0, 1), "t"), member("b", -1, nil, "t", "u"), member("c", -1, nil, "u")},
		map[string][]record.TP{"a": tps(0, 1), "b": {brokertest.TP("u", 0)}, "c": {brokertest.TP("u", 1)}})
	f("nor for one that leaves", map[string]int{"t": 2},
		[]candidate{member("a", 3, tps(0)), member("b", -1, nil, "t")},
		map[string][]record.TP{"a": nil, "b": tps(1)})
	static := member("b", -1, nil, "t")
	static.instance = "b"
	f("a static one has been there before", map[string]int{"t": 4},
		[]candidate{member("a", 1, tps(0, 1), "t"), static}, map[string][]record.TP{"a": tps(0, 1), "b": tps(2, 3)})
	f("a topic named twice", map[string]int{"t": 1},
		[]candidate{member("a", -1, nil, "t", "t")}, map[string][]record.TP{"a": tps(0)})
}

// simulated is a member of a simulated group: what its consumer holds, and what
// it has to hand over before it may join again.
type simulated struct {
	id, instance string
	topics       []string
	held         []record.TP
	generation   int32
}

// TestAssignHistories runs random histories of joins, leaves, crashes and new
// partitions with slow hand-overs, and checks that no two members ever hold a
// partition, that the group comes to rest with every partition held and loads
// within one, and that it took the least number of moves to get there.
func TestAssignHistories(t *testing.T) {
	r := seedtest.New(t)
	for range 300 {
		g := simulatedGroup{t: t, r: r, counts: map[string]int{}, topics: nil}
		for i := range 1 + r.IntN(4) {
			topic := fmt.Sprintf("t%d", i)
			g.topics = append(g.topics, topic)
			g.counts[topic] = r.IntN(12)
		}
		for range 20 {
			g.change()
			if r.IntN(3) == 0 {
				g.round(false) // another change before the group has come to rest
				continue
			}
			g.rebalance()
		}
	}
}

type simulatedGroup struct {
	t          *testing.T
	r          *rand.Rand
	topics     []string
	counts     map[string]int
	members    []*simulated
	next       int
	generation int32
}

func (g *simulatedGroup) change() {
	switch n := g.r.IntN(8); {
	case n < 4 || len(g.members) == 0: // join
		m := &simulated{id: fmt.Sprintf("m%d", g.next), topics: g.topics, generation: -1}
		if g.r.IntN(2) == 0 {
			m.instance = fmt.Sprintf("i%d", g.r.IntN(1000))
		}
		g.next++
		g.members = append(g.members, m)
	case n < 6: // leave or crash: what it held is free
		i := g.r.IntN(len(g.members))
		g.members = slices.Delete(g.members, i, i+1)
	case n < 7: // expelled: it holds nothing any more and comes back as new
		m := g.members[g.r.IntN(len(g.members))]
		m.held, m.generation, m.id = nil, -1, fmt.Sprintf("m%d", g.next)
		g.next++
	default: // more partitions
		g.counts[g.topics[g.r.IntN(len(g.topics))]] += 1 + g.r.IntN(3)
	}
}

// round makes one generation. Members hand over what they have to, at once or
// (slow) some time later. It reports whether anyone has to join again.
func (g *simulatedGroup) round(slow bool) bool {
	g.generation++
	var cs []candidate
	for _, m := range g.members {
		cs = append(cs, candidate{id: m.id, instance: m.instance,
			subscription: subscription{topics: m.topics, owned: m.held, generation: m.generation}})
	}
	plan := assign(cs, g.counts)
	// The plan does not depend on the order of members.
	g.r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	if again := assign(cs, g.counts); !reflect.DeepEqual(plan, again) {
		g.t.Fatalf("order of members matters:\n%v\n%v", plan, again)
	}
	settled := settled(cs)
	again := slices.ContainsFunc(cs, func(c candidate) bool { return c.waits(settled) })
	for _, m := range g.members {
		if m.generation < 0 && m.instance == "" && len(settled) > 0 && len(plan[m.id]) > 0 {
			g.t.Fatalf("%s is given partitions in its first generation", m.id)
		}
		m.generation = g.generation
		revoked := without(m.held, plan[m.id])
		granted := without(plan[m.id], m.held)
		m.held = append(m.held, granted...)
		if len(revoked) > 0 {
			again = true
			if !slow || g.r.IntN(2) == 0 {
				m.held = without(m.held, revoked)
			}
		}
		slices.SortFunc(m.held, record.TP.Compare)
	}
	g.exclusive()
	return again
}

func (g *simulatedGroup) exclusive() {
	holder := map[record.TP]string{}
	for _, m := range g.members {
		for _, tp := range m.held {
			if h, ok := holder[tp]; ok {
				g.t.Fatalf("%s is held by %s and %s", tp, h, m.id)
			}
			holder[tp] = m.id
		}
	}
}

func (g *simulatedGroup) rebalance() {
	if len(g.members) == 0 {
		return
	}
	total := 0
	for _, n := range g.counts {
		total += n
	}
	g.round(false) // in which new members wait: what is free goes to others, and may go on to them
	before := map[record.TP]*simulated{}
	for _, m := range g.members {
		for _, tp := range m.held {
			before[tp] = m
		}
	}
	least := leastMoves(g.members, total)
	rounds := 0
	for slow := g.r.IntN(2) == 0; g.round(slow); {
		if rounds++; rounds > 100 {
			g.t.Fatal("the group does not come to rest")
		}
		if rounds > 5 {
			slow = false
		}
	}
	g.round(false)
	moves, held := 0, 0
	lo, hi := total, 0
	for _, m := range g.members {
		held += len(m.held)
		lo, hi = min(lo, len(m.held)), max(hi, len(m.held))
		for _, tp := range m.held {
			if o := before[tp]; o != nil && o != m {
				moves++
			}
		}
	}
	if held != total {
		g.t.Fatalf("%d of %d partitions are held", held, total)
	}
	if hi-lo > 1 {
		g.t.Fatalf("loads from %d to %d", lo, hi)
	}
	if moves != least {
		g.t.Fatalf("%d partitions moved, %d had to", moves, least)
	}
}

// leastMoves returns the number of partitions that must change hands to bring loads
// within one of each other, with the free ones placed as well as can be: every
// member keeps at most its share, and the members that have most keep the larger
// shares.
func leastMoves(members []*simulated, total int) int {
	var loads []int
	held := 0
	for _, m := range members {
		loads = append(loads, len(m.held))
		held += len(m.held)
	}
	slices.SortFunc(loads, func(a, b int) int { return b - a })
	q, rem := total/len(loads), total%len(loads)
	kept := 0
	for i, n := range loads {
		share := q
		if i < rem {
			share++
		}
		kept += min(n, share)
	}
	return held - kept
}

func TestAssignJoinMovesAtMostCeil(t *testing.T) {
	r := seedtest.New(t)
	for range 200 {
		n, members := r.IntN(200), 1+r.IntN(12)
		counts := map[string]int{"t": n}
		var cs []candidate
		for i := range members {
			cs = append(cs, member(fmt.Sprint("m", i), -1, nil, "t"))
		}
		plan := assign(cs, counts)
		for i := range cs {
			cs[i].owned, cs[i].generation = plan[cs[i].id], 1
		}
		cs = append(cs, member("new", -1, nil, "t"))
		if again := assign(cs, counts); len(again["new"]) > 0 || len(without(plan["m0"], again["m0"])) > 0 {
			t.Fatalf("a new member takes partitions in its first generation: %v", again)
		}
		cs[members].generation = 1
		kept := 0
		for _, tps := range assign(cs, counts) {
			kept += len(tps)
		}
		if moved := n - kept; moved > (n+members)/(members+1) {
			t.Fatalf("%d partitions, %d members: %d moved", n, members, moved)
		}
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	r := seedtest.New(t)
	for range 500 {
		s := subscription{generation: r.Int32() - 1}
		for i := range r.IntN(4) {
			s.topics = append(s.topics, fmt.Sprint("topic-", i))
			for p := range r.IntN(5) {
				s.owned = append(s.owned, record.TP{Topic: fmt.Sprint("topic-", i), Partition: int32(p)})
			}
		}
		got, err := parseSubscription(s.encode())
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v, %v; want %+v", got, err, s)
		}
		digest := r.Uint64()
		owes := r.IntN(2) == 0
		tps, d, o, err := parseAssignment(appendAssignment(s.owned, digest, owes))
		if err != nil || o != owes || d != digest || !reflect.DeepEqual(tps, s.owned) {
			t.Fatalf("%v, %d, %v; want %v, %d", tps, d, err, s.owned, digest)
		}
	}
	// Version 0, from a program that names no owned partitions.
	got, err := parseSubscription([]byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	if err != nil || !slices.Equal(got.topics, []string{"t"}) || got.generation != -1 || got.owned != nil {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestCountsDigest(t *testing.T) {
	counts := map[string]int{"a": 1, "b": 2, "other": 9}
	want := countsDigest([]string{"a", "b"}, counts)
	if got := countsDigest([]string{"b", "a", "a"}, map[string]int{"a": 1, "b": 2}); got != want {
		t.Error("order, repetition or another's topic matters")
	}
	for _, other := range []map[string]int{{"a": 2, "b": 2}, {"a": 2, "b": 1}, {"a": 1}} {
		if countsDigest([]string{"a", "b"}, other) == want {
			t.Error("no difference for", other)
		}
	}
	if countsDigest([]string{"a"}, counts) == want {
		t.Error("no difference for fewer topics")
	}
}

func FuzzParseSubscription(f *testing.F) {
	s := subscription{topics: []string{"a", "b"}, owned: []record.TP{brokertest.TP("a", 0), brokertest.TP("a", 3), brokertest.TP("b",
		1)}, generation: 7}
	f.Add(s.encode())
	f.Add([]byte{0, 1, 0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSubscription(b)
		if err != nil {
			return
		}
		if len(s.owned)*4 > len(b) || len(s.topics)*2 > len(b) {
			t.Fatalf("%d topics, %d partitions from %d bytes", len(s.topics), len(s.owned), len(b))
		}
		assign([]candidate{{id: "x", subscription: s}}, map[string]int{"a": 2})
	})
}

func FuzzParseAssignment(f *testing.F) {
	f.Add(appendAssignment([]record.TP{brokertest.TP("a", 0), brokertest.TP("a", 3), brokertest.TP("b", 1)}, 42, true))
	f.Add([]byte{})
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 'a', 0x40, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		tps, digest, owes, err := parseAssignment(b)
		if err != nil {
			return
		}
		if len(tps)*4 > len(b) {
			t.Fatalf("%d partitions from %d bytes", len(tps), len(b))
		}
		again, d, o, err := parseAssignment(appendAssignment(tps, digest, owes))
		if err != nil || o != owes || d != digest || !slices.Equal(again, tps) {
			t.Fatalf("%v, %d, %v; want %v, %d", again, d, err, tps, digest)
		}
	})
}

func BenchmarkAssign(b *testing.B) {
	for _, size := range []struct{ members, partitions int }{{3, 24}, {50, 1000}, {200, 10000}} {
		b.Run(fmt.Sprintf("%dx%d", size.members, size.partitions), func(b *testing.B) {
			counts := map[string]int{"t": size.partitions}
			var cs []candidate
			for i := range size.members {
				cs = append(cs, member(fmt.Sprint("m", i), -1, nil, "t"))
			}
			plan := assign(cs, counts)
			for i := range cs {
				cs[i].owned, cs[i].generation = plan[cs[i].id], 1
			}
			cs = append(cs, member("new", -1, nil, "t"))
			for b.Loop() {
				assign(cs, counts)
			}
		})
	}
}
