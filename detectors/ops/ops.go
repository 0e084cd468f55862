// Package ops is the list of all ops: a program that imports it has them in the table of
// package detectors. Each op is a package below this one, which adapts a method to the
// contract and registers its Spec.
package ops

import (
	// Ops without shapes.
	_ "odradek/detectors/ops/flatline"
	_ "odradek/detectors/ops/season"
	_ "odradek/detectors/ops/solvingset"
	_ "odradek/detectors/ops/value"
	_ "odradek/detectors/ops/zscore"

	"odradek/detectors"
	"odradek/detectors/ops/ar"
	"odradek/detectors/ops/discord"
	"odradek/detectors/ops/discords"
	"odradek/detectors/ops/ikasst"
	"odradek/detectors/ops/knn"
	"odradek/detectors/ops/lof"
	"odradek/detectors/ops/scan"
	"odradek/detectors/ops/svdsst"
	"odradek/detectors/ops/topn"
)

// shapes are functions, so that the linker leaves them out of programs without benchmarks.
var shapes = map[detectors.Op]func() []detectors.Shape{
	ikasst.Op:   ikasst.Shapes,
	lof.Op:      lof.Shapes,
	knn.Op:      knn.Shapes,
	svdsst.Op:   svdsst.Shapes,
	discords.Op: discords.Shapes,
	discord.Op:  discord.Shapes,
	scan.Op:     scan.Shapes,
	topn.Op:     topn.Shapes,
	ar.Op:       ar.Shapes,
}

// Shapes returns the shapes that benchmarks measure of an op on a device. For an op without
// any they take its cases with Bench.
func Shapes(op detectors.Op) []detectors.Shape {
	if f := shapes[op]; f != nil {
		return f()
	}
	return nil
}
