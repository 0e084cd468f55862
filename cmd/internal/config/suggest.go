package config

import (
	"slices"
	"strings"

	"odradek/schemas"
)

// elsewhere has the prefixes of the ODRADEK_ names of tests and benchmarks.
var elsewhere = []string{Prefix + "REQUIRE", Prefix + "LONG", Prefix + "SKIP", Prefix + "TEST_", Prefix + "BENCH_"}

// unknownNames reports the unknown variables with Prefix, each with the nearest known name.
func unknownNames(given map[string]string, known map[string]bool, detectors []string) (faults []Fault) {
	for name := range given {
		if known[name] || slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		f := Fault{Name: name, Problem: "no such setting"}
		rest, isDetector := strings.CutPrefix(name, Prefix+"DETECTOR_")
		if near, d := Nearest(name, known); near != "" && d <= max(2, len(name)/5) {
			f.Fix = "did you mean " + near + "?"
		} else if isDetector {
			f.Problem = "no detector in " + Prefix + "DETECTORS has the name that this begins with"
			f.Fix = "add it to " + Prefix + "DETECTORS=" + strings.Join(detectors, ",") + " or remove " + name + " (" + rest + ")"
		} else {
			f.Fix = "see docs/configuration.md"
		}
		faults = append(faults, f)
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return faults
}

// Nearest returns the candidate with the least edit distance to name, in bytes that are
// inserted, deleted or replaced; of several the first in alphabetical order; "" without
// candidates.
func Nearest(name string, candidates map[string]bool) (best string, distance int) {
	for c := range candidates {
		d := schemas.EditDistance(name, c)
		if best == "" || d < distance || d == distance && c < best {
			best, distance = c, d
		}
	}
	return best, distance
}
