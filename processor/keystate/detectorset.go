package keystate

import (
	"odradek/detectors"
	"odradek/detectors/bins"
	"odradek/detectors/threshold"
)

// detectorSet is a set of detectors, and what the keys that they read have in common.
type detectorSet struct {
	wins   []keyWindow
	marks  int  // detectors
	alerts int  // detectors with a threshold
	simple bool // one window of one column, one detector
	fixed  int  // bytes of a key without windows' rows, carries and name
}

// keyWindow describes a window of a key, as the detectors of its set need it.
type keyWindow struct {
	index      int // into Config.Windows
	cols       []int
	need       int32 // rows to keep: the most of Window()+Stride-1
	seg        int64 // rows of a segment, a power of two; 0: all rows are in the head
	dets       []keyDetector
	tail       int    // words after the ring, for the detectors' fresh rows
	incomplete bool   // rows may lack values
	pool       *slots // slabs of the final size
}

// keyDetector is a detector of a set, and where a key has what it remembers.
type keyDetector struct {
	*detector
	mark  int // index into Key.marks; they count up from window to window
	at    int // place of its fresh rows in the tail
	alert int // index into alerts.dets, if judged
}

// emptySet is the set of a key that no detector reads any more, which is kept only until
// its open anomalies are closed.
var emptySet = &detectorSet{fixed: keyBytes}

// detector is a DetectorConfig with what Fold derives from it.
type detector struct {
	DetectorConfig
	index  int32
	op     detectors.Op
	elem   detectors.Elem
	dim    int
	stride int32
	full   int32 // rows of a task on a full window
	block  int32 // consecutive rows that are the newest of windows with the same centers
	shares bool  // tasks of a key in a batch share rows
	linked bool  // a task needs the key's task before it, which has its carry or its rows
	// See Steady.
	steady   bool
	from, to int
	minRows  int32 // rows at which a sample has a score; 0: never
	// Outputs of a task on a full window, and the most of any.
	size, most detectors.Outputs
	params     detectors.Words
	span       detectors.Span // of params in State.batch
	placed     bool           // span is valid

	judged  bool              // has a threshold
	rule    *threshold.Rule   // in force for the score that Apply judges next
	ruled   *threshold.Rule   // and for the sample that Fold takes next
	former  []*threshold.Rule // of other histories
	explain detectors.Explainer
	blocker detectors.Blocker
	valued  bool                  // its tasks' values are kept: a finding may say what was expected
	replays bool                  // has something to remember of each task
	summary *bins.Params          // of what leaves its window; nil: none
	pool    *detectors.WindowPool // of the executor's window cache; nil: none
}

func newDetector(index int, c *DetectorConfig, dim int) *detector {
	op := c.Detector.Op()
	d := &detector{
		DetectorConfig: *c, index: int32(index), op: op, elem: op.Elem(), dim: dim, stride: int32(c.Stride),
		full: int32(c.Detector.Window() + c.Stride - 1), params: c.Detector.Params(),
	}
	d.block = int32(detectors.BlockRows(int(d.full)))
	d.shares = d.elem != detectors.I64 && int(d.full)*dim >= leastShared
	if z, ok := c.Detector.(detectors.Summarizer); ok {
		d.summary = z.Summary(dim)
	}
	d.blocker, _ = c.Detector.(detectors.Blocker)
	if r, ok := c.Detector.(Steady); ok && d.blocker == nil { // a block is about all rows of X
		d.steady = true
		d.from, d.to = r.Reach()
	}
	for rows := 1; rows <= c.Detector.Window() && d.minRows == 0; rows++ {
		if _, ok := c.Detector.Size(detectors.View{Dim: dim, Rows: rows, Fresh: 1}); ok {
			d.minRows = int32(rows)
		}
	}
	if d.minRows == 0 {
		return d
	}
	if d.judged = d.Threshold != nil && d.Threshold.Size() > 0; d.judged {
		d.Threshold = d.configured()
		d.ruled = d.Threshold
	}
	if d.judged && d.Events != nil {
		d.explain, _ = d.Detector.(detectors.Explainer)
		d.valued = d.explain != nil || !d.steady
	}
	for rows := d.minRows + d.stride - 1; rows <= d.full; rows++ {
		size, ok := c.Detector.Size(detectors.View{Dim: dim, Rows: int(rows), Fresh: c.Stride})
		if !ok {
			d.minRows = 0 // would make tasks that are refused
			return d
		}
		d.size = size
		d.most.Scores, d.most.Carry = max(d.most.Scores, size.Scores), max(d.most.Carry, size.Carry)
		d.most.Detail = max(d.most.Detail, size.Detail)
	}
	d.replays = d.judged || d.most.Carry > 0
	d.linked = d.shares || d.most.Carry > 0
	return d
}

// leastShared is the least number of values of a full window whose rows tasks share:
// fewer are packed anew in less time than it takes to find the key's previous task.
const leastShared = 32

// addNeed adds the most that one task takes of a batch, parameters included.
func (d *detector) addNeed(n *detectors.Need) {
	n.Tasks++
	n.In += len(d.params) + d.most.Carry + 2 // both at even offsets
	n.Out += d.most.Scores + d.most.Carry + d.most.Detail
	if d.summary != nil {
		n.In += d.summary.Max * (d.dim + 1)
	}
	x := int(d.full) * d.dim
	if d.pool != nil {
		n.In += detectors.F64.Words(x) // where it is cached; it is more than where it travels
	} else {
		n.In += d.elem.Words(x)
		if d.shares { // and room for other tasks' rows, see packX
			room := int((d.block-1)/d.stride*d.stride) * d.dim
			if d.elem == detectors.F64 {
				room *= 2
			}
			n.In += room
		}
	}
}

// setFor returns the detectors that read a key; nil if none does.
func (s *State) setFor(name []byte) *detectorSet {
	if s.all != nil {
		return s.all
	}
	return s.setOf(func(i int) bool {
		keys := s.cfg.Detectors[i].Keys
		return keys == nil || keys(name)
	})
}

func (s *State) setOf(reads func(detector int) bool) *detectorSet {
	var few [64]byte
	members := few[:0]
	some := false
	for i := range s.dets {
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
	if set := s.sets[string(members)]; set != nil {
		return set
	}
	set := &detectorSet{}
	for w, wc := range s.cfg.Windows {
		sw := keyWindow{index: w, cols: wc.Columns, incomplete: wc.Incomplete}
		for i, d := range s.dets {
			if d.Window == w && members[i/8]>>(i%8)&1 != 0 {
				sw.dets = append(sw.dets, keyDetector{d, set.marks, sw.tail, set.alerts})
				if d.judged {
					set.alerts++
				}
				sw.tail += d.Stride - 1
				sw.need = max(sw.need, d.full)
				set.marks++
			}
		}
		if len(sw.dets) == 0 {
			continue
		}
		sw.seg = segmentRows(int64(sw.need), len(sw.cols), s.maxRecord())
		words := int(sw.need)*(1+len(sw.cols)) + sw.tail
		if s.pools[words] == nil {
			s.pools[words] = &slots{words: words}
		}
		sw.pool = s.pools[words]
		set.wins = append(set.wins, sw)
	}
	set.simple = set.marks == 1 && len(set.wins[0].cols) == 1
	set.fixed = keyBytes + len(set.wins)*winBytes + set.marks*markBytes
	s.sets[string(members)] = set
	return set
}

func (s *State) maxRecord() int {
	if s.cfg.MaxRecord > 0 {
		return s.cfg.MaxRecord
	}
	return MaxRecord
}

// segmentRows is the size of a segment: a power of two near an eighth of the
// window, between 1 KiB and 256 KiB (or half of a record). A window of less
// than two segments has none.
func segmentRows(need int64, cols, maxRecord int) int64 {
	row := int64(8 * (1 + cols))
	least, most := int64(1<<10), min(int64(256<<10), int64(maxRecord)/2)
	n := int64(1)
	for n*2*row <= most && (n*row < least || 3*n < need/4) { // 3n < 2(need/8): 2n is nearer
		n *= 2
	}
	if 2*n > need {
		if n*row <= most {
			return 0
		}
		return 1 // rows of more than the limit: one a segment
	}
	return n
}
