package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/processor/metrics"
)

// This file makes the executor that the settings ask for: a GPU's, through its child program, or the CPU's.

// childProgram is the name of the GPU's child program, which is looked for beside
// the worker's own.
const childProgram = "odradek-cuda"

// newExecutor makes the executor of the setting ODRADEK_EXECUTOR; kind, cpu or cuda, names it in logs and metrics. With auto
// it is the CPU's where no GPU can be used, and the log has the reason.
func newExecutor(c *config.Config, log *slog.Logger) (exec detectors.Executor, kind string, err error) {
	n := c.Fetch.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	cpu := func() (detectors.Executor, string, error) { return detectors.NewCPU(n), "cpu", nil }
	if c.Fetch.Executor == "cpu" {
		return cpu()
	}
	gpu, err := openGPU(c, log)
	switch {
	case err == nil:
		for _, d := range gpu.Stats().Devices {
			log.Info("scoring on a GPU", "device", d.Index, "name", d.Name, "memory", config.ByteSize(d.Memory), "SMs", d.SMs)
		}
		return gpu, "cuda", nil
	case c.Fetch.Executor == "cuda":
		return nil, "", fmt.Errorf("worker: %sEXECUTOR=cuda: %w; use auto or cpu to score without a GPU", config.Prefix, err)
	}
	log.Info("scoring on the CPU: there is no GPU to use", "why", err)
	return cpu()
}

// openGPU starts the child program.
func openGPU(c *config.Config, log *slog.Logger) (*cuda.Executor, error) {
	g := &c.GPU
	o := cuda.Options{Child: g.Child, Workers: c.Fetch.Workers, Deadline: g.Deadline, Memory: int64(g.Memory),
		Wait: g.Fallback == "wait", Log: log}
	if o.Child == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		o.Child = filepath.Join(filepath.Dir(self), childProgram)
	}
	if _, err := os.Stat(o.Child); err != nil {
		if g.Child != "" {
			return nil, fmt.Errorf("%sCUDA_CHILD: %w", config.Prefix, err)
		}
		return nil, fmt.Errorf("no program %s (set %sCUDA_CHILD to its path)", o.Child, config.Prefix)
	}
	for _, d := range g.Devices {
		i, err := strconv.Atoi(d)
		if err != nil {
			return nil, fmt.Errorf("%sCUDA_DEVICES: %w", config.Prefix, err)
		}
		o.Devices = append(o.Devices, i)
	}
	return cuda.Open(o)
}

// watchExecutor has the metrics read the counts of an executor on GPUs; for the CPU's it does nothing.
func watchExecutor(m *metrics.Metrics, exec detectors.Executor) {
	gpu, ok := exec.(*cuda.Executor)
	if !ok {
		return
	}
	m.WatchExecutor(func() metrics.ExecutorStats {
		s := gpu.Stats()
		out := metrics.ExecutorStats{
			Kind: "cuda", Fallback: s.Fallback(), CPUBatches: s.CPUBatches, CPUTasks: s.CPUTasks,
			Lost: s.Lost, Refused: s.Refused, Declined: s.Declined, Shared: s.Shared,
		}
		for _, d := range s.Devices {
			out.Devices = append(out.Devices, metrics.DeviceStats{
				Device: strconv.Itoa(d.Index), Name: d.Name, Up: d.Up, NextTry: d.NextTry, Starts: d.Starts, Faults: d.Faults, Batches: d.Batches,
				Tasks: d.Tasks, Busy: d.Busy,
			})
		}
		return out
	})
}

// gpusOf returns a function that lists an executor's GPUs for the page; nil for the executor on the CPU.
func gpusOf(exec detectors.Executor) func() []page.GPU {
	gpu, ok := exec.(*cuda.Executor)
	if !ok {
		return nil
	}
	return func() []page.GPU {
		list := []page.GPU{}
		for _, d := range gpu.Stats().Devices {
			list = append(list, page.GPU{Index: d.Index, Name: d.Name, Up: d.Up})
		}
		return list
	}
}

// checkExecutor adds to the report of check which executor run would use, or why it could not use the configured one.
func checkExecutor(r *admin.Report, c *config.Config) {
	what := config.Prefix + "EXECUTOR"
	if c.Fetch.Executor == "cpu" {
		r.OK(what, "the CPU")
		return
	}
	gpu, err := openGPU(c, slog.New(slog.DiscardHandler))
	switch {
	case err == nil:
		var names []string
		for _, d := range gpu.Stats().Devices {
			names = append(names, fmt.Sprintf("device %d, %s, %d MiB, %d SMs, compute capability %d.%d", d.Index, d.Name, d.Memory>>20, d.SMs,
				d.Capability/10, d.Capability%10))
		}
		err = gpu.Close()
		r.OK(what, "%s", strings.Join(names, "; "))
		if err != nil {
			r.Warn(what, err.Error(), "")
		}
	case c.Fetch.Executor == "cuda":
		r.Fault(what, err.Error(), "use auto or cpu to score without a GPU")
	default:
		r.OK(what, "the CPU, because no GPU can be used: %v", err)
	}
}
