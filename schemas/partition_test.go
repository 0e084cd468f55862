package schemas

import (
	"strings"
	"testing"
)

// TestKeyOfPartition: the partition is a part of a key like others, alone or with texts and numbers.
func TestKeyOfPartition(t *testing.T) {
	for _, c := range []struct {
		key       string
		partition int32
		want      string
	}{
		{"@partition", 0, "0"}, {"@partition", 1<<31 - 1, "2147483647"}, {"@partition+@key", 7, `7/a\/b`}, {"@key+@partition", 7, `a\/b/7`},
		{"site+@partition", 12, "north/12"}, {"@partition+site+@key", 12, `12/north/a\/b`},
	} {
		m := Mapping{Key: c.key, Fields: []string{"v"}}
		l, err := m.Layout()
		if err != nil || !m.KeyOfPartition() {
			t.Fatalf("%s: %v, of the partition: %v", c.key, err, m.KeyOfPartition())
		}
		for range 2 { // a reading is used again
			r := Reading{Partition: c.partition}
			l.Reset(&r, -1)
			for _, s := range l.Sinks {
				if s.Role == RoleKey {
					r.KeyParts[s.Slot] = KeyPart{Kind: KeyText, Text: []byte("north")}
				}
			}
			if err := l.Finish([]byte("a/b"), 5, &r); err != nil || string(r.Key) != c.want {
				t.Errorf("%s: key %q, %v; want %q", c.key, r.Key, err, c.want)
			}
		}
	}
	if (Mapping{Key: "site+@key"}).KeyOfPartition() || (Mapping{Key: "partition"}).KeyOfPartition() {
		t.Error("a key without @partition is of the partition")
	}
	twice := Mapping{Key: "@partition+a+@partition", Fields: []string{"v"}}
	if err := twice.Validate(); err == nil || !strings.Contains(err.Error(), "@partition twice") {
		t.Error(err)
	}
}
