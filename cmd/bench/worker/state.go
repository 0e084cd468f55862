package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// Memory: 100,000 keys in the states of four partitions, driven as a worker
// drives them, in a process of its own.

const (
	memoryKeys   = 100_000
	memoryWindow = 256
	memoryRounds = memoryWindow + 64 // samples of each key
)

// memoryReport is the output of the measured process.
type memoryReport struct {
	Live, Running int64 // resident bytes: after a collection, before it
	Keys          int
}

// Memory measures the resident bytes of a key beyond its window, without brokers.
func (b *Bench) Memory(ctx context.Context) ([]testbed.Row, error) {
	if testbed.ProcessCPU(os.Getpid()) == 0 && testbed.ResidentBytes(os.Getpid()) == 0 {
		return nil, errors.New("resident memory is read from /proc: this needs Linux")
	}
	if b.Profile != "" {
		var err error
		if b.Profile, err = filepath.Abs(b.Profile); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(b.Profile, 0o755); err != nil {
			return nil, err
		}
	}
	// Half of the keys are more than a chunk touches, so that what is in flight is the
	// same in both.
	few, err := b.memoryOf(ctx, memoryKeys/2, "")
	if err != nil {
		return nil, err
	}
	all, err := b.memoryOf(ctx, memoryKeys, b.Profile)
	if err != nil {
		return nil, err
	}
	const window = memoryWindow * (8 + 8) // a value and a time; zscore has no carry
	per := func(a, b int64) float64 { return float64(a-b)/float64(all.Keys-few.Keys) - window }
	v, once := per(all.Live, few.Live), float64(all.Live)-(per(all.Live, few.Live)+window)*float64(all.Keys)
	r := testbed.NewRow("", v, "bytes/key").Want("<= 512", v <= 512)
	return []testbed.Row{
		r.Noted("%d keys, window %d (%d bytes/key not counted); resident after a collection, against %d keys; %.0f MB beside "+
			"the keys; %.0f bytes/key more before the collection",
			all.Keys, memoryWindow, window, few.Keys, once/1e6, per(all.Running, few.Running)-v),
	}, nil
}

// memoryOf runs the process.
func (b *Bench) memoryOf(ctx context.Context, keys int, profile string) (m memoryReport, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	out, err := os.CreateTemp(b.Dir, "memory")
	if err != nil {
		return m, err
	}
	defer out.Close()
	p, err := b.Spawn("memory", os.Environ(), out, self, ChildArgument, "memory", strconv.Itoa(keys), profile)
	if err != nil {
		return m, err
	}
	defer p.Kill()
	select {
	case <-p.Done:
	case <-ctx.Done():
		return m, ctx.Err()
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, p.Failed(errors.Join(err, p.Err))
	}
	return m, nil
}

// memoryChild is the process. Values and offsets are of no matter; chunks,
// marks, snapshots and commits are, because undo and dirty queues take memory.
func memoryChild(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("worker: memory: arguments: keys, folder for a profile")
	}
	keys, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	det, err := simple.NewZScore(memoryWindow)
	if err != nil {
		return err
	}
	cfg := &state.Config{
		Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "level", Detector: det, Stride: 1, Fingerprint: 1}},
	}
	exec := detectors.NewCPU(0)
	resident := func() int64 {
		runtime.GC()
		debug.FreeOSMemory()
		return testbed.ResidentBytes(os.Getpid())
	}
	r := memoryReport{Keys: keys}
	states := make([]*state.State, testbed.Partitions)
	for p := range states {
		if states[p], err = memoryFill(cfg, exec, p, keys/testbed.Partitions); err != nil {
			return err
		}
	}
	r.Running = testbed.ResidentBytes(os.Getpid())
	r.Live = resident()
	if args[1] != "" {
		if err := writeHeap(filepath.Join(args[1], "memory.heap")); err != nil {
			return err
		}
	}
	runtime.KeepAlive(states)
	return json.NewEncoder(out).Encode(r)
}

func writeHeap(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.WriteHeapProfile(f)
}

func memoryFill(cfg *state.Config, exec detectors.Executor, partition, keys int) (*state.State, error) {
	const chunk = 10_000
	s, batch := state.New(cfg), exec.Batch()
	defer exec.Release(batch)
	ctx := context.Background()
	score := func() error {
		if err := exec.Execute(ctx, batch); err != nil {
			return err
		}
		s.Apply(batch)
		batch.Reset()
		return nil
	}
	discard := func(_, _ []byte) error { return nil }
	name, value := make([]byte, 0, 32), make([]float64, 1)
	offset := int64(0)
	s.Mark(0)
	s.Committed(0)
	for round := range memoryRounds {
		for k := range keys {
			name = fmt.Appendf(name[:0], "press-%d-%05d/temp", partition, k)
			value[0] = float64(round*k%97) / 7
			sm := state.Sample{Key: name, Time: offset, Offset: offset, Values: value}
			for !s.Fits(batch) {
				if err := score(); err != nil {
					return nil, err
				}
			}
			s.Fold(&sm, batch)
			offset++
			if offset%chunk != 0 {
				continue
			}
			if err := score(); err != nil {
				return nil, err
			}
			s.Rows = s.Rows[:0]
			s.Mark(offset)
			// The replay floor of a worker that has read this for 22 s: three
			// quarters of the replay limit.
			if err := s.Snapshot(offset-int64(22*keys), 4<<20, discard); err != nil {
				return nil, err
			}
			s.Committed(offset - chunk)
		}
	}
	return s, nil
}

// Restore: a worker with 100,000 keys and 1,024 samples each is killed and
// started again; its log says what it read back and how fast.

const (
	restoreKeys   = 100_000
	restoreWindow = 1024
)

// Restore kills a worker with large state and measures how fast its successor restores that state.
func (b *Bench) Restore(ctx context.Context) ([]testbed.Row, error) {
	keys := b.Scale(restoreKeys)
	in, err := b.NewInput(ctx, "restore", keys)
	if err != nil {
		return nil, err
	}
	defer b.Drop(in.Topic)
	// A little more than the window, so that there is input left to go on with.
	if err := b.Fill(ctx, in, keys*(restoreWindow+8)); err != nil {
		return nil, err
	}
	group := in.Topic + "-g"
	settings := []string{config.Prefix + "INSTANCE_ID=bench", config.Prefix + "DETECTOR_LEVEL_WINDOW=" + strconv.Itoa(restoreWindow),
		config.Prefix + "LOG_FORMAT=text"}
	if b.Quick { // or nothing would be in the changelog yet
		settings = append(settings, config.Prefix+"REPLAY_LIMIT=3s")
	}
	w, err := b.StartWorker(in, group, settings...)
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Changelog, group+"-dlq", group+"-late")
	if err := w.Ready(ctx); err != nil {
		return nil, err
	}
	kill := int64(keys) * restoreWindow
	ticks, err := b.Watch(ctx, w.Process, kill, 10*time.Minute, w.Consumed)
	if err != nil {
		return nil, err
	}
	w.Kill()
	live, err := testbed.Steady(ticks, 0.1, 0.95)
	if err != nil {
		return nil, err
	}
	b.Say("live: %s records/s; killed after %d", testbed.Figure(live.Rate), ticks[len(ticks)-1].Records)

	began := time.Now()
	again, err := b.StartWorker(in, group, settings...)
	if err != nil {
		return nil, err
	}
	defer again.Kill()
	if b.Profile != "" {
		go func() {
			_ = testbed.Pause(ctx, time.Second) // until it listens
			b.SaveProfile(again, "restore.cpu", 5*time.Second)
		}()
	}
	if err := again.Ready(ctx); err != nil {
		return nil, err
	}
	took := time.Since(began)
	log, err := os.ReadFile(again.Log)
	if err != nil {
		return nil, err
	}
	rows, err := restoreRows(log, live.Rate)
	if err != nil {
		return nil, again.Failed(err)
	}
	for i := range rows {
		rows[i] = rows[i].Noted("%d keys, %d samples each; ready %.1f s after the start; live %s records/s", keys, restoreWindow,
			took.Seconds(), testbed.Figure(live.Rate))
	}
	return rows, again.Stop(30 * time.Second)
}

var logField = regexp.MustCompile(`([a-z_]+)=(\S+)`)

// restored is one "restored" line of the worker's log.
type restored struct {
	bytes, records            float64
	changelogTook, replayTook time.Duration
}

// restoreRows makes the figures of the log: the partitions restore at the same
// time, so bytes and records are summed and the longest time counts.
func restoreRows(log []byte, live float64) ([]testbed.Row, error) {
	sum, err := readRestored(log)
	if err != nil {
		return nil, err
	}
	mb := sum.bytes / 1e6 / max(sum.changelogTook.Seconds(), 1e-3)
	replay := sum.records / max(sum.replayTook.Seconds(), 1e-3)
	return []testbed.Row{
		testbed.NewRow("changelog", mb, "MB/s").
			Want(">= 200", mb >= 200).
			Noted("%.0f MB in %.1f s", sum.bytes/1e6, sum.changelogTook.Seconds()),
		testbed.NewRow("replay", replay, "records/s").
			Against("live rate", live, false).
			WantRatio(5).
			Noted("%.0f records in %.1f s", sum.records,
				sum.replayTook.Seconds()),
	}, nil
}

// readRestored sums the lines of a worker's log about restored partitions.
func readRestored(log []byte) (sum restored, err error) {
	lines := 0
	for _, line := range regexp.MustCompile(`(?m)^.*msg=restored.*$`).FindAll(log, -1) {
		f := map[string]string{}
		for _, m := range logField.FindAllSubmatch(line, -1) {
			f[string(m[1])] = string(m[2])
		}
		if f["changelog_bytes"] == "" {
			return sum, errors.New("the worker's log does not say what it restored")
		}
		bytes, _ := strconv.ParseFloat(f["changelog_bytes"], 64)
		records, _ := strconv.ParseFloat(f["replayed"], 64)
		ct, _ := time.ParseDuration(f["changelog_took"])
		rt, _ := time.ParseDuration(f["replay_took"])
		sum.bytes, sum.records = sum.bytes+bytes, sum.records+records
		sum.changelogTook, sum.replayTook = max(sum.changelogTook, ct), max(sum.replayTook, rt)
		lines++
	}
	if lines == 0 {
		return sum, errors.New("the worker's log has no restored partition")
	}
	return sum, nil
}
