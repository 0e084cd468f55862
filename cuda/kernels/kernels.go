// Package kernels is the device's code: one .cu per op, built by go generate
// ./cuda into fatbins that are part of the worker and its child.
package kernels

// Names are the kernels; a Launch names one by its index.
var Names = []string{"ikasst8", "ikasst10", "ikasst13", "ikasst16", "ikasst20", "ikasst26", "ikasst32", "lof"}

// Version differs between builds that do not understand each other's launches.
func Version() uint64 { return 1 }
