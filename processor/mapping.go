package processor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/schemas"
)

// This file has what depends on how the records of a topic are read: a worker may have input topics of
// several shapes, each read by the mapping that names it.

// Mapping is how the records of a topic become samples, and the state that is made of these.
type Mapping struct {
	Name string // "" for the settings of no mapping

	// State has the reading that Decoder reads records by. Its SampleBits is set if and only if a record may be several samples.
	State   *state.Config
	Decoder schemas.Decoder // cloned for each partition
	// Former makes the decoder of another reading, by which records were read when they were live; nil: there is none.
	Former func(*rules.Reading) (schemas.Decoder, error)
	// Settings are behind the fingerprints of State, one for each detector and
	// one for held samples; nil: refusals of state name no setting.
	Settings []StateSettings

	TimeUnit string // of event times, as time_unit has it, for the log
	// IdleAfter is how long a partition has been without records before its watermark goes on by the wall clock; 0: never.
	IdleAfter time.Duration
	// StopAbove bounds the dead letters of each partition; the zero value is no bound.
	StopAbove cycle.DeadLetterLimit
}

// MappingSet has a mapping for each topic.
type MappingSet struct {
	Mapping // of the topics for which NameOf has no name of ByName

	ByName map[string]*Mapping
	NameOf func(topic string) string // of the mapping of a topic; nil: there are none
}

// ForTopic returns the mapping of a topic.
func (s *MappingSet) ForTopic(topic string) *Mapping {
	if s.NameOf != nil {
		if m := s.ByName[s.NameOf(topic)]; m != nil {
			return m
		}
	}
	return &s.Mapping
}

// EditStates replaces the configuration of each state by a copy that edit has changed.
func (s *MappingSet) EditStates(edit func(*state.Config)) {
	edited := map[*state.Config]*state.Config{}
	replace := func(m *Mapping) {
		if edited[m.State] == nil {
			state := *m.State
			edit(&state)
			edited[m.State] = &state
		}
		m.State = edited[m.State]
	}
	replace(&s.Mapping)
	byName := make(map[string]*Mapping, len(s.ByName))
	for name, m := range s.ByName {
		m := *m
		replace(&m)
		byName[name] = &m
	}
	s.ByName = byName
}

// reader reads records by one reading. A replay reads each record by the one that was in force when it was live.
type reader struct {
	reading *rules.Reading
	dec     schemas.Decoder
	split   *schemas.Splitter // of readings into samples
	// translation of samples into samples of the configured reading; nil: they are alike. foreign: they are of other series,
	// and no window takes them.
	translation rules.Translation
	foreign     bool
	values      []float64
}

// newReader returns the reader of the configured reading.
func newReader(m *Mapping) *reader {
	return &reader{reading: &m.State.Reading, dec: m.Decoder.Clone(), split: NewSplitter(&m.State.Reading)}
}

// readBy has the folder read records by another reading.
func (f *folder) readBy(reading *rules.Reading) error {
	i := slices.IndexFunc(f.readers, func(r *reader) bool { return r.reading.SameDecoding(reading) })
	if i < 0 {
		r := &reader{reading: reading, split: NewSplitter(reading), values: make([]float64, f.pt.mapping.State.Dim)}
		err := errNoFormer
		if f.pt.mapping.Former != nil {
			r.dec, err = f.pt.mapping.Former(reading)
		}
		if err != nil {
			return &UnreadableError{Why: fmt.Sprintf("the decoder of the former reading cannot be made: %v", err)}
		}
		var alike bool
		r.translation, alike = f.pt.mapping.State.Reading.Translate(reading)
		r.foreign = !alike
		i, f.readers = len(f.readers), append(f.readers, r)
	}
	f.reads, f.reader = reading, f.readers[i]
	f.missing.dec = f.reader.dec
	return nil
}

var errNoFormer = errors.New("there is none of another reading")

// translated returns values by the configured reading. They are valid until the next call.
func (r *reader) translated(values []float64) []float64 {
	switch {
	case r.foreign:
		for i := range r.values {
			r.values[i] = math.NaN()
		}
	case r.translation != nil:
		r.translation.Apply(r.values, values)
	default:
		return values
	}
	return r.values
}
