package plan

import "odradek/detectors"

var toyPlan = opPlan{
	kernels: []string{"toy"},
	class: func(t *detectors.Task, _ []float32) (Class, int, bool) {
		return Class{Op: detectors.Toy}, int(10 * t.Fresh * t.Dim), true
	},
	shared: func(Class) int { return 0 },
	launches: func(_ Class, p *Planner, chains []chain) {
		for _, c := range chains {
			p.tile(Tile{First: c.first, Count: c.count})
		}
		p.launch(kernel("toy"), 32, 0)
	},
}
