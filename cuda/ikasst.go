package cuda

import "odradek/detectors"

var ikasstPlan = opPlan{
	class: func(t *detectors.Task, params []float32) (Class, int, bool) {
		w := int(params[0])
		return Class{Op: detectors.IKASST, A: uint32(w)}, int(t.Dim*t.Fresh) * w, w <= 1024
	},
	launches: func(c Class, p *planner, chains []chain) {
		for _, c := range chains {
			p.tile(Tile{First: c.first, Count: c.count})
		}
		p.launch(0, 128, 0)
	},
}
