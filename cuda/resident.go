package cuda

import (
	"math"

	"odradek/detectors"
)

// run is what the kernel resident has of a detectors.Run: struct Run in
// resident.cu, three tiles long.
type run struct {
	ring      uint64
	rows, dim uint32
	first, x  uint32
	fresh, n  uint32
	next      uint32
	flags     uint32
	_, _      uint32
}

const (
	runTiles   = 3
	runsABlock = 4
	runWindow  = 1
	runLater   = 2
)

// launchRuns makes room for the runs in place of tiles, and the launch that makes
// the X of their tasks, before all others.
func (p *planner) launchRuns() {
	n := (len(p.brought) + runsABlock - 1) / runsABlock * runsABlock
	for range n * runTiles {
		p.tile(Tile{})
	}
	p.launchGrid(kernel("resident"), n/runsABlock, 32*runsABlock, 0)
}

// freshLen is how many values runs bring.
func (p *planner) freshLen() (n int) {
	for i := range p.brought {
		n += int(p.brought[i].Rows.Len)
	}
	return n
}

// writeRuns writes the runs, and what they bring from element fresh of F32 on.
func (p *planner) writeRuns(b *detectors.Batch, runs []run, values []float64, fresh uint32) {
	n := uint32(0)
	for i := range p.brought {
		r, t := &p.brought[i], &b.Tasks[p.brought[i].Task]
		rows := t.X.Len / t.Dim
		runs[i] = run{
			ring: r.At, rows: rows, dim: t.Dim, first: r.First, x: t.X.Off - detectors.Away + p.away,
			fresh: fresh + 2*n, n: r.Rows.Len / t.Dim, next: r.Next, flags: runWindow,
		}
		if r.Later {
			runs[i].flags |= runLater
		}
		copy(values[n:], b.F64[r.Rows.Off:r.Rows.Off+r.Rows.Len])
		n += r.Rows.Len
	}
}

// keeps reports whether devices keep the windows of such tasks.
func (p *planner) keeps(d detectors.Detector, dim, fresh int) bool {
	op := byOp[d.Op()]
	if op == nil || !op.keeps {
		return false
	}
	rows := d.Window() + fresh - 1
	scores, carry, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	if !ok || rows*dim > math.MaxInt32 {
		return false
	}
	t := detectors.Task{
		Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh), X: detectors.Span{Len: uint32(rows * dim)},
		Scores: detectors.Span{Len: uint32(scores)}, Next: detectors.Span{Len: uint32(carry)},
	}
	c, _, ok := op.class(&t, d.Params())
	return ok && (p.shared == 0 || op.shared(c) <= p.shared)
}
