//go:build race

package detectors_test

// The definitions have no goroutines, and take ten times as long.
func init() { raced = []string{"definitions"} }
