package detectors_test

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
)

// raced are the parts of the suite that the race detector leaves out.
var raced []string

func TestCPU(t *testing.T) {
	t.Run("one core", func(t *testing.T) { executortest.Run(t, func() detectors.Executor { return detectors.NewCPU(1) }) })
	t.Run("four cores", func(t *testing.T) {
		executortest.Run(t, func() detectors.Executor { return detectors.NewCPU(4) }, raced...)
	})
}

func BenchmarkCPU(b *testing.B) {
	executortest.Bench(b, func() detectors.Executor { return detectors.NewCPU(1) })
}
