package keystate

import (
	"slices"
	"testing"
)

// TestSubjects compares the decisions of a subject with a sorted list of them.
func TestSubjects(t *testing.T) {
	rng := seedOf(t)
	for range 200 {
		var m subjects
		var want []*decision
		for step := range 40 {
			if len(want) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(want))
				m.unlink(want[i])
				want = slices.Delete(want, i, i+1)
			} else {
				d := &decision{kind: Verdict, subject: []byte("s"), offset: rng.Int64N(8), seq: uint64(step), content: []byte{1}}
				at, _ := slices.BinarySearchFunc(want, d, func(a, b *decision) int {
					if a.less(b) {
						return -1
					}
					return 1
				})
				var last *decision
				if at == len(want) && at > 0 {
					last = want[at-1]
				}
				if former := m.link(d); former != last {
					t.Fatalf("it follows %v, want %v", former, last)
				}
				want = slices.Insert(want, at, d)
			}
			var got []*decision
			for d := m.latest(Verdict, []byte("s")); d != nil; d = d.before {
				got = append(got, d)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			for i, d := range want {
				var next *decision
				if i+1 < len(want) {
					next = want[i+1]
				}
				if m.after(d) != next || m.overwritten(d) != (next != nil && next.offset == d.offset) {
					t.Fatalf("after %v comes %v, want %v", d, m.after(d), next)
				}
			}
			for offset := range int64(9) {
				var in *decision
				for _, d := range want {
					if d.offset <= offset {
						in = d
					}
				}
				if got := m.inForce(Verdict, []byte("s"), offset); got != in {
					t.Fatalf("at %d holds %v, want %v", offset, got, in)
				}
			}
		}
		if n := len(m[Verdict]); (n == 1) != (len(want) > 0) {
			t.Fatalf("%d subjects of %d decisions", n, len(want))
		}
	}
}
