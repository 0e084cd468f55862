package fleet

import (
	"testing"

	"odradek/processor/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// workerBinary returns the worker, as `make build` makes it.
func workerBinary(t *testing.T) string {
	return kafkatest.GoProgram(t, "../../..", "worker", "build", "./cmd/worker")
}

// goChildProgram returns a child of the GPU that speaks the protocol and scores on the
// CPU: the test binary of package cuda.
func goChildProgram(t *testing.T) string {
	t.Helper()
	t.Setenv("ODRADEK_TEST_CUDA_CHILD", "1")
	return kafkatest.GoProgram(t, "../../..", "gochild", "test", "-c", "./cuda")
}
