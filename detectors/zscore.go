package detectors

import (
	"errors"
	"fmt"
	"math"
)

// zscoreCap is the largest z-score: what a sample that differs from a constant
// past gets, where the quotient is not defined.
const zscoreCap = 1e6

type zscore struct{ params []float32 }

// NewZScore is the detector of op ZScore with the given window in rows, the
// scored one included; at least 3.
//
// The score of a sample x is min(|x - mean| / sd, 1e6), mean and (population)
// standard deviation taken over the window-1 rows before it, and averaged over
// the values of a row. Where sd is 0 it is 0 if x equals the mean and 1e6 if
// not. A NaN in the window makes the score NaN. Rows may be centred on any
// origin. There is no carry; each score speaks of its own sample.
func NewZScore(window int) (Detector, error) {
	if window < 3 || window > 1<<24 {
		return nil, fmt.Errorf("detectors: zscore: window is %d, use 3 to %d", window, 1<<24)
	}
	return &zscore{[]float32{float32(window)}}, nil
}

func (z *zscore) Op() Op            { return ZScore }
func (z *zscore) Params() []float32 { return z.params }
func (z *zscore) Window() int       { return int(z.params[0]) }

// Reach says that a score speaks of its own row.
func (z *zscore) Reach() (from, to int) { return 0, 0 }

func (z *zscore) Size(v View) (scores, carry int, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < z.Window() {
		return 0, 0, false
	}
	return v.Fresh, 0, true
}

func (z *zscore) AppendFindings(dst []Finding, r Rows) []Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, Finding{i, first + i, first + i, float64(s)})
	}
	return dst
}

// Explain expects the mean of the rows before. A value's share is that of its own
// score.
func (z *zscore) Explain(r Rows, fresh int, expected, contribution []float64) bool {
	n := z.Window() - 1
	row := r.Len() - r.Fresh + fresh
	var own [1]float32
	sum := 0.0
	x := make([]float32, n+1)
	for c := range r.Dim {
		mean := 0.0
		for i := range x {
			x[i] = r.X[(row-n+i)*r.Dim+c]
			if i < n {
				mean += float64(x[i]) / float64(n)
			}
		}
		zscoreScore(Rows{Dim: 1, Fresh: 1, Params: z.params, X: x, Scores: own[:]})
		expected[c], contribution[c] = mean, float64(own[0])
		sum += float64(own[0])
	}
	if !(sum > 0) {
		return false
	}
	for c := range contribution {
		contribution[c] /= sum
	}
	return true
}

// zscoreScore is the definition, in two passes.
func zscoreScore(r Rows) {
	n := int(r.Params[0]) - 1
	for i := range r.Scores {
		at := r.Len() - r.Fresh + i
		sum := 0.0
		for d := range r.Dim {
			value := func(row int) float64 { return float64(r.X[row*r.Dim+d]) }
			mean, ss := 0.0, 0.0
			for row := at - n; row < at; row++ {
				mean += value(row) / float64(n)
			}
			constant := true
			for row := at - n; row < at; row++ {
				constant = constant && value(row) == value(at-n)
				ss += (value(row) - mean) * (value(row) - mean)
			}
			switch x := value(at); {
			case constant && x == value(at-n):
			case constant && x == x:
				sum += zscoreCap
			default:
				sum += min(math.Abs(x-mean)/math.Sqrt(ss/float64(n)), zscoreCap)
			}
		}
		r.Scores[i] = float32(sum / float64(r.Dim))
	}
}

// zscoreCPU makes one pass over differences from the window's first row x0.
// With q the sum of squares about x0 and s the sum, n*var = q - s*s/n; as x0 is
// one of the n rows, (mean-x0)^2 <= (n-1) var (Samuelson 1968), so at most a
// factor n of precision is lost, and a constant window gives exactly 0.
func zscoreCPU(r *Rows) {
	n := int(r.Params[0]) - 1
	inv := 1 / float64(n)
	dim := r.Dim
	x := r.X[len(r.X)-(r.Fresh+n)*dim:]
	if dim == 1 {
		for i := range r.Scores {
			w := x[i : i+n+1]
			x0 := float64(w[0])
			var s, q float64
			for _, v := range w[:n] {
				d := float64(v) - x0
				s += d
				q += d * d
			}
			r.Scores[i] = float32(zscoreOf(float64(w[n])-x0, s, q, inv))
		}
		return
	}
	for i := range r.Scores {
		sum := 0.0
		for c := range dim {
			x0 := float64(x[i*dim+c])
			var s, q float64
			for k := i*dim + c; k < (i+n)*dim; k += dim {
				d := float64(x[k]) - x0
				s += d
				q += d * d
			}
			sum += zscoreOf(float64(x[(i+n)*dim+c])-x0, s, q, inv)
		}
		r.Scores[i] = float32(sum / float64(dim))
	}
}

// zscoreOf is the score of a value d from x0, for n = 1/inv rows before it
// whose differences from x0 have sum s and sum of squares q.
func zscoreOf(d, s, q, inv float64) float64 {
	if q == 0 && d == 0 {
		return 0
	}
	mean := s * inv
	d -= mean
	z := math.Sqrt(d * d / (q*inv - mean*mean)) // +Inf for q = 0
	if z > zscoreCap {
		return zscoreCap
	}
	return z
}

func zscoreCost(r *Rows) int { return 10 + r.Fresh*(6+(int(r.Params[0])-1)*r.Dim) }

func zscoreCompare(_ *Rows, got, want Result) error {
	return errors.Join(compareScores(got.Scores, want.Scores, 1e-6, 1e-5), compareScores(got.Next, want.Next, 0, 0))
}
