package detectors

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"odradek/detectors/knn"
)

// KNNParams are the parameters of op KNN; 0 means the default.
type KNNParams struct {
	Window int // points that a score is among, its own included; at least 2K. No default
	K      int // neighbours, default 10
	Embed  int // successive rows that make a point, default 1
}

type knnDetector struct {
	params []float32
	p      KNNParams
}

// The parameters of a task.
const (
	knnK = iota
	knnPoints
	knnEmbed
	knnParamCount
)

// NewKNN is the detector of op KNN: the weight of a point among those before it, see
// package knn. A score reads the last Window points up to its own, or as many as
// there are, 2K at least. It does not depend on later rows, so not on the stride.
// There is no carry; a score speaks of the rows of its point. It is capped at the
// largest float32. The error names every fault of the parameters.
func NewKNN(p KNNParams) (Detector, error) {
	if p.K == 0 {
		p.K = 10
	}
	if p.Embed == 0 {
		p.Embed = 1
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.K < 1 || p.K > knn.MaxK {
		fault("k is %d, use 1 to %d", p.K, knn.MaxK)
	}
	if p.Window < 2 || p.Window > 1<<16 {
		fault("window is %d points, use 2 to %d", p.Window, 1<<16)
	} else if p.K >= 1 && p.Window < 2*p.K {
		fault("window of %d points is too small for k = %d: use at least 2k = %d, or a smaller k", p.Window, p.K, 2*p.K)
	}
	if p.Embed < 1 || p.Embed > 1<<10 {
		fault("embedding is %d rows, use 1 to %d", p.Embed, 1<<10)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("detectors: knn: %w", errors.Join(faults...))
	}
	return &knnDetector{[]float32{knnK: float32(p.K), knnPoints: float32(p.Window), knnEmbed: float32(p.Embed)}, p}, nil
}

func (d *knnDetector) Op() Op            { return KNN }
func (d *knnDetector) Params() []float32 { return d.params }
func (d *knnDetector) Window() int       { return d.p.Window + d.p.Embed - 1 }

// Reach says that a score speaks of the rows of its point.
func (d *knnDetector) Reach() (from, to int) { return d.p.Embed - 1, 0 }

func (d *knnDetector) Size(v View) (scores, carry int, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < 2*d.p.K+d.p.Embed-1 {
		return 0, 0, false
	}
	return v.Fresh, 0, true
}

func (d *knnDetector) AppendFindings(dst []Finding, r Rows) []Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, Finding{i, first + i - d.p.Embed + 1, first + i, float64(s)})
	}
	return dst
}

// Explain expects the mean of the last rows of the nearest points. A value's share is
// that in the squared distances to them.
func (d *knnDetector) Explain(r Rows, fresh int, expected, contribution []float32) bool {
	from, to := knnRun(&r, fresh)
	x := r.X[from*r.Dim : to*r.Dim]
	if knnSpoilt(x) {
		return false
	}
	m := d.p.Embed
	last := to - from - m
	q := x[last*r.Dim:]
	points, squares := make([]int, max(last, 0)), make([]float64, max(last, 0))
	for i := range points {
		points[i] = i
		for c, v := range q {
			e := float64(v) - float64(x[i*r.Dim+c])
			squares[i] += e * e
		}
	}
	slices.SortStableFunc(points, func(a, b int) int { return cmp.Compare(squares[a], squares[b]) })
	points = points[:min(d.p.K, len(points))]
	mean, share, total := make([]float64, r.Dim), make([]float64, r.Dim), 0.0
	for _, i := range points {
		for c, v := range q {
			e := float64(v) - float64(x[i*r.Dim+c])
			share[c%r.Dim] += e * e
			total += e * e
		}
		for c := range mean {
			mean[c] += float64(x[(i+m-1)*r.Dim+c]) / float64(len(points))
		}
	}
	if total == 0 {
		return false
	}
	for c := range mean {
		expected[c], contribution[c] = float32(mean[c]), float32(share[c]/total)
	}
	return true
}

// knnRun is where the rows begin and end that fresh row i is scored from.
func knnRun(r *Rows, i int) (from, to int) {
	to = r.Len() - r.Fresh + i + 1
	return max(0, to-int(r.Params[knnPoints])-int(r.Params[knnEmbed])+1), to
}

func knnScore(r Rows) {
	for i := range r.Scores {
		from, to := knnRun(&r, i)
		x := make([]float64, 0, (to-from)*r.Dim)
		for _, v := range r.X[from*r.Dim : to*r.Dim] {
			x = append(x, float64(v))
		}
		r.Scores[i] = float32(min(knn.Define(x, r.Dim, int(r.Params[knnEmbed]), int(r.Params[knnK])), math.MaxFloat32))
	}
}

type knnMemory struct {
	scorer knn.Scorer
	x      []float64
}

var knnPool = sync.Pool{New: func() any { return new(knnMemory) }}

func knnCPU(r *Rows) {
	m := knnPool.Get().(*knnMemory)
	m.x = m.x[:0]
	bad := 0 // rows up to here have a NaN or an infinity among them
	for i, v := range r.X {
		m.x = append(m.x, float64(v))
		if v-v != 0 {
			bad = i/r.Dim + 1
		}
	}
	for i := range r.Scores {
		from, to := knnRun(r, i)
		w := math.NaN()
		if bad <= from || !knnSpoilt(r.X[from*r.Dim:to*r.Dim]) {
			w = m.scorer.Weight(m.x[from*r.Dim:to*r.Dim], r.Dim, int(r.Params[knnEmbed]), int(r.Params[knnK]))
		}
		r.Scores[i] = float32(min(w, math.MaxFloat32))
	}
	knnPool.Put(m)
}

func knnSpoilt(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return true
		}
	}
	return false
}

func knnCost(r *Rows) int {
	n := min(r.Len(), int(r.Params[knnPoints]))
	return 2*r.Len()*r.Dim + r.Fresh*n*(5+r.Dim*int(r.Params[knnEmbed])/2)
}

func knnCompare(_ *Rows, got, want Result) error {
	return errors.Join(compareScores(got.Scores, want.Scores, 0, 1e-6), compareScores(got.Next, want.Next, 0, 0))
}
