package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// backtestSensors and DefaultDays are the size of the fleet: a reading a minute.
const (
	backtestSensors = 10_000
	DefaultDays     = 30
)

// backtestSettings are the settings of the measured run; -set overrides them.
var backtestSettings = []string{
	"DETECTORS=level,change,shape", "KEY_FIELD=sensor", "TIME_FIELD=time", "VALUE_FIELDS=value",
	"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=64", "DETECTOR_CHANGE_OP=ikasst", "DETECTOR_CHANGE_WINDOW=16",
	"DETECTOR_SHAPE_OP=discord", "DETECTOR_SHAPE_WINDOW=256", "DETECTOR_SHAPE_LENGTH=32", "DETECTOR_SHAPE_MIN_POINTS=64",
}

// Backtest measures rows a second of `worker backtest` over a fleet of sensors, in Parquet
// files of a day each, in order of time: reading, folding, scoring, anomalies out.
func (b *FleetBench) Backtest(ctx context.Context) ([]testbed.Row, error) {
	dir, err := os.MkdirTemp("", "odradek-backtest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "input")
	if err := os.Mkdir(input, 0o755); err != nil {
		return nil, err
	}
	sensors := b.Scale(cmp.Or(b.Sensors, backtestSensors))
	began := time.Now()
	rows, bytes, err := writeFleet(ctx, input, sensors, b.Days)
	if err != nil {
		return nil, err
	}
	b.Say("wrote %d rows, %d MB, in %v", rows, bytes>>20, time.Since(began).Round(time.Second))
	worker, err := kafkatest.WorkerProgram(b.WorkerProgram)
	if err != nil {
		return nil, err
	}
	measure := func(name string, args ...string) (testbed.Row, error) {
		cmd := exec.CommandContext(ctx, worker, append([]string{"backtest", "-in", input, "-report", filepath.Join(dir, "report.html"),
			"-anomalies", filepath.Join(dir, "anomalies.parquet")}, args...)...)
		cmd.Env = os.Environ()
		for _, kv := range backtestSettings {
			cmd.Env = append(cmd.Env, config.Prefix+kv)
		}
		cmd.Env = append(cmd.Env, b.Settings...)
		out, err := outputOf(cmd)
		if err != nil {
			return testbed.Row{}, err
		}
		rate := backtestRate.FindStringSubmatch(out)
		if rate == nil {
			return testbed.Row{}, fmt.Errorf("worker: backtest: no rate in %q", out)
		}
		v, err := strconv.ParseFloat(rate[2], 64)
		r := testbed.NewRow(name, v, "rows/s")
		r.Note = fmt.Sprintf("%d sensors x %d days, %d rows, %d MB of Parquet, zscore 64, ikasst 16, discord of 32 in 256; %s s",
			sensors, b.Days, rows, bytes>>20, rate[1])
		return r, err
	}
	var all []testbed.Row
	for _, c := range []struct {
		name string
		args []string
	}{{"anomalies out", nil}, {"all scores out", []string{"-scores", filepath.Join(dir, "scores") + "/"}}} {
		r, err := measure(c.name, c.args...)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// backtestRate finds time and rate in the command's output.
var backtestRate = regexp.MustCompile(`in ([\d.]+) s, (\d+) rows/s`)

func outputOf(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", errors.Join(err, errors.New(errs.String()[max(0, errs.Len()-2000):]))
	}
	return out.String(), nil
}

// fleetReading is a row of the files.
type fleetReading struct {
	Sensor string  `parquet:"sensor,dict"`
	Time   int64   `parquet:"time,timestamp(millisecond),delta"`
	Value  float64 `parquet:"value"`
}

// writeFleet writes a file for each day, several at a time: a sine of an hour to a day
// with noise, a level of each sensor's own, and now and then a spike.
func writeFleet(ctx context.Context, dir string, sensors, days int) (rows, bytes int64, err error) {
	names := make([]string, sensors)
	for s := range names {
		names[s] = fmt.Sprintf("sensor-%05d", s)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, days)
	for range min(days, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for day := int(next.Add(1)) - 1; day < days && ctx.Err() == nil; day = int(next.Add(1)) - 1 {
				errs[day] = writeDay(ctx, filepath.Join(dir, fmt.Sprintf("day-%03d.parquet", day)), names, day)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errors.Join(errs...), ctx.Err()); err != nil {
		return 0, 0, err
	}
	for day := range days {
		info, err := os.Stat(filepath.Join(dir, fmt.Sprintf("day-%03d.parquet", day)))
		if err != nil {
			return 0, 0, err
		}
		bytes += info.Size()
	}
	return int64(sensors) * int64(days) * 1440, bytes, nil
}

func writeDay(ctx context.Context, path string, names []string, day int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := parquet.NewGenericWriter[fleetReading](f, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(1<<20))
	rng := rand.New(rand.NewPCG(uint64(day), 16))
	buf := make([]fleetReading, len(names))
	for minute := day * 1440; minute < (day+1)*1440; minute++ {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, f.Close())
		}
		for s := range names {
			period := float64(60 + s%1380)
			v := float64(s%100) + math.Sin(2*math.Pi*float64(minute)/period) + 0.1*rng.NormFloat64()
			if rng.IntN(50_000) == 0 {
				v += 5
			}
			buf[s] = fleetReading{names[s], 1_700_000_000_000 + int64(minute)*60_000, v}
		}
		if _, err := w.Write(buf); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Close(), f.Close())
}
