package executortest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"odradek/detectors"
)

// counted is the CPU's executor with counts as if a device had scored the tasks, except one in each
// `every`, which its kernels declined; 0: none.
type counted struct {
	detectors.Executor
	every           uint64
	tasks, declined atomic.Uint64
}

func (c *counted) Execute(ctx context.Context, b *detectors.Batch) error {
	for range b.Tasks {
		if n := c.tasks.Add(1); c.every > 0 && n%c.every == 0 {
			c.declined.Add(1)
		}
	}
	return c.Executor.Execute(ctx, b)
}

func (c *counted) Placed() Placed {
	d := c.declined.Load()
	return Placed{Device: c.tasks.Load() - d, Declined: d, CPU: d}
}

func (c *counted) Takes(detectors.Op) bool { return true }

const declines = "ODRADEK_TEST_DECLINES"

// TestOfDeclining runs the suite on an executor whose device takes everything, or declines as
// TestDecliningFails requests.
func TestOfDeclining(t *testing.T) {
	every := map[string]uint64{"all": 1, "some": 10}[os.Getenv(declines)]
	Run(t, func() detectors.Executor { return &counted{Executor: detectors.NewCPU(1), every: every} },
		"definitions", "mixed", "orders", "sizes", "concurrent", "cancelled")
}

// TestDecliningFails requires that the suite fails where a device leaves the work to the CPU, although
// all results are right.
func TestDecliningFails(t *testing.T) {
	for _, c := range []struct{ what, says string }{{"all", "the device scored none of"}, {"some", "where it has to score all"}} {
		t.Run(c.what, func(t *testing.T) {
			suite := exec.Command(os.Args[0], "-test.run=^TestOfDeclining$", "-test.v")
			suite.Env = append(os.Environ(), declines+"="+c.what)
			out, err := suite.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) {
				t.Errorf("the suite ends with %v and has to say %q\n%s", err, c.says, out)
			}
			for _, op := range detectors.Ops() {
				if !strings.Contains(string(out), "--- FAIL: TestOfDeclining/"+op.String()+" ") {
					t.Errorf("%v passes\n%s", op, out)
				}
			}
		})
	}
}
