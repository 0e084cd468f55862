package main

import (
	"bytes"
	"os"
	"testing"

	"odradek/processor/kafkatest"
)

// runEnv has this test binary run main, as startDemo starts it.
const runEnv = "ODRADEK_TEST_RUN_DEMO"

func TestMain(m *testing.M) {
	if os.Getenv(runEnv) != "" {
		main()
		return
	}
	kafkatest.Main(m)
}

// demoProcessCount is the number of workers of all streams.
const demoProcessCount = demoWorkers + 2

// workerBinary returns the worker, as \`make build\` makes it.
func workerBinary(t *testing.T) string {
	return kafkatest.GoProgram(t, "../..", "worker", "build", "./cmd/worker")
}

// goChildProgram returns a child of the GPU that speaks the protocol and scores on the
// CPU: the test binary of package cuda.
func goChildProgram(t *testing.T) string {
	t.Helper()
	t.Setenv("ODRADEK_TEST_CUDA_CHILD", "1")
	return kafkatest.GoProgram(t, "../..", "gochild", "test", "-c", "./cuda")
}

// console returns a terminal whose output is kept.
func console(environ ...string) (t terminal, out, err *bytes.Buffer) {
	out, err = new(bytes.Buffer), new(bytes.Buffer)
	return terminal{out, err, environ}, out, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
