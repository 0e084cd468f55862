package processor

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/state"
)

// withSettings returns the settings of a worker with one detector and held samples.
func withSettings(key string) *StoredSettings {
	fields := []StoredSetting{{Name: "KEY", Value: key}, {Name: "X_FIELDS", Value: "value", Shown: "FIELDS"}}
	return &StoredSettings{InForce: []StateSettings{
		{Detector: "x", Window: Fingerprint(uint64(len(key))), Params: 7, Fields: fields, Op: []StoredSetting{{Name: "X_RANK", Value: "3"}}},
		{Window: Fingerprint(100 + uint64(len(key))), Fields: fields},
	}}
}

// TestSettingsRecord: what is written is read, keeps what earlier settings stand
// for, and does not grow without end.
func TestSettingsRecord(t *testing.T) {
	s := withSettings("a")
	if !s.Unwritten() {
		t.Error("an empty record lacks nothing")
	}
	s.Load(s.Value())
	if s.Unwritten() {
		t.Errorf("the record has %+v and lacks the settings in force", s.stored)
	}
	for i := range 100 {
		next := withSettings(strings.Repeat("b", i+2))
		next.stored = s.stored
		next.Load(next.Value())
		s = next
	}
	if n := len(s.stored); n != mostSettings+2 {
		t.Errorf("the record has %d settings, want %d", n, mostSettings+2)
	}
	m := []state.Mismatch{{Detector: "x", Fields: true, Window: 100, Params: 7}, {Fields: true, Window: 200}}
	if got, want := s.Causes(m), fmt.Sprintf("KEY was %s and is %s (state of detector x, held samples)", strings.Repeat("b", 100),
		strings.Repeat("b", 101)); got != want {
		t.Errorf("why is\n%s, want\n%s", got, want)
	}
	for name, value := range map[string]string{"rubbish": "{", "a later version": `{"version":2,"state":[{"detector":"x"}]}`,
		"another number": `{"version":1,"state":[{"window":"x"}]}`} {
		if s.Load([]byte(value)); s.stored != nil {
			t.Errorf("%s gives %+v", name, s.stored)
		}
	}
	if got := s.Causes([]state.Mismatch{{Detector: "x", Window: 100, Params: 8}}); !strings.Contains(got,
		"one of X_RANK=3 had another value") {
		t.Errorf("without a record why is %q", got)
	}
	s.Load([]byte(`{"version":1,"state":[{"detector":"x","window":"64","params":"8","fields":[],"op":[{"name":"X_RANK","value":"3"}]}]}`))
	if got := s.Causes([]state.Mismatch{{Detector: "x", Window: 100, Params: 8}}); !strings.Contains(got, "no setting was changed") {
		t.Errorf("of another version of the op why is %q", got)
	}
}
