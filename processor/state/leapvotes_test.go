package state

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/checkpoint"
)

func newVotes(jump int64) leapVotes[string] {
	return newLeapVotes(jump, 0, func(s string) string { return s + " copied" })
}

func sameList(a, b []leapSuspect[string]) bool {
	return slices.EqualFunc(a, b, func(a, b leapSuspect[string]) bool { return reflect.DeepEqual(a, b) })
}

// candidate is a suspect of a definition without any of the package's code.
type candidate struct {
	time, offset int64
	votes, agree int
}

// decide takes a sample as leapvotes.go says.
func decide(list []candidate, sm candidate, jump int64, top *int64) (taken, refused []int64, rest []candidate) {
	for i := range list {
		list[i].votes++
		if sm.time >= list[i].time-jump {
			list[i].agree++
		}
	}
	list = append(slices.Clone(list), sm)
	for again := true; again; {
		again = false
		for _, u := range list {
			near := *top != noTime && u.time <= *top+jump
			if !slices.Contains(taken, u.offset) && (u.agree >= 2 || near) {
				taken, *top, again = append(taken, u.offset), max(*top, u.time), true
			}
		}
	}
	for _, u := range list {
		switch {
		case slices.Contains(taken, u.offset):
		case u.votes-u.agree >= 2:
			refused = append(refused, u.offset)
		default:
			rest = append(rest, u)
		}
	}
	return taken, refused, rest
}

// TestLeapVotes compares which samples are held, accepted and rejected with the definition, and
// with votes that are restored from the marks.
func TestLeapVotes(t *testing.T) {
	rng := seedtest.New(t)
	suspected, accepted, rejected := 0, 0, 0
	for range 300 {
		const jump = 10
		j := newVotes(jump)
		top, clock := int64(noTime), int64(0)
		var want []candidate
		for offset := range int64(60) {
			if clock += rng.Int64N(4); rng.IntN(10) == 0 {
				clock += rng.Int64N(60)
			}
			at := clock
			if rng.IntN(6) == 0 {
				at += rng.Int64N(200) - 50
			}
			beyond := top == noTime || at > top+jump
			if j.Beyond(at, top) != beyond {
				t.Fatalf("%d is %v a suspect where %d is the largest", at, j.Beyond(at, top), top)
			}
			before := j.List()
			copied := slices.Clone(before)
			var taken, refused []int64
			held := j.Vote(at, offset, "sample", top, func(u *leapSuspect[string]) {
				if taken = append(taken, u.Offset); u.Sample != map[bool]string{true: "sample", false: "sample copied"}[u.Offset == offset] {
					t.Fatalf("%q is taken", u.Sample)
				}
			}, func(u *leapSuspect[string]) { refused = append(refused, u.Offset) })
			wantTaken, wantRefused, rest := decide(want, candidate{time: at, offset: offset}, jump, &top)
			want = rest
			slices.Sort(taken)
			slices.Sort(wantTaken)
			wantHeld := slices.ContainsFunc(rest, func(c candidate) bool { return c.offset == offset })
			if !slices.Equal(taken, wantTaken) || !slices.Equal(refused, wantRefused) || held != wantHeld {
				t.Fatalf("at %d: taken %v, refused %v, held %v; want %v, %v, %v", offset, taken, refused, held, wantTaken, wantRefused, rest)
			}
			if !sameList(before, copied) {
				t.Fatal("the list that was handed out is changed")
			}
			if len(j.List()) > checkpoint.Voters {
				t.Fatalf("%d suspects", len(j.List()))
			}
			for i, u := range j.List() {
				votes, agree := u.Votes()
				c := candidate{u.Time, u.Offset, int(votes), int(agree)}
				if c != want[i] || u.Sample != "sample copied" {
					t.Fatalf("suspect %+v, want %+v", u, want[i])
				}
				if j.Find(u.Offset) != &j.List()[i] {
					t.Fatalf("the suspect at %d is not found", u.Offset)
				}
			}
			if held {
				suspected++
			}
			rejected += len(refused)
			for _, o := range taken {
				if o != offset {
					accepted++
				}
			}
			again := newVotes(jump)
			again.Init(checkpoint.Floor{Offset: offset + 1, Suspects: j.Held()})
			for o := range offset + 1 {
				if u := j.Find(o); u != nil {
					again.Recall(u.Time, o, "sample")
				} else {
					again.Recall(5, o, "another")
				}
			}
			if !sameList(again.List(), j.List()) || again.Replay(offset+1) != 0 {
				t.Fatalf("recalled %v, want %v", again.List(), j.List())
			}
		}
	}
	if suspected == 0 || accepted == 0 || rejected == 0 {
		t.Errorf("%d suspects, %d accepted, %d rejected", suspected, accepted, rejected)
	}
}

// TestLeapVotesReplay judges the samples of a replay by the jump of the reading in force, or of a repair below its offset, and counts
// the suspects that are lost.
func TestLeapVotesReplay(t *testing.T) {
	j := newVotes(50)
	repaired := checkpoint.Jump{Most: 5, Until: 12}
	j.Init(checkpoint.Floor{Offset: 10, Suspects: []checkpoint.HeldSuspect{{Offset: 7}, {Offset: 8}}, Jump: repaired})
	j.Recall(1, 8, "sample")
	if lost := j.Replay(11); lost != 1 || !j.Beyond(10, 0) {
		t.Errorf("%d are lost; a jump of 10 is a suspect: %v", lost, j.Beyond(10, 0))
	}
	if lost := j.Replay(12); lost != 0 || j.Beyond(50, 0) || !j.Beyond(51, 0) {
		t.Errorf("%d are lost; a jump of 50 is a suspect: %v", lost, j.Beyond(50, 0))
	}
	j.SetJump(100)
	if j.Replay(13); j.Beyond(100, 0) || !j.Judging() || j.Repaired() != repaired {
		t.Errorf("a jump of 100 is a suspect; %+v", j.Repaired())
	}
	j.SetJump(0)
	if j.EndReplay(); j.Judging() || j.Beyond(1<<62, -1<<62) {
		t.Error("without a largest jump there is a suspect")
	}
	if list := j.List(); len(list) != 1 {
		t.Errorf("%v", list)
	} else if j.Restore(nil); len(j.List()) != 0 || j.Find(8) != nil {
		t.Error("the suspects are not restored")
	}
}

// TestLeapVotesOfRecords: records of several samples are judged as records of one are: of each, all samples are held, accepted
// or rejected together, and only the first one votes.
func TestLeapVotesOfRecords(t *testing.T) {
	rng := seedtest.New(t)
	const jump, bits = 10, 4
	held, accepted, rejected := 0, 0, 0
	for range 200 {
		one, several := newVotes(jump), newLeapVotes(jump, bits, func(s string) string { return s + " copied" })
		top := [2]int64{noTime, noTime}
		for offset := range int64(40) {
			at := offset/2 + int64(rng.IntN(3))
			if rng.IntN(3) == 0 {
				at += int64(rng.IntN(50))
			}
			n := 1 + rng.IntN(3)
			var taken, refused [2][]int64
			vote := func(i int, j *leapVotes[string], o int64) bool {
				return j.Vote(at, o, "sample", top[i], func(u *leapSuspect[string]) {
					top[i] = max(top[i], u.Time)
					for range 1 + len(u.More)*i {
						taken[i] = append(taken[i], u.Offset>>(bits*i))
					}
				}, func(u *leapSuspect[string]) {
					for range 1 + len(u.More)*i {
						refused[i] = append(refused[i], u.Offset>>(bits*i))
					}
				})
			}
			want := vote(0, &one, offset)
			for k := range n {
				o := offset<<bits | int64(k)
				if got := several.Join(o, "sample") || vote(1, &several, o); got != want {
					t.Fatalf("sample %d of record %d is held: %v, want %v", k, offset, got, want)
				}
			}
			if want {
				held++
			}
			unique := func(list []int64) []int64 { slices.Sort(list); return slices.Compact(list) }
			accepted, rejected = accepted+len(taken[1]), rejected+len(refused[1])
			if !slices.Equal(unique(taken[0]), unique(taken[1])) || !slices.Equal(unique(refused[0]), unique(refused[1])) {
				t.Fatalf("record %d: taken %v, refused %v, of one sample a record %v, %v", offset, taken[1], refused[1], taken[0], refused[0])
			}
			for i, u := range several.List() {
				votes, agree := u.Votes()
				wantVotes, wantAgree := one.List()[i].Votes()
				if u.Offset>>bits != one.List()[i].Offset || votes != wantVotes || agree != wantAgree {
					t.Fatalf("suspect %+v, of one sample a record %+v", u, one.List()[i])
				}
			}
			again := newLeapVotes(jump, bits, func(s string) string { return s + " copied" })
			again.Init(checkpoint.Floor{Offset: (offset + 1) << bits, Suspects: several.Held()})
			for _, u := range several.List() {
				for k := range int64(1 + len(u.More)) {
					again.Recall(u.Time, u.Offset+k, "sample")
				}
			}
			if !sameList(again.List(), several.List()) {
				t.Fatalf("recalled %v, want %v", again.List(), several.List())
			}
		}
	}
	if held == 0 || accepted == 0 || rejected == 0 {
		t.Errorf("%d suspects, %d samples taken, %d rejected", held, accepted, rejected)
	}
}

// TestLimit: which samples are suspects.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		jump, time, top int64
		want            bool
	}{
		{0, math.MaxInt64, 5, false},
		{0, 5, noTime, false},
		{10, 5, noTime, true}, // the first sample of a partition
		{10, 15, 5, false},
		{10, 16, 5, true},
		{10, math.MinInt64 + 1, 5, false}, // in the past
		{10, math.MaxInt64, math.MinInt64 + 1, true},
	} {
		l := newVotes(c.jump)
		if l.Judging() != (c.jump > 0) || l.Beyond(c.time, c.top) != c.want {
			t.Errorf("%d past %d is a suspect with a largest jump of %d: %v", c.time, c.top, c.jump, !c.want)
		}
	}
}
