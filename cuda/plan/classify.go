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

// classOf returns the index of the class of task i of a batch in a round, the first of which is 1, and its cost. The index is -1
// for the CPU, which also has the classes that need more shared memory than the device has.
func (c *classifier) classOf(b *detectors.Batch, i, round int) (int32, int) {
	t := &b.Tasks[i]
	if t.Wide() { // no kernel reads float64
		return -1, 0
	}
	op := byOp[t.Op]
	var class Class
	var cost int
	var ok bool
	var e *shapeClass // of the task's shape; nil where the class depends on what an earlier round has returned
	if round > 1 && op.again != nil {
		next := b.Out[t.Next.Off : t.Next.Off+t.Next.Len]
		class, cost, ok = op.again(t, c.in[t.Params.Off:t.Params.Off+t.Params.Len], round, next)
	} else {
		// Most consecutive tasks have the same shape. Its fields are compared one by one: with a comparison of two shapes the plan of
		// 65,536 tasks takes half as long again.
		if u := c.last; u != nil && t.Op == u.Op && t.Dim == u.Dim && t.Fresh == u.Fresh && t.X.Len == u.X.Len && t.Bins.Len == u.Bins.Len &&
			t.Scores.Len == u.Scores.Len && t.Next.Len == u.Next.Len && t.Detail.Len == u.Detail.Len && t.Model.Len == u.Model.Len &&
			t.Params == u.Params {
			return c.found.class, c.found.cost
		}
		if op == nil || t.Model.Len > 0 && !op.models {
			return -1, 0
		}
		s := shape{t.Op, t.Dim, t.Fresh, t.X.Len, t.Bins.Len, t.Scores.Len, t.Next.Len, t.Detail.Len, t.Model.Len, t.Params}
		e = &c.shapes[(t.X.Len*7+t.Fresh*5+t.Params.Off*3+t.Bins.Len+uint32(t.Op))%uint32(len(c.shapes))]
		c.last, c.found = t, e
		if e.serial == c.serial && e.shape == s {
			return e.class, e.cost
		}
		e.shape, e.serial, e.class, e.cost = s, c.serial, -1, 0
		u, params := t, c.in[t.Params.Off:t.Params.Off+t.Params.Len]
		if ok = true; op.pointRows != nil {
			u, params, ok = op.kernelTask(t, params)
		}
		if ok {
			class, cost, ok = op.class(u, params)
		}
		if ok {
			c.points, c.models = c.points || op.pointRows != nil, c.models || t.Model.Len > 0
		}
	}
	if !ok || c.shared > 0 && int(class.Shared) > c.shared {
		return -1, 0
	}
	k, known := c.index[class]
	if !known {
		k = int32(len(c.list))
		c.list = append(c.list, class)
		c.index[class] = k
	}
	cost = max(cost, 1)
	if e != nil {
		e.class, e.cost = k, cost
	}
	return k, cost
}
