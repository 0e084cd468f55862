package ops

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/sst"
)

// The parameters of the svdsst-cpu figure.
const (
	svdWindow = 320
	svdRank   = 12
	// svdPeer is the rate of the last of svdForms with scipy 1.17, by processor time, on one core of a busy AMD EPYC
	// (Zen 4): the baseline if numpy is not installed.
	svdPeer = 89
)

//go:embed svdsst.py
var svdsstProgram string

// SVDSST measures SVD-SST on one core, tasks of one fresh sample.
func (b *Bench) SVDSST(ctx context.Context) ([]testbed.Row, error) {
	s := shape{dim: 1, fresh: 1, tasks: 64, det: func() (detectors.Detector, error) {
		return sst.NewSVD(sst.SVDOpParams{Window: svdWindow, Rank: svdRank})
	}}
	in, err := s.input()
	if err != nil {
		return nil, err
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	batch := exec.Batch()
	in.pack(batch, in.tasks)
	var rates []float64
	for range b.Repeat {
		var fault error
		ns, _ := perItem(b.Span(time.Second), in.tasks, func() {
			if err := exec.Execute(ctx, batch); err != nil {
				fault = err
			}
		})
		if fault != nil {
			return nil, fault
		}
		rates = append(rates, 1e9/ns)
	}
	v, spread := testbed.Median(rates)
	name, base, others := svdForms[len(svdForms)-1], float64(svdPeer), ""
	if out, err := b.runPython(ctx, "numpy", svdsstProgram, svdWindow, svdRank); err != nil {
		b.Say("numpy: %v", err)
		name += ", stored figure (" + testbed.FirstLine(err.Error()) + ")"
	} else if len(out) > 0 && len(out) <= len(svdForms) {
		base = slices.Max(out)
		for i, rate := range out {
			if others += fmt.Sprintf("; %s %.1f/s", svdForms[i], rate); rate == base {
				name = svdForms[i]
			}
		}
	}
	r := testbed.NewRow("", v, "scores/s").Against(name, base, false)
	return []testbed.Row{r.Noted("w=%d r=%d, one fresh sample a task, %d keys; median of %d, spread %.0f%%%s", svdWindow, svdRank, in.tasks,
		b.Repeat, spread, others)}, nil
}

// svdForms are the variants that svdsst.py measures, in its order; the best one is the baseline. The method's paper
// uses two full singular value decompositions, which the symmetry of the trajectory matrix makes unnecessary.
var svdForms = []string{
	"numpy svd", "numpy eigh of the Gram matrix", "numpy eigh of the trajectory matrix",
	"scipy eigh of the Gram matrix, r of its vectors", "scipy eigsh (ARPACK's Lanczos)",
}
