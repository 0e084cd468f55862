package scan

import (
	"errors"
	"fmt"
	"math"
)

// Family is a model of the counts with one parameter. The likelihood of a cell depends on the
// count and the baseline alone, and the ratio of a rectangle on their sums.
//
// Ratio must be convex in count and baseline together, which it is where LogLikelihood is.
type Family interface {
	// Check returns an error for a count c that a cell of baseline b > 0 cannot have.
	Check(c, b int64) error
	// Ratio returns the log-likelihood ratio of a rectangle of baseline b, whose count exceeds the
	// expected one of the grid's total by d, or falls short of it by -d. It has no cancelling terms.
	Ratio(d, b float64, total Sums) float64
	// Counts returns the least and the largest count that a rectangle of baseline b can have, or bounds of them.
	Counts(b float64, total Sums) (least, most float64)
	// LogLikelihood returns the log-likelihood of cells with the sums c and b, at the parameter that
	// maximises it, without the terms that do not depend on the parameter. Only differences of equal
	// sums have a meaning.
	LogLikelihood(c, b float64) float64
}

// ratio returns the log-likelihood ratio of a rectangle with the sums s; 0 in another direction.
func ratio(f Family, direction Direction, s, total Sums) float64 {
	d := s.excess(total)
	if d == 0 || d > 0 && direction == Below || d < 0 && direction == Above {
		return 0
	}
	return f.Ratio(d, float64(s.Baseline), total)
}

// bennett returns (1+u)ln(1+u) - u, for u >= -1; at least 0.
func bennett(u float64) float64 {
	switch {
	case u <= -1:
		return 1
	case math.Abs(u) < 1.0/32:
		return u * u * (1./2 - u*(1./6-u*(1./12-u*(1./20-u*(1./30-u*(1./42-u*(1./56-u*(1./72-u*(1./90-u/110)))))))))
	}
	return float64((1+u)*math.Log1p(u)) - u
}

// surplus returns u - ln(1+u), for u >= -1; at least 0.
func surplus(u float64) float64 {
	switch {
	case u <= -1:
		return math.Inf(1)
	case math.Abs(u) < 1.0/32:
		return u * u * (1./2 - u*(1./3-u*(1./4-u*(1./5-u*(1./6-u*(1./7-u*(1./8-u*(1./9-u*(1./10-u/11)))))))))
	}
	return u - math.Log1p(u)
}

// term returns scale times h(d/e), the part of a ratio of cells with the expectation e; 0 if e is 0.
func term(h func(float64) float64, e, scale, d float64) float64 {
	if !(e > 0) {
		return 0
	}
	return scale * h(d/e)
}

// xlogy returns x ln y; 0 where x is 0.
func xlogy(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

// Poisson is the model of counts of events, at a rate that is in proportion to the baseline:
// LLR = c ln(c/E) + (C-c) ln((C-c)/(C-E)), as E h(d/E) + (C-E) h(-d/(C-E)) with
// h(u) = (1+u)ln(1+u)-u.
type Poisson struct{}

// Check excludes negative counts.
func (Poisson) Check(c, _ int64) error { return notNegative(c) }

// Ratio returns Kulldorff's ratio of Poisson's model.
func (Poisson) Ratio(d, b float64, total Sums) float64 {
	e := total.expected(b)
	rest := total.expected(float64(total.Baseline) - b)
	return term(bennett, e, e, d) + term(bennett, rest, rest, -d)
}

// Counts returns 0 and the count of all cells.
func (Poisson) Counts(_ float64, total Sums) (least, most float64) { return 0, float64(total.Count) }

// LogLikelihood returns c ln(c/b).
func (Poisson) LogLikelihood(c, b float64) float64 { return xlogy(c, c/b) }

// Bernoulli is the model of cases among trials, which are the baseline: the sum over cases
// and others, inside and outside, of n ln(n/E), as four terms E h((n-E)/E).
type Bernoulli struct{}

// Check excludes negative counts, and more cases than trials.
func (Bernoulli) Check(c, b int64) error {
	if c > b {
		return fmt.Errorf("%d cases among %d", c, b)
	}
	return notNegative(c)
}

// Ratio returns Kulldorff's ratio of Bernoulli's model.
func (Bernoulli) Ratio(d, b float64, total Sums) float64 {
	others := Sums{total.Baseline - total.Count, total.Baseline}
	cases, out := total.expected(b), float64(total.Baseline)-b
	rest, other, otherRest := total.expected(out), others.expected(b), others.expected(out)
	return term(bennett, cases, cases, d) + term(bennett, rest, rest, -d) + term(bennett, other, other, -d) +
		term(bennett, otherRest, otherRest, d)
}

// Counts returns the cases that are more than the trials outside, and the trials, or the cases if these are fewer.
func (Bernoulli) Counts(b float64, total Sums) (least, most float64) {
	return max(0, float64(total.Count)-(float64(total.Baseline)-b)), min(b, float64(total.Count))
}

// LogLikelihood returns c ln(c/b) + (b-c) ln(1-c/b).
func (Bernoulli) LogLikelihood(c, b float64) float64 { return xlogy(c, c/b) + xlogy(b-c, (b-c)/b) }

// Normal is the model of sums of normal values: the count of a cell is the sum of as many
// values as its baseline, each of the given variance and of a mean that is tested. LLR =
// d^2/(2 Variance) (1/b + 1/(B-b)).
type Normal struct{ Variance float64 }

// Check accepts any count.
func (Normal) Check(int64, int64) error { return nil }

// Ratio returns the ratio for the mean.
func (n Normal) Ratio(d, b float64, total Sums) float64 {
	square := func(u float64) float64 { return u * u / 2 }
	out := float64(total.Baseline) - b
	return (term(square, b, b, d) + term(square, out, out, -d)) / n.Variance
}

// Counts returns the infinities.
func (Normal) Counts(float64, Sums) (least, most float64) { return math.Inf(-1), math.Inf(1) }

// LogLikelihood returns c^2/(2 b Variance).
func (n Normal) LogLikelihood(c, b float64) float64 {
	if b == 0 {
		return 0
	}
	return c * c / (2 * b * n.Variance)
}

// Exponential is the model of sums of waiting times: the count of a cell is the sum of as many
// times as its baseline, of a mean that is tested. LLR = b ln(E/c) + (B-b) ln((C-E)/(C-c)).
type Exponential struct{}

// Check excludes counts below 1: a sum of times is positive.
func (Exponential) Check(c, _ int64) error {
	if c < 1 {
		return fmt.Errorf("the sum of times is %d", c)
	}
	return nil
}

// Ratio returns the ratio for the mean time, as b g(d/E) + (B-b) g(-d/(C-E)) with g(u) = u - ln(1+u).
func (Exponential) Ratio(d, b float64, total Sums) float64 {
	out := float64(total.Baseline) - b
	return term(surplus, total.expected(b), b, d) + term(surplus, total.expected(out), out, -d)
}

// Counts returns 0 and the sum of all times.
func (Exponential) Counts(_ float64, total Sums) (least, most float64) {
	return 0, float64(total.Count)
}

// LogLikelihood returns b ln(b/c).
func (Exponential) LogLikelihood(c, b float64) float64 { return xlogy(b, b/c) }

func notNegative(c int64) error {
	if c < 0 {
		return errors.New("the count is negative")
	}
	return nil
}
