package plan

import (
	"math"

	"odradek/detectors"
)

// The functions of this file are for tests alone: tests of package cuda have no other way to a class or to the plan of
// an op.

// Sources returns the names of the kernels' files in package kernels, without .cu. Unlike kernels.Source it knows the files of an op
// for which nothing has been generated yet, as the emulated kernels of a new op need.
func Sources() (list []string) {
	for _, p := range plans {
		list = append(list, p.op.String())
	}
	return append(list, normaliseKernel)
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

// SetRounds sets the number of rounds that a task of an op may have, and whether the child process may repeat them by itself,
// until undo is called. Tests alone call it, without a batch in flight.
func SetRounds(op detectors.Op, rounds int, repeats bool) (undo func()) {
	return set(op, func(p *opPlan) { p.rounds, p.repeats = rounds, repeats })
}

// SetModels declares that an op's kernels read models, until undo is called. Tests alone call it, without a batch in flight.
func SetModels(op detectors.Op) (undo func()) {
	return set(op, func(p *opPlan) { p.models = true })
}

// SetKernel sends all tasks of an op to one kernel, one block for each chain, until undo is called. The kernel is one of
// package kernels' Tests, by index, and reads models. Tests alone call it, without a batch in flight.
func SetKernel(op detectors.Op, test int) (undo func()) {
	return set(op, func(p *opPlan) {
		*p = opPlan{
			class: func(t *detectors.Task, _ detectors.Words) (Class, int, bool) { return Class{Op: t.Op}, 1, true },
			launches: func(_ Class, p *builder, chains []chain) {
				for _, c := range chains {
					p.tiles = append(p.tiles, Tile{First: c.first, Count: c.count})
				}
				p.launch(names[0], blockATile, 32, 0)
				p.launches[len(p.launches)-1].Kernel = uint32(len(names) + test)
			},
			models: true,
		}
	})
}

func set(op detectors.Op, change func(p *opPlan)) (undo func()) {
	old := byOp[op]
	p := *old
	change(&p)
	byOp[op] = &p
	return func() { byOp[op] = old }
}
