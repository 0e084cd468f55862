package threshold

import "math"

// severity is 100/6 for each decade of the rank: 50 for one score in a thousand, 100
// for one in a million.
func severity(tail float32) uint8 {
	if tail >= 1 {
		return 0
	}
	return uint8(min(100, 0.5-math.Log(float64(tail))*(100/(6*math.Ln10))))
}

// The lower ends of the bands: a rank of 1e-3, 1e-4 and 1e-5.
const (
	minor    = 50
	major    = 67
	critical = 83
)

// Band is the name of a severity: info, minor (once in a thousand scores), major (in
// ten thousand), critical (in a hundred thousand).
func Band(severity uint8) string {
	switch {
	case severity >= critical:
		return "critical"
	case severity >= major:
		return "major"
	case severity >= minor:
		return "minor"
	}
	return "info"
}
