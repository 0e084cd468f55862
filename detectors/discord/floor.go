package discord

import (
	"context"
	"errors"
	"fmt"
	"math"

	"odradek/detectors"
)

// This file has the scores of op discord with ExactAbove, as DAMP stops a search for a left neighbour early: not at the best discord so
// far, but at a floor of the series' own scores.

// floor is the number above which scores are exact. It follows the quantile share of a series' scores: a score above it raises it, and
// another one lowers it by as much less as there are more of these. So it depends on which exact scores are above it, and not on what a
// task has in place of the others.
type floor struct {
	value float32
	count int     // scores so far, at most floorScores
	share float64 // Params.ExactAbove
	lag   int     // of leftSearch, which changes no score above the floor
}

const (
	floorWords  = 3    // of the carry: value, count and lag
	floorScores = 32   // exact ones before there is a floor, which begins as their mean
	floorStep   = 0.05 // by which a score changes the floor at most
	leastFloor  = 1e-3 // a score at most this is of a copy, whose roundings say nothing
)

func floorOf(r *detectors.Rows) floor {
	f := floor{share: float64(r.Params.Float32(len(r.Params) - 1))}
	if len(r.Carry) > 0 {
		f.value, f.count, f.lag = r.Carry.Float32(0), r.Carry.Int(1), r.Carry.Int(2)
	}
	return f
}

func (f *floor) write(r *detectors.Rows) {
	r.Next.SetFloat32(0, f.value)
	r.Next.SetInt(1, f.count)
	r.Next.SetInt(2, f.lag)
}

// reached reports whether a score need not be exact.
func (f *floor) reached(score float32) bool {
	return f.count == floorScores && score <= max(f.value, leastFloor)
}

// add takes the next score. One that is NaN changes nothing.
func (f *floor) add(score float32) {
	switch {
	case score != score:
	case f.count < floorScores:
		f.count++
		f.value += (score - f.value) / float32(f.count)
	case f.reached(score):
		f.value = max(leastFloor, float32(float64(f.value)*(1-float64(floorStep*(1-f.share)))))
	default:
		f.value = max(leastFloor, float32(float64(f.value)*(1+float64(floorStep*f.share))))
	}
}

// aboveFloor computes the scores of a task with ExactAbove. Where leftSearch does not apply, all are exact.
func (m *memory) aboveFloor(ctx context.Context, r *detectors.Rows) {
	all, f := lengths(r), floorOf(r)
	exact := *r
	exact.Params, exact.Next = r.Params[:len(r.Params)-1], nil
	search := r.Dim == 1 && len(all)*r.Params.Int(paramPoints) <= mostPrepared
	prepared := false
	for i := range r.Scores {
		if ctx.Err() != nil {
			return
		}
		m.intsOf(all)
		m.own.sized(len(all))
		enough := func(scores []float64) bool {
			sum := 0.0
			for a, score := range scores {
				setOutputs(r, i, a, len(scores), score, &sum)
			}
			return f.reached(r.Scores[i])
		}
		q, found := query(r, i, m.lengths[0]), false
		if search {
			f.lag, found = m.search.scores(&m.own.left, m.own.scores, r.X64, m.lengths, q.ExcludeFlat, q.From, q.At+q.M, f.lag, enough)
		}
		if found {
			enough(m.own.scores)
		} else {
			prepared = m.exact(ctx, &exact, i, i+1, prepared, detectors.Sequential)
		}
		f.add(r.Scores[i])
	}
	f.write(r)
}

// compareAboveFloor compares results of a task with ExactAbove, the second of which is exact.
func compareAboveFloor(r *detectors.Rows, got, want detectors.Result, tol float64) error {
	if len(got.Scores) != len(want.Scores) || len(got.Detail) != len(want.Detail) || len(got.Next) != len(want.Next) {
		return fmt.Errorf("discord: %d scores, %d words of detail and %d of carry, want %d, %d and %d", len(got.Scores), len(got.Detail),
			len(got.Next), len(want.Scores), len(want.Detail), len(want.Next))
	}
	f, n := floorOf(r), len(want.Detail)/max(1, len(want.Scores))
	for i, exact := range want.Scores {
		score := got.Scores[i]
		edge := float64(max(f.value, leastFloor))
		switch {
		case f.count == floorScores && math.Abs(float64(exact)-edge) <= tol:
			return nil
		case f.reached(exact):
			if !(f.reached(score) && float64(score) >= float64(exact)-tol) {
				return fmt.Errorf("discord: score %d is %v, want one from %v to the floor %v", i, score, exact, edge)
			}
		default:
			err := errors.Join(detectors.CompareScores(got.Scores[i:i+1], want.Scores[i:i+1], tol, tol),
				detectors.CompareScores(got.Detail.F32()[n*i:n*(i+1)], want.Detail.F32()[n*i:n*(i+1)], tol, tol))
			if err != nil {
				return fmt.Errorf("discord: score %d, above the floor %v: %w", i, edge, err)
			}
		}
		f.add(exact)
	}
	if got.Next.Int(1) != want.Next.Int(1) {
		return fmt.Errorf("discord: a carry of %d scores, want %d", got.Next.Int(1), want.Next.Int(1))
	}
	return detectors.CompareScores(got.Next[:1].F32(), want.Next[:1].F32(), tol, tol)
}
