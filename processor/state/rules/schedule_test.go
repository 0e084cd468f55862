package rules

import "testing"

// TestSchedule: a standing decision that is followed by another of its subject moves forward in the
// queue, to where that one takes effect.
func TestSchedule(t *testing.T) {
	s := schedule{kinds: KindTable{KindMissingSchema: {Name: "missing schema", Standing: true}, KindEviction: {Name: "eviction"}}}
	first := &Decision{Kind: KindMissingSchema, Subject: []byte("a"), Offset: 1}
	evicted := &Decision{Kind: KindEviction, Subject: []byte("k"), Offset: 20}
	for _, d := range []*Decision{first, evicted} {
		s.link(d)
		s.enqueue(d)
	}
	if s.queue[0] != evicted || first.due != never || evicted.due != 21 {
		t.Fatalf("a decision in force is due at %d, an eviction at %d", first.due, evicted.due)
	}
	second := &Decision{Kind: KindMissingSchema, Subject: []byte("a"), Offset: 10}
	s.link(second)
	s.enqueue(second)
	if s.queue[0] != first || first.due != 11 || s.queue[2] != second {
		t.Errorf("a decision that the next one ends is due at %d", first.due)
	}
}
