package ops_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// chainRows calls f with each finished task of a case's chain.
func chainRows(t *testing.T, c *detectors.Case, f func(r detectors.Rows)) {
	t.Helper()
	end := len(c.Rows) / c.Dim
	for _, n := range c.Fresh {
		end -= n
	}
	var carry detectors.Words
	for _, fresh := range c.Fresh {
		end += fresh
		rows := min(end, c.Detector.Window()+fresh-1)
		size, ok := c.Detector.Size(detectors.View{Dim: c.Dim, Rows: rows, Fresh: fresh})
		if !ok {
			continue
		}
		r := detectors.Rows{Dim: c.Dim, Fresh: fresh, Params: c.Detector.Params(), Bins: c.Bins, Carry: carry,
			Scores: make([]float32, size.Scores), Next: make(detectors.Words, size.Carry), Detail: make(detectors.Words, size.Detail)}
		if m, ok := c.Detector.(detectors.Modelled); ok {
			r.Model = m.Model().Words()
		}
		for _, v := range c.Rows[(end-rows)*c.Dim : end*c.Dim] {
			switch c.Detector.Op().Elem() {
			case detectors.F32:
				r.X = append(r.X, float32(v))
			case detectors.F64:
				r.X64 = append(r.X64, v)
			case detectors.I64:
				r.XI = append(r.XI, detectors.Count(v))
			}
		}
		c.Detector.Op().Spec().CPU(t.Context(), &r, detectors.Sequential)
		f(r)
		carry = r.Next
	}
}

// TestDescribe has every op describe the scores of its cases: what it names lies in the task, shares sum up to 1, and the
// score follows from the evidence where the method says how.
func TestDescribe(t *testing.T) {
	rng := seedtest.New(t)
	for _, op := range detectors.Ops() {
		described := 0
		for _, c := range op.Spec().Cases(rng) {
			if len(c.Rows) > 20_000 || c.Bench || described > 400 {
				continue
			}
			d, ok := c.Detector.(detectors.Describer)
			if !ok {
				t.Errorf("op %s does not describe its scores", op)
				break
			}
			chainRows(t, &c, func(r detectors.Rows) {
				for i := range r.Scores {
					if i > 3 && i < r.Fresh-3 {
						continue
					}
					described++
					if err := checkEvidence(op, &r, i, d.Describe(r, i)); err != nil {
						t.Errorf("%s, %s: row %d: %v", op, c.Name, i, err)
					}
				}
			})
		}
		if described == 0 {
			t.Errorf("op %s: no score was described", op)
		}
	}
}

func checkEvidence(op detectors.Op, r *detectors.Rows, i int, e detectors.Evidence) error {
	if e.From > e.To || e.To >= r.Len() || e.From < -1<<24 {
		return fmt.Errorf("rows %d to %d of %d", e.From, e.To, r.Len())
	}
	for _, p := range e.Inputs {
		if p.From != detectors.Outside && (p.From > p.To || p.To >= r.Len()) || p.Role == "" || p.Distance < 0 {
			return fmt.Errorf("part %+v of %d rows", p, r.Len())
		}
	}
	for _, shares := range [][]float64{e.Rows, e.Fields} {
		sum := 0.0
		for _, v := range shares {
			sum += v
		}
		if shares != nil && !(math.Abs(sum-1) <= 1e-9) {
			return fmt.Errorf("shares %v sum up to %v", shares, sum)
		}
	}
	score := float64(r.Scores[i])
	if math.IsNaN(score) || score > 1e5 {
		return nil
	}
	want, tol := evidenceScore(op.String(), r, &e), 1e-5
	if strings.HasSuffix(op.String(), "sst") { // rounding may decide the score of the fast form
		until := r.Until(i)
		op.Spec().Score(until)
		score = float64(until.Scores[i])
	}
	if want == want && !(math.Abs(want-score) <= tol*max(1, math.Abs(score))) {
		return fmt.Errorf("the evidence %+v makes a score of %v, it is %v", e, want, score)
	}
	return nil
}

// evidenceScore returns the score that follows from the evidence; NaN where none does.
func evidenceScore(op string, r *detectors.Rows, e *detectors.Evidence) float64 {
	measure := func(name string) float64 {
		for _, m := range e.Measures {
			if m.Name == name {
				return m.Value
			}
		}
		return math.NaN()
	}
	sum := 0.0
	for _, p := range e.Inputs {
		sum += p.Distance
	}
	switch op {
	case "knn":
		if n := len(e.Inputs); n > 0 { // of fewer points than K the sum is extrapolated
			k, self := r.Params.Int(0), r.Params.Int(3)
			return sum * float64(k) / float64(n+self)
		}
	case "discord":
		if n := r.Params[3:]; len(e.Inputs) > 0 && len(n) == 1 {
			return sum / float64(len(e.Inputs))
		}
	case "lof":
		return measure("mean density of the neighbours") / measure("local reachability density")
	case "zscore":
		return math.Abs(measure("difference from the mean")) / measure("standard deviation")
	case "ar":
		return math.Abs(measure("innovation (measured less predicted)")) / measure("usual innovation (root mean square)")
	case "season":
		return math.Abs(measure("difference from the bin's level")) / measure("usual difference")
	case "solvingset":
		return measure("weight") / measure("cut of the model")
	case "value":
		if r.Params[0] != 0 {
			return -measure("value")
		}
		return measure("value")
	case "flatline":
		if len(e.Inputs) == 1 {
			return float64(e.Inputs[0].To - e.Inputs[0].From)
		}
	case "scan":
		if len(e.Regions) > 0 {
			return e.Regions[0].Ratio
		}
	case "svdsst", "ikasst":
		return measure("share of the present that the past's directions do not explain")
	}
	return math.NaN()
}
