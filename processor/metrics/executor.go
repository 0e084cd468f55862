package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ExecutorStats are what an executor with devices of its own has counted.
type ExecutorStats struct {
	Kind                    string // of the devices: cuda
	Fallback                bool   // a device is out of service
	CPUBatches, CPUTasks    uint64
	Lost, Refused, Declined uint64 // batches, batches, tasks
	Shared                  int64  // bytes
	Devices                 []DeviceStats
}

// DeviceStats are one device's.
type DeviceStats struct {
	Device, Name                   string
	Up                             bool
	NextTry                        time.Time // where it is not up
	Starts, Faults, Batches, Tasks uint64
	Busy                           time.Duration
}

// WatchExecutor takes an executor's counters from stats at each scrape.
func (m *Metrics) WatchExecutor(stats func() ExecutorStats) {
	m.mu.Lock()
	m.executor = stats
	m.mu.Unlock()
}

func executorDesc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	executorDescs = append(executorDescs, d)
	return d
}

var executorDescs []*prometheus.Desc

var (
	fallbackDesc = executorDesc("executor_fallback", "1 while a GPU is out of service, so that others or the CPU score its batches.")
	batchesDesc  = executorDesc("executor_batches_total", "Batches by the executor that scored them.", "executor")
	byTasksDesc  = executorDesc("executor_scored_tasks_total", "Tasks by the executor that scored them.", "executor")
	gpuInfoDesc  = executorDesc("gpu_info", "1 for each GPU in use.", "device", "name")
	gpuUpDesc    = executorDesc("gpu_up", "1 while the GPU is in service.", "device")
	gpuRetryDesc = executorDesc("gpu_next_try_seconds",
		"Seconds until a GPU that is out of service is tried again; 0 while it is tried, and while it is up.", "device")
	gpuBusyDesc   = executorDesc("gpu_busy_seconds_total", "Time of batches on the GPU, copies included.", "device")
	gpuFaultsDesc = executorDesc("gpu_faults_total", "Children that died, answered with an error or overran a deadline.", "device")
	gpuStartsDesc = executorDesc("gpu_restarts_total", "Starts of a child after the first.", "device")
	lostDesc      = executorDesc("gpu_lost_batches_total", "Batches that were on a GPU when it failed, and were scored elsewhere.")
	refusedDesc   = executorDesc("gpu_refused_batches_total", "Batches that found no room on the GPU, and were scored on the CPU.")
	declinedDesc  = executorDesc("gpu_declined_tasks_total", "Tasks that a kernel left to the CPU.")
	sharedDesc    = executorDesc("gpu_shared_bytes", "Memory shared with GPUs, locked in RAM.")
)

func (s *ExecutorStats) collect(ch chan<- prometheus.Metric) {
	metric := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		metric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v bool, labels ...string) {
		n := 0.0
		if v {
			n = 1
		}
		metric(d, prometheus.GaugeValue, n, labels...)
	}
	batches, tasks := uint64(0), uint64(0)
	for i := range s.Devices {
		d := &s.Devices[i]
		batches, tasks = batches+d.Batches, tasks+d.Tasks
		gauge(gpuInfoDesc, true, d.Device, d.Name)
		gauge(gpuUpDesc, d.Up, d.Device)
		wait := 0.0
		if !d.Up {
			wait = max(0, time.Until(d.NextTry).Seconds())
		}
		metric(gpuRetryDesc, prometheus.GaugeValue, wait, d.Device)
		metric(gpuBusyDesc, prometheus.CounterValue, d.Busy.Seconds(), d.Device)
		count(gpuFaultsDesc, d.Faults, d.Device)
		count(gpuStartsDesc, max(d.Starts, 1)-1, d.Device)
	}
	gauge(fallbackDesc, s.Fallback)
	count(batchesDesc, batches, s.Kind)
	count(batchesDesc, s.CPUBatches, "cpu")
	count(byTasksDesc, tasks-min(tasks, s.Declined), s.Kind)
	count(byTasksDesc, s.CPUTasks, "cpu")
	count(lostDesc, s.Lost)
	count(refusedDesc, s.Refused)
	count(declinedDesc, s.Declined)
	metric(sharedDesc, prometheus.GaugeValue, float64(s.Shared))
}
