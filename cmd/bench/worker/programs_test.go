package worker

import (
	"context"
	"fmt"
	"os"
	"testing"

	"odradek/processor/kafkatest"
)

// runEnv has this test binary run RunChild, as the bench starts its own children.
const runEnv = "ODRADEK_TEST_RUN_BENCH"

func TestMain(m *testing.M) {
	if os.Getenv(runEnv) == "" {
		kafkatest.Main(m)
		return
	}
	if len(os.Args) < 2 || os.Args[1] != ChildArgument {
		fmt.Fprintln(os.Stderr, "arguments:", os.Args[1:])
		os.Exit(1)
	}
	if err := RunChild(context.Background(), os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

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
