package series

import (
	"encoding/binary"

	"odradek/processor/state/rules"
)

// Set is a set of detectors, and what the keys that they read have in common.
type Set struct {
	Windows     []SetWindow
	Ensembles   []SetDetector // of which all members and gates are in the set
	Detectors   int           // the number of those on windows
	Judged      int           // the number of those with a threshold
	ScoreStates int           // the number of those with a ScoreState
	Only        *SetWindow    // the only window, of one column, with one detector, which never ends; nil: the set is another
	Fixed       int           // bytes of a series' Windows and Progress without rows and carries, of Former and Interval

	// Prepared: the values of a sample are transformed or aggregated before they enter a window.
	Prepared   bool
	Transforms []SetTransform
	remembered int // values of Former
	// Every is the length of the intervals whose samples become one sample; 0: each sample is one. Aggregates say what their values
	// become, by columns. EmptyZero is as in rules.Order.
	Every      int64
	Aggregates []rules.ColumnAggregate
	EmptyZero  bool
}

// SetWindow describes a window of a key, as the detectors of its set need it.
type SetWindow struct {
	Index       int // into Config.Windows
	Fingerprint uint64
	Columns     []int
	Need        int32 // rows to retain: the most of Full
	SegmentRows int64 // rows of a segment, a power of two; 0: all rows are in the head
	Detectors   []SetDetector
	Tail        int   // words after the ring, for the detectors' fresh rows
	Incomplete  bool  // rows may lack values
	Grid        *Grid // rows are cells; nil: they are samples
	pool        *pool // slabs of the final size
}

// SetDetector is a detector of a set, and where a key has the detector's state.
type SetDetector struct {
	*Setup
	Place      int // index into Series.Progress; places count up from window to window
	at         int // place of its fresh rows in the tail
	waits      int // fresh rows that wait for the stride at most; 1 of a grid: its last sample
	Alert      int // index into Alerts.Detectors, if judged
	ScoreState int // index into Alerts.ScoreStates, if it has one
	Feeds      []Feed
}

// Feed says which ensemble a detector is a member of, or a gate.
type Feed struct {
	Ensemble int // index into Set.Ensembles
	Member   int // index into its members, and its gates after these
}

// None is the set of a series that no detector reads any more. Such a series stays until
// its open anomalies are closed.
var None = &Set{}

// Unread is the set of a series that no detector reads, and that is known because it may fall silent.
var Unread = &Set{}

// All visits the detectors, each with the fingerprint of its window, which is 0 for an ensemble.
func (set *Set) All(yield func(d *SetDetector, window uint64) bool) {
	for i := range set.Windows {
		for j := range set.Windows[i].Detectors {
			if !yield(&set.Windows[i].Detectors[j], set.Windows[i].Fingerprint) {
				return
			}
		}
	}
	for i := range set.Ensembles {
		if !yield(&set.Ensembles[i], 0) {
			return
		}
	}
}

// detector returns the detector of a name, and its window's fingerprint; nil without one.
func (set *Set) detector(name string) (*SetDetector, uint64) {
	for d, window := range set.All {
		if d.Name == name {
			return d, window
		}
	}
	return nil, 0
}

// Sets makes the sets of a configuration's detectors.
type Sets struct {
	windows   []WindowConfig
	Setups    []*Setup
	maxRecord int // bytes of a changelog record
	made      map[string]*Set
	all       *Set // where no detector has a filter, and no transform or aggregate depends on the key
	unread    *Set // of the series that no detector reads
	pools     map[int]*pool

	reading *rules.Reading // says which values are transformed and aggregated; nil: none
}

// NewSets derives the detectors of a configuration. maxRecord is the limit of a
// changelog record in bytes.
func NewSets(windows []WindowConfig, dets []DetectorConfig, maxRecord int) *Sets {
	s := &Sets{windows: windows, maxRecord: maxRecord, made: map[string]*Set{}, pools: map[int]*pool{}}
	filtered := false
	for i := range dets {
		d := &dets[i]
		filtered = filtered || d.Keys != nil
		if d.Ensemble != nil {
			s.Setups = append(s.Setups, nil) // after its members
			continue
		}
		setup := NewSetup(i, d, len(windows[d.Window].Columns))
		setup.Grid = windows[d.Window].Grid
		s.Setups = append(s.Setups, setup)
	}
	for i := range dets {
		if dets[i].Ensemble != nil {
			s.Setups[i] = newEnsemble(i, &dets[i], s.Setups)
		}
	}
	if !filtered {
		s.all = s.subset(nil, func(int) bool { return true })
	}
	return s
}

// Prepare has sets transform and aggregate values as a reading says.
func (s *Sets) Prepare(r *rules.Reading) {
	if len(r.Transforms) == 0 && r.Every == 0 {
		return
	}
	s.reading = r
	clear(s.made)
	switch {
	case s.all == nil:
	case r.Series:
		s.all = nil // they depend on the key
	default:
		s.all = s.subset(nil, func(int) bool { return true })
	}
}

// AddUnread has For return the set Unread where no detector reads a key.
func (s *Sets) AddUnread() { s.unread = Unread }

// For returns the detectors that read a key; nil if none does, unless AddUnread was called.
func (s *Sets) For(name []byte) *Set {
	if s.all != nil {
		return s.all
	}
	return s.subset(name, func(i int) bool { return s.reads(i, name) })
}

// reads reports whether a detector reads a key: an ensemble those that all of its members and gates read, too.
func (s *Sets) reads(i int, name []byte) bool {
	d := s.Setups[i]
	if d.Ensemble != nil {
		for _, m := range d.Ensemble.Members {
			if !s.reads(m, name) {
				return false
			}
		}
		for _, g := range d.Ensemble.Gates {
			if !s.reads(g.Detector, name) {
				return false
			}
		}
	}
	return d.Keys == nil || d.Keys(name)
}

// subset returns the set of the detectors that read a key, with what prepares its values.
func (s *Sets) subset(name []byte, reads func(detector int) bool) *Set {
	var few [64]byte
	members := few[:0]
	some := false
	for i := range s.Setups {
		bit := byte(0)
		if reads(i) {
			bit, some = 1, true
		}
		if i%8 == 0 {
			members = append(members, 0)
		}
		members[i/8] |= bit << (i % 8)
	}
	if !some {
		return s.unread
	}
	var transforms []rules.ColumnTransform
	var aggregates []rules.ColumnAggregate
	if r := s.reading; r != nil {
		transforms, aggregates = r.TransformsOf(name), r.AggregatesOf(name)
		for i := range transforms {
			members = binary.LittleEndian.AppendUint64(members, transforms[i].ID)
		}
		for i := range aggregates {
			members = binary.LittleEndian.AppendUint64(members, aggregates[i].ID)
		}
	}
	if set := s.made[string(members)]; set != nil {
		return set
	}
	set := &Set{Prepared: len(transforms)+len(aggregates) > 0, Aggregates: aggregates}
	set.Transforms, set.remembered = setTransforms(transforms)
	if len(aggregates) > 0 {
		set.Every, set.EmptyZero = s.reading.Every, s.reading.EmptyZero
	}
	reads = func(i int) bool { return members[i/8]>>(i%8)&1 != 0 }
	for w, wc := range s.windows {
		sw := SetWindow{Index: w, Fingerprint: wc.Fingerprint, Columns: wc.Columns, Incomplete: wc.Incomplete, Grid: wc.Grid}
		for i, d := range s.Setups {
			if d.Window == w && d.Ensemble == nil && reads(i) {
				waits := d.Stride - 1
				if sw.Grid != nil {
					waits = 1
				}
				sw.Detectors = append(sw.Detectors, set.detectorOf(d, sw.Tail, waits))
				sw.Tail += waits
				sw.Need = max(sw.Need, d.Full)
				if sw.Grid != nil {
					sw.Need = int32(sw.Grid.Cells() * sw.Grid.Tables())
				}
				set.Detectors++
			}
		}
		if len(sw.Detectors) == 0 {
			continue
		}
		if sw.Grid == nil { // whose rows change
			sw.SegmentRows = segmentRows(int64(sw.Need), len(sw.Columns), s.maxRecord)
		}
		words := int(sw.Need)*(1+len(sw.Columns)) + sw.Tail
		if s.pools[words] == nil {
			s.pools[words] = &pool{words: words}
		}
		sw.pool = s.pools[words]
		set.Windows = append(set.Windows, sw)
	}
	for i, d := range s.Setups {
		if d.Ensemble == nil || !reads(i) {
			continue
		}
		set.Ensembles = append(set.Ensembles, set.detectorOf(d, 0, 0))
		for m, setup := range d.Ensemble.Members {
			member, _ := set.detector(s.Setups[setup].Name)
			member.Feeds = append(member.Feeds, Feed{len(set.Ensembles) - 1, m})
		}
		for g, gate := range d.Ensemble.Gates {
			seasonal, _ := set.detector(s.Setups[gate.Detector].Name)
			seasonal.Feeds = append(seasonal.Feeds, Feed{len(set.Ensembles) - 1, len(d.Ensemble.Members) + g})
		}
	}
	if set.Detectors == 1 && len(set.Windows[0].Columns) == 1 && set.Windows[0].Detectors[0].Until == 0 {
		set.Only = &set.Windows[0]
	}
	set.Fixed = len(set.Windows)*(windowBytes+evenBytes) + set.Detectors*progressBytes
	for i := range set.Windows {
		for j := range set.Windows[i].Detectors {
			set.Fixed += set.Windows[i].Detectors[j].levelsBytes()
		}
	}
	if set.remembered > 0 {
		set.Fixed += formerBytes
	}
	if set.remembered > 1 {
		set.Fixed += formerValueBytes * set.remembered
	}
	if set.Every > 0 {
		set.Fixed += intervalBytes
	}
	if len(aggregates) > 1 {
		set.Fixed += aggregatedBytes * len(aggregates)
	}
	s.made[string(members)] = set
	return set
}

// detectorOf returns the next detector of the set, and counts its state.
func (set *Set) detectorOf(d *Setup, at, waits int) SetDetector {
	det := SetDetector{Setup: d, Place: set.Detectors, at: at, waits: waits, Alert: set.Judged, ScoreState: set.ScoreStates}
	if d.Judged {
		set.Judged++
	}
	if d.HasScoreState {
		set.ScoreStates++
	}
	return det
}
