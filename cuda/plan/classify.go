package plan

import "odradek/detectors"

// classifier finds the classes of a batch's tasks. Planner.Start empties it.
type classifier struct {
	shared int             // bytes of shared memory that a block may have on each device, 0 for no limit
	in     detectors.Words // In of the batch

	list   []Class
	index  map[Class]int32
	points bool // some class is of an op whose kernels may read normalised points
	models bool // some task reads a model

	shapes [64]shapeClass
	serial uint32          // of the batch
	last   *detectors.Task // of the last classOf; nil: none yet
	found  *shapeClass     // its class
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
	serial uint32 // of the batch for which it was filled
	class  int32  // -1: for the CPU
	cost   int
}

// classOf returns the index of a task's class, -1 for the CPU, and its cost.
func (c *classifier) classOf(t *detectors.Task) (int32, int) {
	if t.Wide() { // no kernel reads float64
		return -1, 0
	}
	// Most consecutive tasks have the same shape. Its fields are compared one by one: with a comparison of two shapes the plan of
	// 65,536 tasks takes half as long again.
	if u := c.last; u != nil && t.Op == u.Op && t.Dim == u.Dim && t.Fresh == u.Fresh && t.X.Len == u.X.Len && t.Bins.Len == u.Bins.Len &&
		t.Scores.Len == u.Scores.Len && t.Next.Len == u.Next.Len && t.Detail.Len == u.Detail.Len && t.Model.Len == u.Model.Len &&
		t.Params == u.Params {
		return c.found.class, c.found.cost
	}
	op := byOp[t.Op]
	if op == nil || t.Model.Len > 0 && !op.models {
		return -1, 0
	}
	s := shape{t.Op, t.Dim, t.Fresh, t.X.Len, t.Bins.Len, t.Scores.Len, t.Next.Len, t.Detail.Len, t.Model.Len, t.Params}
	e := &c.shapes[(t.X.Len*7+t.Fresh*5+t.Params.Off*3+t.Bins.Len+uint32(t.Op))%uint32(len(c.shapes))]
	c.last, c.found = t, e
	if e.serial == c.serial && e.shape == s {
		return e.class, e.cost
	}
	e.shape, e.serial, e.class, e.cost = s, c.serial, -1, 0
	u, params, ok := t, c.in[t.Params.Off:t.Params.Off+t.Params.Len], true
	if op.pointRows != nil {
		u, params, ok = op.kernelTask(t, params)
	}
	if ok {
		if class, cost, ok := op.class(u, params); ok {
			c.points, c.models = c.points || op.pointRows != nil, c.models || t.Model.Len > 0
			e.class, e.cost = c.indexOf(class), max(cost, 1)
		}
	}
	return e.class, e.cost
}

// classAgain is classOf for task i in a later round than the first.
func (c *classifier) classAgain(b *detectors.Batch, i, round int) (int32, int) {
	t := &b.Tasks[i]
	op := byOp[t.Op]
	if op.again == nil {
		return c.classOf(t)
	}
	next := b.Out[t.Next.Off : t.Next.Off+t.Next.Len]
	class, cost, ok := op.again(t, c.in[t.Params.Off:t.Params.Off+t.Params.Len], round, next)
	if !ok {
		return -1, 0
	}
	return c.indexOf(class), max(cost, 1)
}

// indexOf returns the index of a class among the batch's classes; -1 where the device has too little shared memory.
func (c *classifier) indexOf(class Class) int32 {
	if c.shared > 0 && int(class.Shared) > c.shared {
		return -1
	}
	k, known := c.index[class]
	if !known {
		k = int32(len(c.list))
		c.list = append(c.list, class)
		c.index[class] = k
	}
	return k
}
