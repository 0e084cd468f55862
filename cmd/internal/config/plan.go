package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"odradek/processor/cycle"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// This file has a running worker take up changed settings: on SIGHUP, and when the content of its
// settings file changes. Thresholds, guards, the policies of anomalies, which scores are published and the
// log level hold at once. Where another setting has changed nothing is taken up, so that a worker never
// runs with settings that no file has.

// Change is a setting with its values before and after.
type Change struct{ Name, Was, Is string }

func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Name, cmp.Or(c.Was, `""`), cmp.Or(c.Is, `""`))
}

// Plan is what changed settings come to.
type Plan struct {
	Live    []Change // hold at once
	Restart []Change // need a restart
	// Empties says what a restart with the changed settings would empty.
	Empties []string
	// State and ByName are with the changed settings, as in processor.Changeable.
	State  *state.Config
	ByName map[string]*state.Config
}

// Compare plans the way from one configuration to another, neither of which has faults. started is the configuration of the
// start: it says which topics are there.
func Compare(started, was, is *Config) (*Plan, error) {
	old, err := states(was)
	if err != nil {
		return nil, err
	}
	now, err := states(is)
	if err != nil {
		return nil, err
	}
	p := &Plan{State: now[is.Mappings()[0].MappingName()], ByName: now}
	a, b := slices.Sorted(maps.Keys(old)), slices.Sorted(maps.Keys(now))
	same := slices.Equal(a, b)
	if !same {
		p.Restart = append(p.Restart, Change{"names of mappings", strings.Join(a, ","), strings.Join(b, ",")})
	}
	before := map[string]EffectiveSetting{}
	for _, e := range was.Effective() {
		before[e.Name] = e
	}
	for _, e := range is.Effective() {
		b, both := before[e.Name]
		if both && b.Same(&e) || !both && (!same || !sameNames(was, is)) { // a new detector or mapping: that it is new is said once
			continue
		}
		change := Change{e.Name, b.Value, e.Value}
		switch {
		case both && e.Live && !unprepared(&e, started, is) && !switchesJudging(e.Name, old, now):
			p.Live = append(p.Live, change)
		default:
			p.Restart = append(p.Restart, change)
		}
	}
	for _, name := range a {
		if now[name] == nil {
			continue
		}
		topics := ""
		if name != "" {
			topics = " of the topics of mapping " + name
		}
		for _, what := range empties(old[name], now[name]) {
			p.Empties = append(p.Empties, what+topics)
		}
	}
	return p, nil
}

// states returns the configuration of the state by the name of each mapping, "" for the settings of none.
func states(c *Config) (map[string]*state.Config, error) {
	byName := map[string]*state.Config{}
	for _, settings := range c.Mappings() {
		state, err := settings.KeystateConfig()
		if err != nil {
			return nil, err
		}
		byName[settings.MappingName()] = state
	}
	return byName, nil
}

// sameNames reports whether two configurations have detectors of the same names.
func sameNames(a, b *Config) bool { return slices.Equal(a.Detect.Names, b.Detect.Names) }

// unprepared reports whether a setting needs a topic that was not asked for at the start.
func unprepared(e *EffectiveSetting, started, is *Config) bool {
	switch {
	case e.Name == Prefix+"SCORES":
		return !canPublish(started, is)
	case strings.HasPrefix(e.Name, Prefix+"DETECTOR_") && strings.HasSuffix(e.Name, "_SHADOW"):
		return e.Value == "true" && !started.Shadow()
	}
	return false
}

// canPublish reports whether the scores' topic was asked for at the start where it is needed now.
func canPublish(started, is *Config) bool {
	return is.Output.Scores == "none" || started.Output.Scores != "none"
}

// switchesJudging reports whether a setting of a detector turns its judging on or off, which its state is made for.
func switchesJudging(name string, old, now map[string]*state.Config) bool {
	for mapping, state := range old {
		if now[mapping] != nil && slices.ContainsFunc(state.Detectors, func(d series.DetectorConfig) bool {
			n := detector(now[mapping], d.Name)
			ofDetector := strings.HasPrefix(name, DetectorPrefix(d.Name)) || name == Prefix+"SCORES"
			return n != nil && ofDetector && (d.Threshold == nil) != (n.Threshold == nil)
		}) {
			return true
		}
	}
	return false
}

func detector(c *state.Config, name string) *series.DetectorConfig {
	for i := range c.Detectors {
		if c.Detectors[i].Name == name {
			return &c.Detectors[i]
		}
	}
	return nil
}

// empties says what the state loses from one configuration to the other.
func empties(old, now *state.Config) (list []string) {
	if old.SampleBits != now.SampleBits {
		return []string{"all state (and is refused without " + Prefix + "STATE_LOST=reset)"}
	}
	if _, same := now.Reading.Translate(&old.Reading); !same {
		list = append(list, "samples held for "+Prefix+"LATENESS")
	}
	for i := range old.Detectors {
		d := &old.Detectors[i]
		n := detector(now, d.Name)
		switch {
		case n == nil:
			list = append(list, "all that detector "+d.Name+" remembers")
		case d.Ensemble == nil && n.Ensemble == nil && old.Windows[d.Window].Fingerprint != now.Windows[n.Window].Fingerprint:
			list = append(list, "windows and scores of detector "+d.Name)
		case d.Fingerprint != n.Fingerprint:
			list = append(list, "scores and progress of detector "+d.Name)
		}
	}
	return list
}

// scoresMode returns which scores a configuration publishes.
func scoresMode(c *Config) cycle.ScoresMode {
	switch c.Output.Scores {
	case "anomalous":
		return cycle.ScoresAnomalous
	case "none":
		return cycle.ScoresNone
	}
	return cycle.ScoresAll
}

// Hash returns a hash of the settings that the workers of a group are to have in common: how records
// become samples, and how these are scored and judged.
func Hash(c *Config) string {
	h := sha256.New()
	for _, e := range c.Effective() {
		ofMapping := strings.HasPrefix(e.Name, Prefix+"MAPPING_")
		if (ofMapping || slices.Contains(shared, e.Section)) && e.Name != Prefix+"STATE_BYTES" ||
			strings.HasPrefix(e.Name, Prefix+"DETECTOR_") || e.Name == Prefix+"SCORES" {
			fmt.Fprintf(h, "%s=%s\n", e.Name, e.Value)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// shared are the sections of the settings that Hash includes. STATE_BYTES follows from a machine's memory.
var shared = []string{"Records to samples", "State of a series", "Detectors"}
