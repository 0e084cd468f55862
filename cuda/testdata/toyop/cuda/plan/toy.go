package plan

import (
	"odradek/detectors"
	"odradek/detectors/ops/toy"
)

var toyPlan = opPlan{
	op:      toy.Op,
	kernels: []string{"toy"},
	class: func(t *detectors.Task, _ detectors.Words) (Class, int, bool) {
		return Class{Op: toy.Op}, int(10 * t.Fresh * t.Dim), true
	},
	rounds: 4, repeats: true, // 16 rows each
	launches: func(_ Class, p *builder, chains []chain) {
		for _, c := range chains {
			p.tiles = append(p.tiles, Tile{First: c.first, Count: c.count, Scratch: p.zeroed(4)})
		}
		p.launch("toy", blockATile, 32, 0)
	},
}
