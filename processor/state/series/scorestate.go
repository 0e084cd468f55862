package series

import "slices"

// ScoreState is the state of a detector's scores beside the history of its threshold: the scores whose mean is
// judged and, for an ensemble, the state that package ensemble defines. All zeros are no state.
type ScoreState struct {
	State []uint64 // as Setup.ScoreStateSize says; nil before the first score
	Unit  uint64   // the undo unit that has a copy of State
}

// ScoreStateBytes is the size of a ScoreState in memory; TestSizes compares it.
const ScoreStateBytes = 32

// ScoreStateSize returns the length of a ScoreState's words: the ensemble's, then the smoother's.
func (s *Setup) ScoreStateSize() int { return s.combinedSize() + s.Smooth.Size() }

func (s *Setup) combinedSize() int {
	if s.Combined == nil {
		return 0
	}
	return s.Combined.Size()
}

// Split splits a ScoreState's words into the ensemble's and the smoother's.
func (s *Setup) Split(state []uint64) (combined, smooth []uint64) {
	n := s.combinedSize()
	return state[:n], state[n:]
}

// validScoreState reports whether stored words are a ScoreState's.
func (s *Setup) validScoreState(state []uint64) bool {
	if len(state) != s.ScoreStateSize() {
		return false
	}
	combined, smooth := s.Split(state)
	return (s.Combined == nil || s.Combined.Valid(combined)) && s.Smooth.Valid(smooth)
}

// ScoreState returns the state of the scores of a detector that has one, allocated, and the bytes that this added to the series.
func (s *Series) ScoreState(d *SetDetector) (t *ScoreState, added int64) {
	if s.Alerts == nil {
		s.Alerts = NewAlerts(s.Set.Judged)
		added = s.Alerts.Size()
	}
	if s.Alerts.ScoreStates == nil {
		s.Alerts.ScoreStates = make([]ScoreState, s.Set.ScoreStates)
		added += ScoreStateBytes * int64(s.Set.ScoreStates)
	}
	t = &s.Alerts.ScoreStates[d.ScoreState]
	if t.State == nil {
		t.State = make([]uint64, d.ScoreStateSize())
		added += 8 * int64(len(t.State))
	}
	return t, added
}

// used reports whether the state is not all zeros.
func (s *ScoreState) used() bool {
	return slices.ContainsFunc(s.State, func(w uint64) bool { return w != 0 })
}

// HasScoreStates reports whether any state of scores is in use.
func (a *Alerts) HasScoreStates() bool {
	return a != nil && slices.ContainsFunc(a.ScoreStates, func(t ScoreState) bool { return t.used() })
}

// ScoreStates reads what Writer.ScoreStates has written, those that the configuration has a use for. Progress
// has found which are of another one, but for ensembles.
func (r *Reader) ScoreStates(k *Series) {
	for range r.Len(25) {
		name, fp, window := r.Bits(), r.Bits(), r.Bits()
		state := make([]uint64, r.Len(8))
		for i := range state {
			state[i] = r.Bits()
		}
		if r.Bad {
			return
		}
		for det, configured := range k.Set.All {
			if NameHash(det.Name) != name {
				continue
			}
			if det.Ensemble != nil && (det.Fingerprint != fp || configured != window) {
				r.Differences = append(r.Differences, Difference{det.Name, false, window, fp})
			}
			if !det.HasScoreState || det.Fingerprint != fp || configured != window {
				continue
			}
			if size := det.ScoreStateSize(); len(state) < size {
				state = slices.Concat(state, make([]uint64, size-len(state)))
			}
			if !det.validScoreState(state) {
				r.Fail()
				return
			}
			t, _ := k.ScoreState(det)
			t.State = state
		}
	}
}
