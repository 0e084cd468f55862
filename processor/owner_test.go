package processor

import (
	"errors"
	"testing"

	"odradek/processor/kafka"
)

// TestIdentify holds which owner record a partition has, given those in its changelog and
// the incarnation that the committed offset names: a new one exactly where the changelog has
// none that the offset names.
func TestIdentify(t *testing.T) {
	tp, log := kafka.TP{Topic: "in", Partition: 3}, kafka.TP{Topic: "g-in-changelog", Partition: 3}
	for _, c := range []struct {
		name      string
		stored    []string // incarnations
		committed string
		want      string
		same      bool
		unwritten bool
	}{
		{"first start", nil, "", "new", true, true},
		{"changelog made anew", nil, "a", "new", false, true},
		{"another changelog", []string{"b"}, "a", "new", false, true},
		{"restart", []string{"a"}, "a", "a", true, false},
		{"offset without a name", []string{"a"}, "", "a", true, false},
		{"two members began, the last one counts", []string{"a", "b"}, "b", "b", true, false},
		{"two members began, the first one counts", []string{"a", "b"}, "a", "a", true, true},
	} {
		var o Ownership
		for _, id := range c.stored {
			r := Owner{Version: ownerVersion, Group: "g", Topic: "in", Incarnation: id, Partitions: 4}
			if err := o.Load(r.Value(), log, "g", tp); err != nil {
				t.Fatal(err)
			}
		}
		metadata := "1;2;3"
		if c.committed != "" {
			metadata = Metadata(metadata, c.committed)
		}
		same := o.Identify(metadata, Owner{Group: "g", Topic: "in", Incarnation: "new", Partitions: 8})
		partitions := 8
		if len(c.stored) > 0 {
			partitions = 4
		}
		want := Owner{Version: ownerVersion, Group: "g", Topic: "in", Incarnation: c.want, Partitions: partitions}
		if o.Owner != want || same != c.same || o.Unwritten != c.unwritten {
			t.Errorf("%s: %+v, same %t, unwritten %t; want %+v, %t, %t", c.name, o.Owner, same, o.Unwritten, want, c.same, c.unwritten)
		}
		if id := Incarnation(Metadata(metadata, o.Incarnation)); c.committed == "" && id != c.want {
			t.Errorf("%s: the metadata names the incarnation %q, not %q", c.name, id, c.want)
		}
	}
	var o Ownership
	for name, value := range map[string]string{"another group": `{"version":1,"group":"h","topic":"in"}`,
		"another topic": `{"version":1,"group":"g","topic":"out"}`, "a later version": `{"version":2,"group":"g","topic":"in"}`, "rubbish": "{"} {
		var refused *RefusedError
		if err := o.Load([]byte(value), log, "g", tp); !errors.As(err, &refused) || refused.TP != tp {
			t.Errorf("the record of %s gives %v, not a refusal of %v", name, err, tp)
		}
	}
}
