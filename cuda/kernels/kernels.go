// Package kernels is the device's code: one .cu per op, built by go generate
// ./cuda into fatbins that are part of odradek-cuda (cuda/device).
package kernels

import (
	"embed"
	"fmt"
	"hash/fnv"
	"strings"
)

// Names are the kernels; a Launch names one by its index. A kernel is in the .cu
// whose name its own begins with.
var Names = []string{
	"ikasst8", "ikasst10", "ikasst13", "ikasst16", "ikasst20", "ikasst26", "ikasst32", "lof_density",
	"lof_load", "lof_score", "lof_search", "lof_search_8", "lof_virtual", "lof_window", "lof_window_1",
	"lof_window_2", "lof_window_4", "lof_window_8", "knn_before", "knn_finish", "knn_load", "knn_peaks",
	"knn_scan_2", "knn_scan_4", "knn_scan_6", "knn_scan_8", "knn_scan_10", "knn_scan_16", "knn_scan_32", "knn_scan_64",
	"knn_window", "knn_window_2", "knn_window_4", "knn_window_8",
	"svdsst2", "svdsst4", "svdsst7", "svdsst10", "svdsst13", "svdsst16",
	"window_cache",
}

// layout changes with task.h and the protocol of parent and child.
const layout = 2

//go:embed *.fatbin
var fatbins embed.FS

// Fatbin is the code that was built of NAME.cu: for several architectures, and as
// PTX for those to come.
func Fatbin(name string) (string, error) {
	b, err := fatbins.ReadFile(name + ".fatbin")
	if err != nil {
		return "", fmt.Errorf("kernels: no %s.fatbin; go generate ./cuda", name)
	}
	return string(b), nil
}

// Source is the name of the .cu that has the kernel, without the ending; "" for
// none.
func Source(kernel string) (source string) {
	files, _ := fatbins.ReadDir(".") // of what was embedded: it cannot fail
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".fatbin")
		if strings.HasPrefix(kernel, name) && len(name) > len(source) {
			source = name
		}
	}
	return source
}

// Version differs between builds that do not understand each other's launches.
func Version() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, layout, Names)
	return h.Sum64()
}
