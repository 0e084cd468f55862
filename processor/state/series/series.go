// Package series holds the state of one series: for each window a ring of rows, for
// each detector its fresh rows and its carry, the state of thresholds, anomalies and silence,
// and summaries of rows that have left a window. It derives from a configuration which
// detectors read a series and how large their tasks are (Sets), and it writes and reads the
// sections of a head and the segments of full windows in the changelog.
//
// A Series knows nothing of the partition's other series, which a Heap orders, of undo and of batches. Methods that may
// allocate return the bytes that they added. A method that overwrites a row expects that the caller
// has saved it (AppendOldest, AppendPlaces) if the caller may want to undo the change.
//
// The body of a head is, by the methods of Writer:
//
//	Rows         last offset and time, the rows of each window behind its last full segment
//	Progress     each detector's fresh rows and carry
//	             held samples, which are the caller's
//	Alerts       thresholds' histories, anomalies, silence
//	Summaries    summaries
//	ScoreStates  states of scores: smoothers and ensembles
//	Former       what transforms of values remember
//	Interval     the open interval whose values are aggregated (interval.go; the functions are in package rules, aggregate.go)
//
// A Reader, with methods of the same names, reads it in the same order, and leaves out what the configuration has no use for.
package series

import (
	"math"

	"odradek/detectors"
)

// Series is the state of one series.
type Series struct {
	name  []byte
	short [24]byte // where name is, if it fits: one cache line less to visit

	LastTime   int64 // of the last sample folded; minTime before the first
	LastOffset int64 // of the last sample folded or held
	Set        *Set
	Windows    []Window   // one for each of Set.Windows
	Progress   []Progress // one for each detector of the set
	Alerts     *Alerts    // nil: nothing is judged, no silence was ever open
	Born       int64      // offset of the first sample: tells lives of a key apart
	Former     *Former    // what transforms remember; nil: nothing
	Interval   *Interval  // nil: each sample enters the windows
}

// minTime is the time of the last sample of a series that has none.
const minTime = math.MinInt64

// Init initializes a series without samples. It takes windows and progress, whose lengths are
// the set's, and copies name.
func (s *Series) Init(name []byte, set *Set, windows []Window, progress []Progress) {
	if len(name) <= len(s.short) {
		s.name = append(s.short[:0], name...)
	} else {
		s.name = append(make([]byte, 0, len(name)), name...)
	}
	s.Set, s.LastTime, s.Windows, s.Progress = set, minTime, windows, progress
	if set.remembered > 0 {
		s.Former = newFormer(set.remembered)
	}
	if set.Every > 0 {
		s.Interval = newInterval(len(set.Aggregates))
	}
	if set.Judged > 0 {
		s.Alerts = NewAlerts(set.Judged)
	}
}

// Name returns the series key. The caller must not change it.
func (s *Series) Name() []byte { return s.name }

// Size estimates the memory beside the Series itself.
func (s *Series) Size() int64 {
	n := int64(s.Set.Fixed)
	if len(s.name) > len(s.short) {
		n += int64(len(s.name))
	}
	for i := range s.Windows {
		n += 8 * int64(len(s.Windows[i].slab))
	}
	for i := range s.Progress {
		n += 4 * int64(cap(s.Progress[i].Carry))
	}
	if s.Alerts != nil {
		n += s.Alerts.Size()
	}
	return n + s.Interval.bytes()
}

// Release gives the memory of the windows' rows back.
func (s *Series) Release() {
	for i := range s.Windows {
		s.Windows[i].release(&s.Set.Windows[i])
	}
}

// Clear empties the windows, what transforms remember, and the open interval.
func (s *Series) Clear() {
	s.Former.Clear()
	s.Interval.Clear()
	for i := range s.Windows {
		s.Windows[i].clear(&s.Set.Windows[i])
	}
}

// Progress is the number of fresh rows of one detector for a series, and its carry.
type Progress struct {
	Carry  detectors.Words
	Unit   uint32 // the lower half of the undo unit that has a copy of carry
	Fresh  int32  // fresh rows so far
	Packed Packed
	levels *levels // nil: none
}

// levels is what full windows have shown of changes of level, which changes no result: by columns, since the window was last rewound.
type levels struct {
	byColumn []detectors.Level
	rewound  uint32
	one      [1]detectors.Level // byColumn, for one column
}

// Levels returns what full windows before this one have shown of changes of level, by columns.
func (p *Progress) Levels(w *Window, dim int) []detectors.Level {
	l := p.levels
	switch {
	case l == nil:
		l = &levels{rewound: w.rewound}
		if l.byColumn = l.one[:]; dim > 1 {
			l.byColumn = make([]detectors.Level, dim)
		}
		p.levels = l
	case l.rewound != w.rewound:
		clear(l.byColumn)
		l.rewound = w.rewound
	}
	return l.byColumn
}

// Packed is what the task queue of package state knows of the detector's tasks; it alone uses it.
type Packed struct {
	Last uint32 // number of the last one
	// Tasks in the last batch that had any, so far, and in the one before. The room that is
	// left behind X depends on them, and no bit of a result.
	Tasks, Before uint16
}
