// Package kernels is the device's code: one .cu per op, built by go generate
// ./cuda into fatbins that are part of the worker and its child.
package kernels

// Names are the kernels; a Launch names one by its index.
var Names = []string{"ikasst", "lof_density", "lof_load", "lof_score", "lof_search", "lof_search_8", "lof_virtual", "lof_window", "lof_window_1", "lof_window_2", "lof_window_4", "lof_window_8"}

// Version differs between builds that do not understand each other's launches.
func Version() uint64 { return 1 }
