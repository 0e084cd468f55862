package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// detector is how the tasks of a detector are packed.
type detector struct {
	*series.Setup
	centerRun int32            // consecutive rows that are the newest of windows with the same centers
	shares    bool             // tasks of a series in a batch share rows
	linked    bool             // a task needs the series' task before it, which has its carry or its rows
	placed    bool             // span is valid
	span      detectors.Span   // of the parameters in packer.batch
	model     *detectors.Model // that its tasks read; nil: none
	origin    []float64        // the centers of its rows with a model
	// sparing says how many rows a task reads; nil: the window's rows.
	sparing detectors.Sparing
	// direct scores a task; nil: an executor does. inPlace: in the memory of the series' carry.
	direct  func(r *detectors.Rows)
	inPlace bool
	// plain is the task of a direct detector of one value a row and one row a task, with a score and nothing else, which is not
	// judged; without X, and reused. nil: it is none.
	plain *detectors.Rows
}

// leastShared is the least number of values of a full window whose rows tasks share:
// packing fewer again takes less time than finding the series' previous task.
const leastShared = 32

// newDetector returns how tasks of a detector are packed. Where scores are watched, a task keeps the carry that it had.
func newDetector(d *series.Setup, watched bool) detector {
	shares := d.Elem != detectors.I64 && int(d.Full)*d.Dim >= leastShared
	sparing, _ := d.Detector.(detectors.Sparing)
	shares = shares && sparing == nil && d.Width == d.Dim
	made := detector{Setup: d, centerRun: int32(detectors.CenterRun(int(d.Full))), sparing: sparing}
	if z, ok := d.Detector.(detectors.Direct); ok {
		made.direct, made.inPlace = z.Direct()
	}
	made.inPlace = made.inPlace && made.direct != nil && d.Most.Carry > 0 && !watched
	if made.direct != nil && d.Elem == detectors.F32 && d.Dim == 1 && d.Fresh == 1 && d.Steady && d.Reads == 1 &&
		d.Wide == detectors.NotWide && d.Summary == nil && !d.Scale && (d.Most == detectors.Outputs{Scores: 1}) && d.Learner == nil &&
		d.Predict == nil && !d.Followed && sparing == nil {
		made.plain = &detectors.Rows{Dim: 1, Fresh: 1, Params: d.Params, Scores: make([]float32, 1)}
	}
	made.shares = shares && made.direct == nil
	made.linked = made.shares || d.Most.Carry > 0 && !made.inPlace
	if m, ok := d.Detector.(detectors.Modelled); ok {
		made.model, made.origin = m.Model(), m.Origin()
	}
	return made
}

// need returns how much of a batch the tasks of one sample that an executor scores take at most: a task of each detector,
// parameters included.
func (p *packer) need() detectors.Need {
	var n detectors.Need
	for i := range p.detectors {
		if d := &p.detectors[i]; d.Setup != nil && d.direct == nil {
			d.addNeed(&n)
		}
	}
	return n
}

func (d *detector) addNeed(n *detectors.Need) {
	n.Tasks++
	n.In += len(d.Params) + d.Most.Carry + 2 // both at even offsets
	n.Out += d.Most.Scores + d.Most.Carry + d.Most.Detail
	if d.Summary != nil && d.Wide == detectors.NotWide {
		n.In += d.Summary.Max * (d.Dim + 1)
	} else if d.Summary != nil {
		n.In += detectors.F64.Words(d.Summary.Max * (d.Dim + 1))
	}
	x := int(d.Full) * d.Width
	n.In += d.Elem.Words(x)
	if d.Wide != detectors.NotWide {
		n.In += detectors.F64.Words(x) - x
	}
	if d.shares { // and room for other tasks' rows, see packX
		room := int((d.centerRun-1)/d.Fresh*d.Fresh) * d.Dim
		if d.Elem == detectors.F64 {
			room *= 2
		}
		n.In += room
	}
}

// followers returns the number of tasks to leave room for behind one whose newest row is
// the count-th of the series: the previous batch's number of tasks less those already packed,
// or, beyond that, as many as are packed; at most those with the same centers.
func (d *detector) followers(m *series.Packed, count int64) uint16 {
	more := m.Tasks
	if m.Before > m.Tasks {
		more = m.Before - m.Tasks
	} else if m.Tasks == 1 {
		return 0
	}
	run := int64(d.centerRun)
	return min(more, uint16((run-1-count&(run-1))/int64(d.Fresh)))
}
