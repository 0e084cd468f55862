package ops

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/lof"
)

// The parameters of the lof figures.
const (
	lofWindow = 1024
	lofDim    = 8
	lofK      = 20
	// lofSklearn is the result of lof.py with scikit-learn 1.9 on one core of
	// an AMD EPYC (Zen 4): the baseline where it is not installed.
	lofSklearn = 73_000
)

//go:embed lof.py
var lofProgram string

// lofTasks packs one task for each of many keys: normal points, the last fresh
// of them to score.
func lofTasks(batch *detectors.Batch, det detectors.Detector, keys, fresh int) {
	batch.Reset()
	rng := rand.New(rand.NewPCG(5, 6))
	params := batch.Put(det.Params())
	for range keys {
		t := detectors.Task{Op: det.Op(), Dim: lofDim, Fresh: uint32(fresh), Params: params}
		rows := det.Window() + fresh - 1
		var p []float32
		t.X, p = batch.GrowF32(rows * lofDim)
		for i := range p {
			p[i] = float32(rng.NormFloat64())
		}
		size, _ := det.Size(detectors.View{Dim: lofDim, Rows: rows, Fresh: fresh})
		batch.GrowOutputs(&t, size)
		batch.Tasks = append(batch.Tasks, t)
	}
}

// lofRate returns the median of the scores a second on one core.
func (b *Bench) lofRate(ctx context.Context, det detectors.Detector, keys, fresh int) (rate, spread float64, err error) {
	exec := detectors.NewCPU(1)
	defer exec.Close()
	batch := exec.Batch()
	lofTasks(batch, det, keys, fresh)
	var rates []float64
	for range b.Repeat {
		ns, _ := perItem(b.Span(time.Second), keys*fresh, func() {
			if e := exec.Execute(ctx, batch); e != nil {
				err = e
			}
		})
		rates = append(rates, 1e9/ns)
	}
	rate, spread = testbed.Median(rates)
	return rate, spread, err
}

// LOFWindows measures local outlier factors of whole windows on one core.
func (b *Bench) LOFWindows(ctx context.Context) ([]testbed.Row, error) {
	det, err := lof.New(lof.OpParams{Window: lofWindow, K: lofK, Tumbling: true})
	if err != nil {
		return nil, err
	}
	const keys = 16
	v, spread, err := b.lofRate(ctx, det, keys, lofWindow)
	if err != nil {
		return nil, err
	}
	name, brute := "scikit-learn", ""
	base, fast, err := b.sklearn(ctx)
	if err != nil {
		b.Say("scikit-learn: %v", err)
		name, base = "scikit-learn, stored figure ("+testbed.FirstLine(err.Error())+")", lofSklearn
	} else {
		brute = fmt.Sprintf("; %.1f times its algorithm=brute", v/fast)
	}
	r := testbed.NewRow("", v, "points/s").Against(name, base, false)
	r = r.Want(">= 6 times", *r.Ratio >= 6)
	return []testbed.Row{r.Noted("N=%d d=%d k=%d, whole windows of %d keys; median of %d, spread %.0f%%%s", lofWindow, lofDim, lofK, keys,
		b.Repeat, spread, brute)}, nil
}

// LOFStride also requires the scores to equal the whole windows' scores, to the bit.
func (b *Bench) LOFStride(ctx context.Context) ([]testbed.Row, error) {
	det, err := lof.New(lof.OpParams{Window: lofWindow, K: lofK})
	if err != nil {
		return nil, err
	}
	const keys = 64
	v, spread, err := b.lofRate(ctx, det, keys, 1)
	if err != nil {
		return nil, err
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	one, whole := exec.Batch(), &detectors.Batch{}
	lofTasks(one, det, keys, 1)
	lofTasks(whole, det, keys, 1)
	for i := range whole.Tasks {
		whole.Tasks[i].Fresh, whole.Tasks[i].Scores = lofWindow, whole.GrowOut(lofWindow)
	}
	for _, batch := range []*detectors.Batch{one, whole} {
		if err := exec.Execute(ctx, batch); err != nil {
			return nil, err
		}
	}
	for i := range one.Tasks {
		got, want := one.Rows(i).Scores[0], whole.Rows(i).Scores[lofWindow-1]
		if math.Float32bits(got) != math.Float32bits(want) {
			return nil, fmt.Errorf("the score of one sample is %v, among the whole window's %v", got, want)
		}
	}
	r := testbed.NewRow("", v, "records/s").Want(">= 8,000", v >= 8000)
	return []testbed.Row{r.Noted(
		"N=%d d=%d k=%d, one fresh sample a task, %d keys, equal to the bit to the whole window's; median of %d, spread %.0f%%",
		lofWindow, lofDim, lofK, keys, b.Repeat, spread)}, nil
}

// sklearn runs the program on one core: its default search and brute force.
func (b *Bench) sklearn(ctx context.Context) (auto, brute float64, err error) {
	out, err := b.runPython(ctx, "scikit-learn", lofProgram, lofWindow, lofDim, lofK)
	if err != nil {
		return 0, 0, err
	}
	if len(out) != 2 {
		return 0, 0, fmt.Errorf("%d numbers from scikit-learn", len(out))
	}
	return out[0], out[1], nil
}

// runPython runs a program, with libraries of one thread, and returns the numbers that it prints.
func (b *Bench) runPython(ctx context.Context, needs, program string, args ...any) ([]float64, error) {
	if !b.Peers {
		return nil, errors.New("-peers=false")
	}
	list := []string{"-c", program}
	for _, a := range args {
		list = append(list, fmt.Sprint(a))
	}
	cmd := exec.CommandContext(ctx, b.Python, list...)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1")
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("no %s in %s", needs, b.Python)
	}
	var numbers []float64
	for _, f := range strings.Fields(string(text)) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, v)
	}
	return numbers, nil
}
