package plan

import "odradek/detectors"

// Run is what the kernel resident has of a detectors.Run: struct Run in
// resident.cu, three tiles long.
type Run struct {
	Ring      uint64
	Rows, Dim uint32
	First, X  uint32
	Fresh, N  uint32
	Next      uint32
	Flags     uint32
	_, _      uint32
}

const (
	RunTiles   = 3
	runsABlock = 4
	RunWindow  = 1
	RunLater   = 2
)

// launchRuns makes room for the runs in place of tiles, and the launch that makes
// the X of their tasks, before all others.
func (p *Planner) launchRuns() {
	n := (len(p.brought) + runsABlock - 1) / runsABlock * runsABlock
	for range n * RunTiles {
		p.tile(Tile{})
	}
	p.launchGrid(kernel("resident"), n/runsABlock, 32*runsABlock, 0)
}

// freshLen is how many values runs bring.
func (p *Planner) freshLen() (n int) {
	for i := range p.brought {
		n += int(p.brought[i].Rows.Len)
	}
	return n
}

// writeRuns writes the runs, and what they bring from element fresh of F32 on.
func (p *Planner) writeRuns(b *detectors.Batch, runs []Run, values []float64, fresh uint32) {
	n := uint32(0)
	for i := range p.brought {
		r, t := &p.brought[i], &b.Tasks[p.brought[i].Task]
		rows := t.X.Len / t.Dim
		runs[i] = Run{
			Ring: r.At, Rows: rows, Dim: t.Dim, First: r.First, X: t.X.Off - detectors.Away + p.away,
			Fresh: fresh + 2*n, N: r.Rows.Len / t.Dim, Next: r.Next, Flags: RunWindow,
		}
		if r.Later {
			runs[i].Flags |= RunLater
		}
		copy(values[n:], b.F64[r.Rows.Off:r.Rows.Off+r.Rows.Len])
		n += r.Rows.Len
	}
}

// Keeps reports whether devices keep the windows of such tasks.
func (p *Planner) Keeps(d detectors.Detector, dim, fresh int) bool {
	c, ok := ClassOf(d, dim, fresh)
	return ok && byOp[c.Op].keeps && (p.Shared == 0 || byOp[c.Op].shared(c) <= p.Shared)
}

// Brings is the number of windows that the plan of this round brings rows of.
func (p *Planner) Brings() int { return len(p.brought) }

// Feeds reports whether the plan has every task that reads one of those windows.
func (p *Planner) Feeds() bool {
	for i := range p.brought {
		if p.places[p.brought[i].Task] != onDevice {
			return false
		}
	}
	return true
}
