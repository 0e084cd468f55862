package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"odradek/processor/kafka"
	"odradek/processor/state"
)

// State names the configuration that made it by fingerprints, which do not say what
// they were made of. The settings record of a changelog partition does: for each
// fingerprint that state in the partition may carry, the settings behind it. With
// it a refusal of state, and the log line where state is emptied, name the setting
// that was changed, and its value before and now. The record does not decide whether
// state is taken or refused: where it is missing (the record did not fit a batch) the
// refusal names the settings that come into question.

// SettingsKey is the key of the settings record.
const SettingsKey = OwnerKey + "settings"

// StoredSetting is a setting that stored state depends on.
type StoredSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Shown is the name to show, where the value comes from another setting's.
	Shown string `json:"-"`
}

func (s *StoredSetting) shown() string {
	if s.Shown != "" {
		return s.Shown
	}
	return s.Name
}

// StateSettings are the settings behind the fingerprints of one detector's state, or,
// with an empty name, of held samples (state.Mismatch).
type StateSettings struct {
	Detector string          `json:"detector,omitempty"`
	Window   Fingerprint     `json:"window"`
	Params   Fingerprint     `json:"params"`
	Fields   []StoredSetting `json:"fields"`       // behind Window
	Op       []StoredSetting `json:"op,omitempty"` // behind Params
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

func (s *StateSettings) same(b *StateSettings) bool {
	return s.Detector == b.Detector && s.Window == b.Window && s.Params == b.Params
}

// Include adds the settings of m; the fingerprint of s includes theirs.
func (s *StateSettings) Include(m *StateSettings) {
	for _, list := range [][]StoredSetting{m.Fields, m.Op} {
		for _, add := range list {
			if !slices.ContainsFunc(s.Op, func(have StoredSetting) bool { return have.Name == add.Name }) {
				s.Op = append(s.Op, add)
			}
		}
	}
}

// settingsRecord is the value of a settings record. What a fingerprint stands for
// never changes, so the record gains what is new and loses the oldest settings.
type settingsRecord struct {
	Version int             `json:"version"`
	State   []StateSettings `json:"state"`
}

const (
	settingsVersion = 1
	mostSettings    = 64 // settings of a record beside those in force
)

// StoredSettings are the settings in force beside the ones in a changelog's settings record.
type StoredSettings struct {
	InForce []StateSettings
	stored  []StateSettings
}

// Load takes in the value of the settings record. One that cannot be read counts as
// none.
func (s *StoredSettings) Load(value []byte) { s.stored = ParseSettings(value) }

// ParseSettings returns the settings in the value of a settings record, those in force last; none if the value cannot be
// read.
func ParseSettings(value []byte) []StateSettings {
	var r settingsRecord
	if json.Unmarshal(value, &r) != nil || r.Version != settingsVersion {
		return nil
	}
	return r.State
}

// Unwritten reports whether the record lacks any of the settings in force.
func (s *StoredSettings) Unwritten() bool {
	return slices.ContainsFunc(s.InForce, func(now StateSettings) bool {
		return !slices.ContainsFunc(s.stored, func(was StateSettings) bool { return was.same(&now) })
	})
}

// Value returns the value of the settings record with the settings in force.
func (s *StoredSettings) Value() []byte {
	old := slices.DeleteFunc(slices.Clone(s.stored), func(was StateSettings) bool {
		return slices.ContainsFunc(s.InForce, func(now StateSettings) bool { return now.same(&was) })
	})
	old = old[max(0, len(old)-mostSettings):]
	b, err := json.Marshal(settingsRecord{settingsVersion, append(old, s.InForce...)})
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// cause names the settings that differ between the state of m and the configuration.
func (s *StoredSettings) cause(m *state.Mismatch) string {
	find := func(list []StateSettings, ok func(*StateSettings) bool) *StateSettings {
		i := slices.IndexFunc(list, func(s StateSettings) bool { return s.Detector == m.Detector && ok(&s) })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	now := find(s.InForce, func(*StateSettings) bool { return true })
	if now == nil {
		return m.String()
	}
	part := func(s *StateSettings) []StoredSetting {
		if m.Fields {
			return s.Fields
		}
		return s.Op
	}
	was := find(s.stored, func(s *StateSettings) bool {
		return m.Fields && s.Window == Fingerprint(m.Window) || !m.Fields && s.Params == Fingerprint(m.Params)
	})
	if was == nil {
		return fmt.Sprintf("one of %s had another value; which one, the changelog does not say", listed(part(now)))
	}
	if diff := Differences(part(was), part(now)); diff != "" {
		return diff
	}
	return "no setting was changed, but this version of the worker computes it in another way"
}

// Differences says in words which settings differ, and how.
func Differences(was, now []StoredSetting) string {
	var texts []string
	for i := range now {
		n := &now[i]
		w := slices.IndexFunc(was, func(s StoredSetting) bool { return s.Name == n.Name })
		switch {
		case w < 0:
			texts = append(texts, fmt.Sprintf("%s is %s and was not there", n.shown(), quoted(n.Value)))
		case was[w].Value != n.Value:
			texts = append(texts, fmt.Sprintf("%s was %s and is %s", n.shown(), quoted(was[w].Value), quoted(n.Value)))
		}
	}
	for i := range was {
		if !slices.ContainsFunc(now, func(s StoredSetting) bool { return s.Name == was[i].Name }) {
			texts = append(texts, fmt.Sprintf("%s was %s and is not there", was[i].Name, quoted(was[i].Value)))
		}
	}
	return strings.Join(texts, ", ")
}

// listed lists settings with their values.
func listed(list []StoredSetting) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].shown() + "=" + quoted(list[i].Value)
	}
	return strings.Join(texts, ", ")
}

// quoted quotes a value whose end is not clear without quotes.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \"\\;()") {
		return strconv.Quote(value)
	}
	return value
}

// Causes lists the changes of settings behind mismatches, each with the detectors
// whose state it affects.
func (s *StoredSettings) Causes(list []state.Mismatch) string {
	var causes []string
	affected := map[string][]string{}
	for i := range list {
		cause, whose := s.cause(&list[i]), "detector "+list[i].Detector
		if list[i].Detector == "" {
			whose = "held samples"
		}
		if affected[cause] == nil {
			causes = append(causes, cause)
		}
		affected[cause] = append(affected[cause], whose)
	}
	for i, cause := range causes {
		causes[i] = fmt.Sprintf("%s (state of %s)", cause, strings.Join(affected[cause], ", "))
	}
	return strings.Join(causes, "; ")
}

// Refuse returns the refusal of tp's state, which err says was made with other
// settings.
func (s *StoredSettings) Refuse(tp kafka.TP, err error) error {
	reason := err.Error()
	var m *state.MismatchError
	if errors.As(err, &m) {
		reason = fmt.Sprintf("the stored state of %d series was made with other settings: %s", m.Keys, s.Causes(m.List))
		if m.Keys == 0 {
			reason = "records that this start reads again were read with other settings: " + s.Causes(m.List)
		}
	}
	return &RefusedError{TP: tp, Reason: reason,
		Decide: "change the setting back, state_mismatch=reset, which empties just what the change covers, or worker state reset"}
}

// Emptied lists in words which parts of the stored state are emptied because they were made with other settings, such as
// "held samples of 3 series".
func Emptied(list []state.Mismatch) string {
	var what []string
	for i := range list {
		m := &list[i]
		switch {
		case m.Detector == "":
			what = append(what, fmt.Sprintf("held samples of %d series", m.Keys))
		case m.Keys == 0:
			what = append(what, fmt.Sprintf("what detector %s had of the records that are read again", m.Detector))
		case m.Fields:
			what = append(what, fmt.Sprintf("window, scores and thresholds of detector %s of %d series", m.Detector, m.Keys))
		default:
			what = append(what, fmt.Sprintf("what detector %s has computed of %d series", m.Detector, m.Keys))
		}
	}
	return strings.Join(what, ", ")
}
