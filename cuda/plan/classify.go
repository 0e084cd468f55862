package plan

import (
	"math"

	"odradek/detectors"
)

// classifier finds the classes of a batch's tasks.
type classifier struct {
	Shared int             // bytes of shared memory that a block may have on each device, 0 for no limit
	words  detectors.Words // In of the batch

	classes []Class
	index   map[Class]int32
	shapes  [64]shapeClass
	serial  uint32
	last    *detectors.Task // of the last classOf; nil: none yet
	found   *shapeClass     // its class
}

// shape has everything that determines a task's class. Within a batch, a span stands for the content of
// the parameters.
type shape struct {
	op                                               detectors.Op
	dim, fresh, x, bins, scores, next, detail, model uint32
	params                                           detectors.Span
}

// shapeClass caches the class of a shape, because most tasks have the shape of others.
type shapeClass struct {
	shape
	serial uint32 // of the Planner, when it was filled
	class  int32  // -1: for the CPU
	cost   int
}

// begin forgets the classes of the last batch.
func (p *classifier) begin() {
	p.serial++
	p.classes = p.classes[:0]
	if p.index == nil {
		p.index = map[Class]int32{}
	}
	clear(p.index)
}

// classOf returns the index of a task's class, -1 for the CPU, and its cost.
func (p *classifier) classOf(t *detectors.Task) (int32, int) {
	if t.Wide() { // no kernel reads float64
		return -1, 0
	}
	if p.last != nil && alike(p.last, t) {
		return p.found.class, p.found.cost
	}
	op := byOp[t.Op]
	if op == nil || t.Model.Len > 0 && !op.models {
		return -1, 0
	}
	s := shape{t.Op, t.Dim, t.Fresh, t.X.Len, t.Bins.Len, t.Scores.Len, t.Next.Len, t.Detail.Len, t.Model.Len, t.Params}
	e := &p.shapes[(t.X.Len*7+t.Fresh*5+t.Params.Off*3+t.Bins.Len+uint32(t.Op))%uint32(len(p.shapes))]
	p.last, p.found = t, e
	if e.serial == p.serial && e.shape == s {
		return e.class, e.cost
	}
	e.shape, e.serial, e.class = s, p.serial, -1
	u, params, ok := op.kernelTask(t, p.words[t.Params.Off:t.Params.Off+t.Params.Len])
	var c Class
	var cost int
	if ok {
		c, cost, ok = op.class(u, params)
	}
	if ok && (p.Shared == 0 || op.shared(c) <= p.Shared) {
		e.class, e.cost = p.indexOf(c), max(cost, 1)
	}
	return e.class, e.cost
}

// alike reports whether two tasks have the same shape; most consecutive tasks have.
func alike(t, u *detectors.Task) bool {
	return t.Op == u.Op && t.Dim == u.Dim && t.Fresh == u.Fresh && t.X.Len == u.X.Len && t.Bins.Len == u.Bins.Len &&
		t.Scores.Len == u.Scores.Len && t.Next.Len == u.Next.Len && t.Detail.Len == u.Detail.Len && t.Model.Len == u.Model.Len &&
		t.Params == u.Params
}

// classAgain is classOf for task i in a later round than the first.
func (p *classifier) classAgain(b *detectors.Batch, i, round int) (int32, int) {
	t := &b.Tasks[i]
	op := byOp[t.Op]
	if op.again == nil {
		return p.classOf(t)
	}
	next := b.Out[t.Next.Off : t.Next.Off+t.Next.Len]
	c, cost, ok := op.again(t, p.words[t.Params.Off:t.Params.Off+t.Params.Len], round, next)
	if !ok || p.Shared > 0 && op.shared(c) > p.Shared {
		return -1, 0
	}
	return p.indexOf(c), max(cost, 1)
}

// indexOf returns the index of a class among those of the batch.
func (p *classifier) indexOf(c Class) int32 {
	k, known := p.index[c]
	if !known {
		k = int32(len(p.classes))
		p.classes = append(p.classes, c)
		p.index[c] = k
	}
	return k
}

// ClassOf returns the class of a detector's tasks with the given fresh rows after a full window; ok is
// false where no kernel takes them.
func ClassOf(d detectors.Detector, dim, fresh int) (c Class, ok bool) {
	rows := detectors.TaskRows(d, fresh)
	size, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	op := byOp[d.Op()]
	if op == nil || !ok || rows*dim > math.MaxInt32 {
		return Class{}, false
	}
	t := detectors.Task{
		Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh), X: detectors.Span{Len: uint32(rows * dim)},
		Scores: detectors.Span{Len: uint32(size.Scores)}, Next: detectors.Span{Len: uint32(size.Carry)},
		Detail: detectors.Span{Len: uint32(size.Detail)},
	}
	if m, modelled := d.(detectors.Modelled); modelled {
		if t.Model.Len = uint32(len(m.Model().Words())); !op.models {
			return Class{}, false
		}
	}
	u, params, ok := op.kernelTask(&t, d.Params())
	if !ok {
		return Class{}, false
	}
	c, _, ok = op.class(u, params)
	return c, ok
}
