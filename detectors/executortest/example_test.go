package executortest_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"odradek/detectors"
	"odradek/detectors/executortest"
)

// skewed is an executor whose scores are 1 % too high.
type skewed struct{ detectors.Executor }

func (s skewed) Execute(ctx context.Context, b *detectors.Batch) error {
	err := s.Executor.Execute(ctx, b)
	for i := range b.Tasks {
		for k, score := range b.Rows(i).Scores {
			b.Rows(i).Scores[k] = 1.01 * score
		}
	}
	return err
}

// During work on an op, check one executor with it alone. A test of an executor calls Run, which checks
// every op and more.
func ExampleCheckOp() {
	cpu := detectors.NewCPU(1)
	defer cpu.Close()
	op, _ := detectors.OpByName("zscore")

	err := executortest.CheckOp(cpu, op, rand.New(rand.NewPCG(1, 2)))
	fmt.Println("the CPU executor conforms:", err == nil)

	err = executortest.CheckOp(skewed{cpu}, op, rand.New(rand.NewPCG(1, 2)))
	fmt.Println("one that is 1 % off conforms:", err == nil)

	// Output:
	// the CPU executor conforms: true
	// one that is 1 % off conforms: false
}
