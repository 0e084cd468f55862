package threshold

import "strconv"

// Published returns a threshold as it is published: the number with the fewest digits that is t as a float32. So fixed:2.8
// is 2.8 and not 2.7999999523. A score above t is above it, too.
func Published(t float32) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(t), 'g', -1, 32), 64)
	if err != nil {
		panic(err) // it was formatted
	}
	return v
}
