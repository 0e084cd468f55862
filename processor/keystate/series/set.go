package series

// Set is a set of detectors, and what the keys that they read have in common.
type Set struct {
	Windows   []SetWindow
	Detectors int  // their number
	Judged    int  // the number of those with a threshold
	Traced    int  // the number of those with a trace
	Simple    bool // one window of one column, one detector
	Fixed     int  // bytes of a series' Windows and Progress without rows and carries
}

// SetWindow describes a window of a key, as the detectors of its set need it.
type SetWindow struct {
	Index       int // into Config.Windows
	Fingerprint uint64
	Columns     []int
	Need        int32 // rows to retain: the most of Window()+Stride-1
	SegmentRows int64 // rows of a segment, a power of two; 0: all rows are in the head
	Detectors   []SetDetector
	Tail        int   // words after the ring, for the detectors' fresh rows
	Incomplete  bool  // rows may lack values
	pool        *pool // slabs of the final size
}

// SetDetector is a detector of a set, and where a key has what it remembers.
type SetDetector struct {
	*Setup
	Place int // index into Series.Progress; places count up from window to window
	at    int // place of its fresh rows in the tail
	Alert int // index into Alerts.Detectors, if judged
	Trace int // index into Alerts.Traces, if traced
}

// None is the set of a series that no detector reads any more, which stays only until
// its open anomalies are closed.
var None = &Set{}

// All visits the detectors, each with the fingerprint of its window.
func (set *Set) All(yield func(d *SetDetector, window uint64) bool) {
	for i := range set.Windows {
		for j := range set.Windows[i].Detectors {
			if !yield(&set.Windows[i].Detectors[j], set.Windows[i].Fingerprint) {
				return
			}
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
	all       *Set // where no detector has a filter
	pools     map[int]*pool
}

// NewSets derives the detectors of a configuration. maxRecord is the limit of a
// changelog record in bytes.
func NewSets(windows []WindowConfig, dets []DetectorConfig, maxRecord int) *Sets {
	s := &Sets{windows: windows, maxRecord: maxRecord, made: map[string]*Set{}, pools: map[int]*pool{}}
	filtered := false
	for i := range dets {
		d := &dets[i]
		s.Setups = append(s.Setups, NewSetup(i, d, len(windows[d.Window].Columns)))
		filtered = filtered || d.Keys != nil
	}
	if !filtered {
		s.all = s.of(func(int) bool { return true })
	}
	return s
}

// For returns the detectors that read a key; nil if none does.
func (s *Sets) For(name []byte) *Set {
	if s.all != nil {
		return s.all
	}
	return s.of(func(i int) bool { return s.Setups[i].Keys == nil || s.Setups[i].Keys(name) })
}

func (s *Sets) of(reads func(detector int) bool) *Set {
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
		return nil
	}
	if set := s.made[string(members)]; set != nil {
		return set
	}
	set := &Set{}
	for w, wc := range s.windows {
		sw := SetWindow{Index: w, Fingerprint: wc.Fingerprint, Columns: wc.Columns, Incomplete: wc.Incomplete}
		for i, d := range s.Setups {
			if d.Window == w && members[i/8]>>(i%8)&1 != 0 {
				sw.Detectors = append(sw.Detectors, SetDetector{d, set.Detectors, sw.Tail, set.Judged, set.Traced})
				if d.Judged {
					set.Judged++
				}
				if d.Traced {
					set.Traced++
				}
				sw.Tail += d.Stride - 1
				sw.Need = max(sw.Need, d.Full)
				set.Detectors++
			}
		}
		if len(sw.Detectors) == 0 {
			continue
		}
		sw.SegmentRows = segmentRows(int64(sw.Need), len(sw.Columns), s.maxRecord)
		words := int(sw.Need)*(1+len(sw.Columns)) + sw.Tail
		if s.pools[words] == nil {
			s.pools[words] = &pool{words: words}
		}
		sw.pool = s.pools[words]
		set.Windows = append(set.Windows, sw)
	}
	set.Simple = set.Detectors == 1 && len(set.Windows[0].Columns) == 1
	set.Fixed = len(set.Windows)*windowBytes + set.Detectors*progressBytes
	s.made[string(members)] = set
	return set
}
