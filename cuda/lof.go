package cuda

import "odradek/detectors"

var lofPlan = opPlan{
	class: func(t *detectors.Task, params []float32) (Class, int, bool) {
		n := int(t.X.Len / t.Dim)
		return Class{Op: detectors.LOF}, n * 10, n <= 4096
	},
	launches: func(c Class, p *planner, chains []chain) {
		for _, c := range chains {
			p.tile(Tile{First: c.first, Count: c.count, Scratch: p.scratch(1)})
		}
		p.launch(kernel("lof"), 128, 0)
	},
}
