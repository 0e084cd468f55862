package plan

import "odradek/detectors"

var toyPlan = opPlan{
	kernels: []string{"toy"},
	class: func(t *detectors.Task, _ detectors.Words) (Class, int, bool) {
		return Class{Op: detectors.Toy}, int(10 * t.Fresh * t.Dim), true
	},
	shared: func(Class) int { return 0 },
	rounds: 4, repeats: true, // 16 rows each
	launches: func(_ Class, p *Planner, chains []chain) {
		for _, c := range chains {
			p.tile(Tile{First: c.first, Count: c.count, Scratch: p.zeroed(4)})
		}
		p.launch(kernel("toy"), 32, 0)
	},
}
