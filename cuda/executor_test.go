//go:build linux

package cuda

import (
	"log/slog"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
)

// testLog writes to the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func open(t testing.TB, o Options) *Executor {
	t.Helper()
	if o.Log == nil {
		o.Log = testLog(t)
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// checked is an executor whose Close says what went wrong.
type checked struct {
	*Executor
	t     testing.TB
	check func(testing.TB, Stats)
}

func (c checked) Close() error {
	s := c.Stats()
	err := c.Executor.Close()
	c.check(c.t, s)
	return err
}

func noFault(t testing.TB, s Stats) {
	for _, d := range s.Devices {
		if d.Faults > 0 {
			t.Errorf("device %d had %d faults, the last: %s", d.Index, d.Faults, d.LastFault)
		}
	}
	if s.Lost > 0 || s.Refused > 0 {
		t.Errorf("%d batches lost, %d refused", s.Lost, s.Refused)
	}
}

func TestConformance(t *testing.T) {
	var tasks, declined uint64
	for _, fault := range []string{"", "flag"} {
		t.Run("fault="+fault, func(t *testing.T) {
			executortest.Run(t, func() detectors.Executor {
				return checked{open(t, goChildOptions(t, fault)), t, func(t testing.TB, s Stats) {
					noFault(t, s)
					tasks += s.Devices[0].Tasks
					declined += s.Declined
				}}
			})
		})
	}
	if tasks == 0 || declined == 0 {
		t.Errorf("%d tasks were on the device, %d were declined", tasks, declined)
	}
}
