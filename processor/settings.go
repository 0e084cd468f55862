package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
)

// State names the configuration that made it by fingerprints, which do not say what
// they were made of. The settings record of a changelog partition does: for each
// fingerprint that state in the partition may carry, the settings behind it. A
// refusal of state, and the log line where it is emptied, name with it the setting
// that was changed, its value then and now. State is neither taken nor refused because
// of it: where it is missing (a version before has written the state, or the record
// did not fit a batch) the refusal names the settings that there are to choose from.

// SettingsKey is the key of the settings record.
const SettingsKey = OwnerKey + "settings"

// AboutLog reports whether key is of a record that says something about a changelog
// as a whole: the owner record, the settings record. All others are keystate's.
func AboutLog(key string) bool { return strings.HasPrefix(key, OwnerKey) }

// Setting is a setting that stored state depends on.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Shown is the name to tell, where the value comes from another setting's.
	Shown string `json:"-"`
}

func (s *Setting) shown() string {
	if s.Shown != "" {
		return s.Shown
	}
	return s.Name
}

// StateSettings are the settings behind the fingerprints of one detector's state, or,
// with an empty name, of held samples (keystate.Mismatch).
type StateSettings struct {
	Detector string      `json:"detector,omitempty"`
	Window   Fingerprint `json:"window"`
	Params   Fingerprint `json:"params"`
	Fields   []Setting   `json:"fields"`       // behind Window
	Op       []Setting   `json:"op,omitempty"` // behind Params
	// Earlier reports whether a version before has made the fingerprint by which m
	// differs of the same settings; nil: no.
	Earlier func(m *keystate.Mismatch) bool `json:"-"`
}

// Fingerprint is the hash of a detector's settings or of a window's. It is written
// in hexadecimal: JSON numbers lose digits.
type Fingerprint uint64

// MarshalText returns the fingerprint as 16 hexadecimal digits.
func (f Fingerprint) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(f)), nil }

// UnmarshalText reads hexadecimal digits.
func (f *Fingerprint) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	*f = Fingerprint(n)
	return err
}

func (a *StateSettings) same(b *StateSettings) bool {
	return a.Detector == b.Detector && a.Window == b.Window && a.Params == b.Params
}

// settingsRecord is the value of a settings record. What a fingerprint stands for
// never changes, so the record only grows by what is new, and loses the oldest.
type settingsRecord struct {
	Version int             `json:"version"`
	State   []StateSettings `json:"state"`
}

const (
	settingsVersion = 1
	mostSettings    = 64 // entries of a record beside those in force
)

// loadSettings takes the settings record. One that cannot be read is as good as none.
func (pt *partition) loadSettings(value []byte) {
	var r settingsRecord
	pt.made = nil
	if json.Unmarshal(value, &r) == nil && r.Version == settingsVersion {
		pt.made = r.State
	}
}

// lacksSettings reports whether the settings in force are not all in the record.
func (pt *partition) lacksSettings() bool {
	return slices.ContainsFunc(pt.host.cfg.Settings, func(now StateSettings) bool {
		return !slices.ContainsFunc(pt.made, func(s StateSettings) bool { return s.same(&now) })
	})
}

// settingsValue is the settings record with those in force.
func (pt *partition) settingsValue() []byte {
	now := pt.host.cfg.Settings
	old := slices.DeleteFunc(slices.Clone(pt.made), func(s StateSettings) bool {
		return slices.ContainsFunc(now, func(n StateSettings) bool { return n.same(&s) })
	})
	old = old[max(0, len(old)-mostSettings):]
	b, err := json.Marshal(settingsRecord{settingsVersion, append(old, now...)})
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// putSettings writes the settings record. It is a convenience: where the topic's
// batches are too small for it the partition goes on without.
func (pt *partition) putSettings(b *record.Batches) (bytes int, err error) {
	value := pt.settingsValue()
	err = b.Append(time.Now().UnixMilli(), []byte(SettingsKey), value, nil)
	if errors.Is(err, record.ErrTooLarge) {
		pt.log.Debug("the settings record does not fit a batch of the changelog", "bytes", len(value))
		return 0, nil
	}
	return len(SettingsKey) + len(value), err
}

// cause says which settings differ between the state that m is about and the
// configuration.
func (pt *partition) cause(m *keystate.Mismatch) string {
	find := func(list []StateSettings, ok func(*StateSettings) bool) *StateSettings {
		i := slices.IndexFunc(list, func(s StateSettings) bool { return s.Detector == m.Detector && ok(&s) })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	now := find(pt.host.cfg.Settings, func(*StateSettings) bool { return true })
	if now == nil {
		return m.String()
	}
	part := func(s *StateSettings) []Setting {
		if m.Fields {
			return s.Fields
		}
		return s.Op
	}
	was := find(pt.made, func(s *StateSettings) bool {
		return m.Fields && s.Window == Fingerprint(m.Window) || !m.Fields && s.Params == Fingerprint(m.Params)
	})
	const otherwise = "no setting was changed, but this version of the worker computes it in another way"
	if was == nil && now.Earlier != nil && now.Earlier(m) {
		return otherwise
	}
	if was == nil {
		return fmt.Sprintf(
			"one of %s had another value, set or by the default of a version before; "+
				"which one is not known of state that such a version has written", listed(part(now)))
	}
	if diff := differences(part(was), part(now)); diff != "" {
		return diff
	}
	return otherwise
}

// differences names the settings that are not equal.
func differences(was, now []Setting) string {
	var texts []string
	for i := range now {
		n := &now[i]
		w := slices.IndexFunc(was, func(s Setting) bool { return s.Name == n.Name })
		switch {
		case w < 0:
			texts = append(texts, fmt.Sprintf("%s is %s and was not there", n.shown(), quoted(n.Value)))
		case was[w].Value != n.Value:
			texts = append(texts, fmt.Sprintf("%s was %s and is %s", n.shown(), quoted(was[w].Value), quoted(n.Value)))
		}
	}
	for i := range was {
		if !slices.ContainsFunc(now, func(s Setting) bool { return s.Name == was[i].Name }) {
			texts = append(texts, fmt.Sprintf("%s was %s and is not there", was[i].Name, quoted(was[i].Value)))
		}
	}
	return strings.Join(texts, ", ")
}

// listed names settings with their values.
func listed(list []Setting) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].shown() + "=" + quoted(list[i].Value)
	}
	return strings.Join(texts, ", ")
}

// quoted leaves a value as it is where that is clear.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \"\\;()") {
		return strconv.Quote(value)
	}
	return value
}

// why lists what differs, each cause once with the detectors whose state it is.
func (pt *partition) why(list []keystate.Mismatch) string {
	var causes []string
	of := map[string][]string{}
	for i := range list {
		cause, whose := pt.cause(&list[i]), "detector "+list[i].Detector
		if list[i].Detector == "" {
			whose = "held samples"
		}
		if of[cause] == nil {
			causes = append(causes, cause)
		}
		of[cause] = append(of[cause], whose)
	}
	for i, cause := range causes {
		causes[i] = fmt.Sprintf("%s (state of %s)", cause, strings.Join(of[cause], ", "))
	}
	return strings.Join(causes, "; ")
}

// refuseMismatched makes a refusal of state that another configuration has made.
func (pt *partition) refuseMismatched(err error) error {
	reason := err.Error()
	var m *keystate.MismatchError
	if errors.As(err, &m) {
		reason = fmt.Sprintf("the stored state of %d series was made with other settings: %s", m.Keys, pt.why(m.List))
	}
	return &RefusedError{TP: pt.tp, Reason: reason,
		Decide: "change the setting back, ODRADEK_STATE_MISMATCH=reset, which empties just what the change covers, or worker state reset"}
}

// tellMismatched logs what ODRADEK_STATE_MISMATCH=reset has emptied: a line.
func (pt *partition) tellMismatched() {
	list := pt.state.Mismatched
	if len(list) == 0 {
		return
	}
	var what []string
	for i := range list {
		m := &list[i]
		switch {
		case m.Detector == "":
			what = append(what, fmt.Sprintf("held samples of %d series", m.Keys))
		case m.Fields:
			what = append(what, fmt.Sprintf("window, scores and thresholds of detector %s of %d series", m.Detector, m.Keys))
		default:
			what = append(what, fmt.Sprintf("what detector %s has computed of %d series", m.Detector, m.Keys))
		}
	}
	pt.log.Warn("state that was made with other settings is emptied (ODRADEK_STATE_MISMATCH=reset)", "emptied", strings.Join(what, ", "),
		"because", pt.why(list))
}
