// Package kernels is the device's code: one .cu per op, built by go generate
// ./cuda into fatbins that are part of the worker and its child.
package kernels

// Names are the kernels; a Launch names one by its index.
var Names = []string{"ikasst", "lof"}
