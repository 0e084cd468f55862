// Package ops is the list of all ops: a program that imports it has them in the table of
// package detectors. The package of a method (detectors/lof, detectors/knn, ...) has its ops in files op_NAME.go, which
// register their Specs.
package ops

import (
	// Ops without shapes.
	_ "odradek/detectors/joint"
	_ "odradek/detectors/knn"
	_ "odradek/detectors/season"
	_ "odradek/detectors/simple"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/discord"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/scan"
	"odradek/detectors/sst"
)

// shapes are functions, so that the linker leaves them out of programs without benchmarks.
var shapes = map[detectors.Op]func() []detectors.Shape{
	sst.OpIKA:     sst.IKAShapes,
	lof.Op:        lof.Shapes,
	knn.Op:        knn.Shapes,
	sst.OpSVD:     sst.SVDShapes,
	discord.OpTop: discord.TopShapes,
	discord.Op:    discord.Shapes,
	scan.Op:       scan.Shapes,
	knn.OpTopN:    knn.TopNShapes,
	ar.Op:         ar.Shapes,
}

// Shapes returns the shapes that benchmarks measure of an op on a device. For an op without
// any they take its cases with Bench.
func Shapes(op detectors.Op) []detectors.Shape {
	if f := shapes[op]; f != nil {
		return f()
	}
	return nil
}
