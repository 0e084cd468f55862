package processor

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/keystate"
)

// withSettings is a partition of a worker with one detector and held samples.
func withSettings(key string) *partition {
	fields := []Setting{{Name: "KEY", Value: key}, {Name: "X_FIELDS", Value: "value", Shown: "FIELDS"}}
	return &partition{host: &host{cfg: &Config{Settings: []StateSettings{
		{Detector: "x", Window: Fingerprint(uint64(len(key))), Params: 7, Fields: fields, Op: []Setting{{Name: "X_RANK", Value: "3"}}},
		{Window: Fingerprint(100 + uint64(len(key))), Fields: fields},
	}}}}
}

// TestSettingsRecord: what is written is read, keeps what earlier settings stand
// for, and does not grow without end.
func TestSettingsRecord(t *testing.T) {
	pt := withSettings("a")
	if !pt.lacksSettings() {
		t.Error("an empty record lacks nothing")
	}
	pt.loadSettings(pt.settingsValue())
	if pt.lacksSettings() {
		t.Errorf("the record has %+v and lacks the settings in force", pt.made)
	}
	for i := range 100 {
		next := withSettings(strings.Repeat("b", i+2))
		next.made = pt.made
		next.loadSettings(next.settingsValue())
		pt = next
	}
	if n := len(pt.made); n != mostSettings+2 {
		t.Errorf("the record has %d entries, want %d", n, mostSettings+2)
	}
	m := []keystate.Mismatch{{Detector: "x", Fields: true, Window: 100, Params: 7}, {Fields: true, Window: 200}}
	if got, want := pt.why(m), fmt.Sprintf("KEY was %s and is %s (state of detector x, held samples)", strings.Repeat("b", 100),
		strings.Repeat("b", 101)); got != want {
		t.Errorf("why is\n%s, want\n%s", got, want)
	}
	for name, value := range map[string]string{"rubbish": "{", "a later version": `{"version":2,"state":[{"detector":"x"}]}`,
		"another number": `{"version":1,"state":[{"window":"x"}]}`} {
		if pt.loadSettings([]byte(value)); pt.made != nil {
			t.Errorf("%s gives %+v", name, pt.made)
		}
	}
	if got := pt.why([]keystate.Mismatch{{Detector: "x", Window: 100, Params: 8}}); !strings.Contains(got,
		"one of X_RANK=3 had another value") {
		t.Errorf("without a record why is %q", got)
	}
	pt.host.cfg.Settings[0].Earlier = func(m *keystate.Mismatch) bool { return m.Params == 8 }
	if got := pt.why([]keystate.Mismatch{{Detector: "x", Window: 100, Params: 8}}); !strings.Contains(got, "no setting was changed") {
		t.Errorf("without a record, of another version of the op, why is %q", got)
	}
	pt.loadSettings([]byte(`{"version":1,"state":[{"detector":"x","window":"64","params":"8","fields":[],"op":[{"name":"X_RANK","value":"3"}]}]}`))
	if got := pt.why([]keystate.Mismatch{{Detector: "x", Window: 100, Params: 8}}); !strings.Contains(got, "no setting was changed") {
		t.Errorf("of another version of the op why is %q", got)
	}
}

// TestSettingsOutgrowTopic: a changelog whose batches are too small for the
// settings record does without it.
func TestSettingsOutgrowTopic(t *testing.T) {
	b := newBench(t, 1)
	if err := b.c.Admin().SetTopicConfig(t.Context(), b.changelog(), map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	b.produce(300)
	cfg := b.config("")
	cfg.Settings = []StateSettings{{Detector: "level", Window: 1, Params: 2,
		Fields: []Setting{{Name: "KEY", Value: strings.Repeat("k", 3000)}}}}
	b.run(cfg)
	b.run(cfg)
}
