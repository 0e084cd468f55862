package scan

import (
	"slices"

	"odradek/detectors"
)

// Divides reports whether several devices can divide the work on a grid: the null maps, or, for one region without
// a p-value, the rectangles. Each further region depends on those before.
func Divides(top, replicates int) bool { return replicates > 0 || top == 1 }

// Merge returns the result of a grid from the results of the devices that divided its work. With null maps, each device has
// all regions and, in place of a p-value, the number of its null maps whose ratio reaches the region's (int64).
// Without, each has the best of its rectangles.
func Merge(params detectors.Words, portions []detectors.Result) detectors.Result {
	merged := portions[0]
	replicates := NullMaps(params)
	if replicates == 0 {
		for _, o := range portions[1:] {
			if a, b := first(o), first(merged); b == nil || a != nil && a.Beats(b) {
				merged = o
			}
		}
		return merged
	}
	for i, w := range slices.Collect(slices.Chunk(merged.Detail, words)) {
		if w[0] == detectors.NoRow {
			break
		}
		reached := int64(1)
		for _, o := range portions {
			reached += o.Detail[i*words:][:words].Int64(pAt)
		}
		w.SetFloat64(pAt, float64(reached)/float64(replicates+1))
	}
	return merged
}

// first returns the first region of a result, or nil.
func first(r detectors.Result) *Region {
	found := foundRegions(&detectors.Rows{Detail: r.Detail})
	if len(found) == 0 {
		return nil
	}
	return &found[0].region
}
