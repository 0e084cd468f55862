// Package size says what a fleet of series needs: workers, cores, memory, GPUs, bandwidth of the brokers, bytes of changelog, and the
// time of a takeover.
//
// Costs of a series and of a sample depend on the settings: Measure runs the worker's own state, executor and encoders on this
// machine. Costs of the rest of the process and of brokers were measured with whole workers and are recorded here, each with its
// command, machine and day. Plan multiplies.
package size

import (
	"fmt"
	"math"
	"time"
)

// Recorded is a cost that was measured with whole workers.
type Recorded struct {
	Value float64
	From  string // command, machine, day
}

const sizingCosts = "bench -kafka kfake -procs 4 sizing-costs, Intel Xeon, 2026-11-29"

// The recorded costs.
var (
	// batchCPU is the processor time of a batch of records, as producers send it to a partition, beside its samples: a fetch, a chunk
	// that is folded, scored and written.
	batchCPU = Recorded{34.9e-6, sizingCosts}
	// workerCPU is the share of a core that a worker takes for its transactions, beside the records.
	workerCPU = Recorded{0.114, sizingCosts}
	// workerHeap is the heap of a worker beside its series and what is in flight.
	workerHeap = Recorded{36e6, sizingCosts}
	// rebalance is the time from the end of a session to the new owner's restore, in seconds.
	rebalance = Recorded{2.9, "bench faults -only join-leave, Intel Xeon, 2026-11-29"}
	// gpuSample and gpuCPU are the GPU and the processor time of a sample of preset default on a GPU.
	gpuSample = Recorded{0.2 / 0.91e6, "bench -preset default -sensors 1008 fleet, H200 and Intel Xeon, 2026-11-29"}
	gpuCPU    = Recorded{15.3e-6, gpuSample.From}
)

const (
	stateShare   = 0.6       // of a worker's memory, the default of its budget of state
	usedCores    = 0.7       // of a core's time that a plan uses: the rest is for catching up
	logGarbage   = 2         // times the live records of a changelog that is cleaned at half of it
	segmentTime  = time.Hour // after which, or segmentBytes, a segment of a changelog is closed
	segmentBytes = 1 << 30
)

// Ask is what a plan is for.
type Ask struct {
	Series, PerRecord int     // of the fleet, and in one record
	Rate              float64 // samples a second of a series
	RecordBytes       float64 // of an input record
	Batch             float64 // records that a producer sends together to a partition
	Cores             float64 // of one worker
	Memory            float64 // of one worker, in bytes
	Session           time.Duration
	Rekey             bool
	GPUMemory         float64 // bytes of locked memory
	Machine           string
	Partitions        int    // of the input topic; 0: as many as are proposed
	Preset            string // empty: other detectors
}

// Row is a figure of a plan.
type Row struct {
	Name         string  `json:"name"`
	Value        float64 `json:"value"`
	Unit         string  `json:"unit"`
	From         string  `json:"from"` // how it comes about
	Extrapolated bool    `json:"extrapolated,omitempty"`
}

// Plan says what the fleet needs.
func Plan(a *Ask, c *Costs) []Row {
	var rows []Row
	add := func(name string, value float64, unit, format string, args ...any) *Row {
		rows = append(rows, Row{Name: name, Value: value, Unit: unit, From: fmt.Sprintf(format, args...)})
		return &rows[len(rows)-1]
	}
	fleet := func(name string, value float64, unit, format string, args ...any) {
		add(name, value, unit, format, args...).Extrapolated = a.Series > c.Series
	}
	const here = "measured here"
	series := float64(a.Series)
	samples := series * a.Rate
	records := samples / float64(max(1, a.PerRecord))

	add("samples", samples, "/s", "-series times -rate")
	add("records", records, "/s", "%d series a record", max(1, a.PerRecord))
	add("series measured", float64(c.Series), "", "%s, %s", c.after(), a.Machine)
	add("state of a series", c.State, "B", here)
	add("heap of a series", c.Heap, "B", here)
	add("changelog of a series", c.Changelog, "B", here+", compacted")
	add("processor time of a sample", c.CPU, "s", here)
	add("processor time of a batch", batchCPU.Value, "s", "of -batch records, beside its samples; recorded: %s", batchCPU.From)

	// A worker may fail: the others carry all.
	state := math.Max(c.State, c.Heap) * series
	memory := math.Ceil(state / (stateShare * a.Memory))
	busy := samples*c.CPU + records/a.Batch*batchCPU.Value
	cores := math.Ceil(busy / (usedCores*a.Cores - workerCPU.Value))
	carry := math.Max(1, math.Max(memory, cores))
	partitions := math.Max(2, math.Ceil(2*carry*a.Cores))
	why := "two for each core of the workers that carry the load: a partition is folded on one"
	if a.Partitions > 0 {
		partitions, why = float64(a.Partitions), "-partitions"
	}
	fleet("state of the fleet", state, "B", "the larger of state and heap of a series")
	fleet("cores busy", busy+workerCPU.Value*carry, "", "samples, batches, and %.2g of a core for each worker; recorded: %s", workerCPU.Value,
		workerCPU.From)
	fleet("workers", carry+1, "", "%.0f for memory, %.0f for cores (%.0f %% of them used), and one that may fail", memory, cores,
		100*usedCores)
	add("cores of a worker", a.Cores, "", "-cores")
	add("memory of a worker", a.Memory, "B", "-memory: %.0f %% of it for state", 100*stateShare)
	fleet("partitions", partitions, "", "%s", why)
	flight := c.Flight * math.Ceil(partitions/carry)
	fleet("heap of a worker", workerHeap.Value+flight+c.Heap*series/carry, "B",
		"in use, when one has failed: its series, %.3g MB of batches in each partition after a backlog, and %.0f MB; recorded: %s; "+
			"up to twice as much before a collection", c.Flight/1e6, workerHeap.Value/1e6, workerHeap.From)
	a.gpus(add, fleet, c, samples)

	input, output, log := records*a.RecordBytes, samples*c.Outputs, samples*c.Snapshot
	again := 1.0
	if a.Rekey {
		again = 2
	}
	fleet("input", input, "B/s", "-record-bytes")
	fleet("scores and anomalies", output, "B/s", "%.3g bytes and %.3g records a sample, %s", c.Outputs, c.Records, here)
	fleet("changelog", log, "B/s", "%.4g bytes a sample, %s", c.Snapshot, here)
	fleet("brokers in", again*input+output+log, "B/s", "all three; times the replication factor between brokers and on disks")
	fleet("brokers out", again*input, "B/s", "to the workers; readers of scores and anomalies come on top")
	live := c.Changelog * series
	fleet("changelog, live", live, "B", "compacted; it grows with series, not with time")
	fleet("changelog on disk", logGarbage*live+math.Min(log*segmentTime.Seconds(), partitions*segmentBytes), "B",
		"at most: cleaned at half, but for segments that are open, of an hour or a GiB; times the replication factor")
	a.takeover(fleet, c, carry, samples, live)
	return rows
}

// gpus adds what GPUs are needed.
func (a *Ask) gpus(add func(string, float64, string, string, ...any) *Row, fleet func(string, float64, string, string, ...any), c *Costs,
	samples float64) {
	switch {
	case c.GPU > 0:
		fleet("GPUs", math.Ceil(samples*c.GPU/usedCores), "", "%.3g us of a GPU a sample, measured here", 1e6*c.GPU)
		add("memory of batches on GPUs", a.GPUMemory, "B", "ODRADEK_CUDA_MEMORY, of each worker; series are in its heap")
	case a.Preset == "default":
		fleet("GPUs", math.Ceil(samples*gpuSample.Value/usedCores), "",
			"enough, if there are any: %.2g us of a GPU and %.3g of processors a sample; recorded: %s", 1e6*gpuSample.Value,
			1e6*gpuCPU.Value, gpuSample.From)
	default:
		add("GPUs", 0, "", "none needed; for what they would save run this on a machine with one")
	}
}

// takeover adds how long the partitions of a worker that is gone wait.
func (a *Ask) takeover(fleet func(string, float64, string, string, ...any), c *Costs, carry, samples, live float64) {
	taken := 1 / (carry + 1) / carry // of the fleet, by each of the others
	load := taken * live / (c.Load * a.Cores)
	replay := taken * samples * c.replaySeconds * c.Replay / a.Cores
	fleet("restore", load+replay, "s",
		"by each of the others: %.3g s for the changelog at %.0f MB/s a core, %.3g s for %.0f s of input, measured here", load,
		c.Load/1e6, replay, c.replaySeconds)
	fleet("takeover after SIGTERM", rebalance.Value+load, "s", "%.2g s of rebalance, recorded: %s; nothing to replay", rebalance.Value,
		rebalance.From)
	fleet("takeover after a crash", a.Session.Seconds()+rebalance.Value+load+replay, "s", "ODRADEK_SESSION_TIMEOUT=%v first", a.Session)
}
