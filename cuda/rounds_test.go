//go:build linux

package cuda

import (
	"fmt"
	"testing"
	"time"

	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// roundsOn returns the options of an executor on a Go child whose tasks take the given number of
// rounds.
func roundsOn(t testing.TB, fault string, more int) Options {
	o := goChildOptions(t, fault)
	o.Env = append(o.Env, fmt.Sprint(childMore, "=", more))
	return o
}

// TestRounds requires that tasks that request more rounds have them with their Next as carry, planned
// by the executor or repeated by the child, and go to the CPU after the last; that the scores are the
// same, and that a task is counted once.
func TestRounds(t *testing.T) {
	const keys, runs = 30, 2
	for _, c := range []struct {
		name                      string
		more, rounds              int
		repeats                   bool
		batches, declined, passed uint64 // of an Execute
	}{
		{"by the executor", 5, 5, false, 5, 0, keys},
		{"by the child", 5, 5, true, 1, 0, keys},
		{"past the bound", 5, 4, false, 4, keys, keys},
		{"past the child's bound", 5, 4, true, 1, keys, keys},
		{"no rounds at all", 5, 0, false, 1, keys, keys},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer plan.SetRounds(sst.OpIKA, c.rounds, c.repeats)()
			e := open(t, roundsOn(t, "", c.more))
			defer e.Close()
			newLoad(t, seedtest.New(t), keys, 1).run(t, e, runs)
			s := e.Stats()
			noFault(t, s)
			if d := s.Devices[0]; d.Batches != runs*c.batches || d.Tasks != runs*c.passed || s.Declined != runs*c.declined ||
				s.CPUTasks != runs*c.declined || s.CPUBatches != 0 {
				t.Errorf("%+v, want %d requests with %d tasks and %d declined", s, runs*c.batches, runs*c.passed, runs*c.declined)
			}
		})
	}
	t.Run("lost in the third round", func(t *testing.T) {
		defer plan.SetRounds(sst.OpIKA, 5, false)()
		o := roundsOn(t, "die@3", 5)
		o.Devices = indices(2)
		e := open(t, o)
		defer e.Close()
		newLoad(t, seedtest.New(t), keys, 1).run(t, e, runs)
		if s := e.Stats(); s.Lost != 1 || s.Declined != 0 || s.CPUTasks != 0 {
			t.Errorf("%+v, want a batch lost and none on the CPU", s)
		}
	})
	t.Run("split", func(t *testing.T) {
		splitAlways(t)
		defer plan.SetRounds(sst.OpIKA, 5, false)()
		o := roundsOn(t, "", 5)
		o.Devices = indices(2)
		e := open(t, o)
		defer e.Close()
		newLoad(t, seedtest.New(t), keys, 1).run(t, e, runs)
		s := e.Stats()
		noFault(t, s)
		if s.Declined != 0 || s.CPUTasks != 0 || s.Devices[1].Batches != 5*runs {
			t.Errorf("%+v", s)
		}
	})
}

// The rounds of BenchmarkRounds: the number of lengths from 16 to 640.
const manyRounds = 625

// TestRoundsCost requires that the rounds that the child repeats are one request.
func TestRoundsCost(t *testing.T) {
	requests := func(repeats bool) uint64 {
		defer plan.SetRounds(sst.OpIKA, manyRounds, repeats)()
		e := open(t, roundsOn(t, "", manyRounds))
		defer e.Close()
		l := newLoad(t, seedtest.New(t), 1, 1)
		began := time.Now()
		l.run(t, e, 1)
		t.Logf("%d rounds take %v", manyRounds, time.Since(began))
		return e.Stats().Devices[0].Batches
	}
	if byChild, byExecutor := requests(true), requests(false); byChild != 1 || byExecutor != manyRounds {
		t.Errorf("%d rounds are %d requests by the child, %d by the executor", manyRounds, byChild, byExecutor)
	}
}

// TestDeviceRounds has a device repeat a launch for as long as its task requests more, with scratch
// memory that is zero each time.
func TestDeviceRounds(t *testing.T) {
	o := deviceOptions(t)
	o.Args = []string{"-faults"}
	e := open(t, o)
	defer e.Close()
	e.memories.mu.Lock()
	m, err := e.memories.allocate(smallest)
	e.memories.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	const in, tasks, tiles, launches, zeroes, end = 0, 256, 512, 768, 1024, 1280
	words := func(at, n int) []uint32 { return plan.View[uint32](m.Bytes, at, n) }
	words(in, 1)[0] = manyRounds
	plan.View[plan.Task](m.Bytes, tasks, 1)[0] = plan.Task{Params: detectors.Span{Len: 1}, Next: detectors.Span{Len: 2}}
	copy(plan.View[plan.Tile](m.Bytes, tiles, 1), []plan.Tile{{Count: 1}})
	copy(plan.View[plan.Launch](m.Bytes, launches, 1),
		[]plan.Launch{{Kernel: uint32(len(plan.Kernels())), Grid: 1, Block: 32, Tiles: 1, Tasks: 1}})
	copy(plan.View[plan.Zeroed](m.Bytes, zeroes, 1), []plan.Zeroed{{Count: 1}})
	out := uint64(m.Out)
	execute := func(rounds uint32) (status uint32, next []uint32, took time.Duration) {
		q := plan.Request{
			Batch: m.ID, Launches: 1, InBytes: end, TasksOff: tasks, TilesOff: tiles, LaunchesOff: launches, OutOff: out, OutBytes: 260,
			StatusOff: out + 256, Tasks: 1, ScratchBytes: 256, InTo: tasks, OutFrom: out, OutTo: out + 256, CopyOut: true,
			Rounds: rounds, Zeroes: 1, ZeroesOff: zeroes,
		}
		began := time.Now()
		d := e.devices[0]
		statusWords, refused, err := d.Execute(t.Context(), d.Serving(), &m.Memory, &q, 0)
		if refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		return statusWords[0], words(m.Out, 2), time.Since(began)
	}
	for _, c := range []struct{ most, status, rounds uint32 }{
		{manyRounds + 9, plan.StatusDone, manyRounds}, {manyRounds, plan.StatusDone, manyRounds}, {100, plan.StatusMore, 100},
		{1, plan.StatusMore, 1}, {2, plan.StatusMore, 2}, {7, plan.StatusMore, 7},
	} {
		if status, next, _ := execute(c.most); status != c.status || next[0] != c.rounds || next[1] != 0 {
			t.Errorf("%d rounds at most: status %d after %d, scratch %d; want %d after %d, 0", c.most, status, next[0], next[1], c.status, c.rounds)
		}
	}
	best, requests := time.Hour, time.Duration(0)
	for range 5 {
		_, _, took := execute(manyRounds)
		best = min(best, took)
	}
	for range manyRounds {
		_, _, took := execute(1)
		requests += took
	}
	t.Logf("%d rounds take %v in the child, %v as requests", manyRounds, best, requests)
	if best > requests/2 {
		t.Errorf("%d rounds take %v in the child, %v as requests", manyRounds, best, requests)
	}
}
