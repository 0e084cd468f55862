package main

import (
	"fmt"
	"math/rand/v2"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// allShapes are opShapes and, of the ops with a kernel that have none there, the cases
// that are benchmarks.
func allShapes() []opShape {
	shapes := opShapes[:len(opShapes):len(opShapes)]
	for _, op := range detectors.Ops() {
		if plan.Has(op) && !hasShape(op) {
			shapes = append(shapes, caseShapes(op)...)
		}
	}
	return shapes
}

func hasShape(op detectors.Op) bool {
	for i := range opShapes {
		if d, err := opShapes[i].det(); err == nil && d.Op() == op {
			return true
		}
	}
	return false
}

// caseShapes are the op's cases with Case.Bench: the last task of each, as many times as
// have a million rows to score, without a target.
func caseShapes(op detectors.Op) []opShape {
	var shapes []opShape
	for _, c := range op.Spec().Cases(rand.New(rand.NewPCG(7, 8))) {
		if !c.Bench {
			continue
		}
		fresh := c.Fresh[len(c.Fresh)-1]
		rows := c.Detector.Window() + fresh - 1
		shapes = append(shapes, opShape{
			name: fmt.Sprintf("%v %s", op, c.Name), unit: "scores/s", dim: c.Dim, fresh: fresh,
			tasks: max(1, min(1<<16, 1<<28/(rows*c.Dim*(fresh+16)))),
			det:   func() (detectors.Detector, error) { return c.Detector, nil },
			floor: func() work { return work{by: "its input"} },
		})
	}
	return shapes
}
