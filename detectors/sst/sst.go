// Package sst computes the singular spectrum transformation in its implicit Krylov
// form, IKA-SST: Idé and Tsuda, Change-point detection using Krylov subspace
// learning, SDM 2007; with the feedback of Ueno and Suzumura, Scalable anomaly
// detection on data stream processing with GPU task parallelism, section 2.2.
//
// # The score
//
// A score reads the last 2w-1+gamma values of a series. The trajectory
// (Hankel) matrix of the first 2w-1 of them, the past, is H1: element (i, j) is
// value i+j. The matrix of the last 2w-1, the current, is H2. Both are w by w and
// symmetric.
//
//  1. Both are centred: the mean of the 2(2w-1) numbers (those that both
//     contain counted twice) is subtracted from each.
//  2. p steps of the power method on H2 H2', from the feedback vector a, give
//     mu, which tends to the current's largest left singular vector.
//  3. The next score's a is mu + epsilon a0, normalised. a0 is a fixed random
//     unit vector, so that no direction stays lost.
//  4. k steps of Lanczos on C = H1 H1' from mu give the tridiagonal T, whose
//     eigenvalues (Ritz values) approximate the largest of C and whose
//     eigenvectors' first components are mu's coordinates along them. (Ueno
//     and Suzumura print H1 for C. H1 is symmetric here, so Lanczos applies, but
//     its eigenvalues are signed and the largest are not the ones with the largest
//     absolute value; Idé and Tsuda have C.)
//  5. The score is 1 minus the sum of the squares of those first components
//     over the r largest Ritz values: the share of mu outside of the past's
//     r leading directions, in [0, 1].
//
// The feedback makes a score depend on those before it; everything else about
// it is a function of the rows it reads. Scoring n fresh values at once is
// therefore the same as scoring one n times.
//
// # Degenerate input
//
// The papers leave these cases undefined:
//
//   - A NaN or an infinity in what a score reads, the values between the past
//     and the current included, makes it NaN. The feedback stays as it was.
//   - A current or a past that is constantly the mean, up to rounding (1e-12 of the
//     mean), has no directions: the score is 0. In the first
//     case, and where the power method meets 0, the feedback stays as it was.
//   - Lanczos ends early, with a smaller T, when beta is not above 1e-5 of the
//     largest element of T so far: mu's Krylov space is exhausted. (Rounding to
//     float32 makes a beta of 0 up to 1.5e-6 of it; Lanczos on that would
//     find directions twice.)
//   - The r places go to the largest Ritz values, but rounding makes spurious ones:
//     Lanczos in an exhausted space finds the past's largest eigenvalues again, or
//     directions in which mu has no component. So a value takes only a part of a place
//     where it is less than a thousandth below the one before, in proportion to that
//     distance, or where the square of mu's component along its vector is below 1e-8, in
//     proportion to that. The last one counts for the rest of its place at most. (Of
//     20,000 float32 scores of recordings of servers 33 were off by more than 0.01 where
//     such a value had taken a whole place, none with this rule; of spikes on a constant
//     0, 3 % and 0.01 %.)
//   - A Ritz value must be above 1e-5 of the trace of C, the square of H1's Frobenius
//     norm (1/300 of its amplitude), to count: a past of lower rank than r spans less.
//     Without this rule the rounding errors of a noise-free past would explain any
//     current. The limit is relative to the past itself, not to the largest Ritz value:
//     a mu orthogonal to the whole past, the largest possible change, has only small ones.
//
// # The rows that a score covers
//
// Let e be the newest value a score reads. The past ends with value
// e-gamma, the current begins with value e-2w+2. A change whose first new value
// is c leaves the past untouched if c > e-gamma and fills the current if
// c <= e-2w+2. With gamma >= 2w-1 both hold for c from e-gamma+1 to e-2w+2, and
// the score covers those rows. With a smaller gamma past and current
// overlap and no such c exists; the score then covers t = e-gamma+1 alone, the first value
// after the past, which is the papers' convention.
package sst

import (
	"errors"
	"fmt"
	"math"
)

// MaxKrylov is the largest dimension of the Krylov space.
const MaxKrylov = 32

const (
	still      = 1e-12 // of the mean: a series within this distance of it is constant
	breakdown  = 1e-5  // of the largest element of T: a beta up to it ends Lanczos
	faint      = 1e-8  // squared component of mu: Ritz values with less take only a part of a place
	negligible = 1e-5  // of the trace of C: directions up to it do not count
	apart      = 1e-3  // relative distance below the value before from which a Ritz value has its own place
)

// Params are the parameters of IKA-SST. The zero value of a field after Window means its default.
type Params struct {
	Window  int       // w: rows and columns of the trajectory matrices
	Rank    int       // r: directions of the past; default 3
	Krylov  int       // k: steps of Lanczos; default 2r for even r, 2r-1 for odd r, but at least r+1
	Gamma   int       // lag from the past to the current; default 2w-1+8, so that 8 values lie between them
	Steps   int       // p: steps of the power method a score; default 2
	Epsilon float64   // share of a0 in the feedback; default 1e-3
	A0      []float32 // w numbers, not all 0; see Start
}

// Defaults sets the fields that are 0 and reports every fault.
func (p *Params) Defaults() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("sst: "+format, args...)) }
	if p.Rank == 0 {
		p.Rank = 3
	}
	if p.Krylov == 0 && p.Rank > 0 {
		p.Krylov = min(max(2*p.Rank-p.Rank%2, p.Rank+1), max(p.Window, 0))
	}
	if p.Gamma == 0 && p.Window > 0 {
		p.Gamma = 2*p.Window - 1 + 8
	}
	if p.Steps == 0 {
		p.Steps = 2
	}
	if p.Epsilon == 0 {
		p.Epsilon = 1e-3
	}
	if p.Window < 2 || p.Window > 1<<12 {
		fault("window is %d, use 2 to %d", p.Window, 1<<12)
	}
	if p.Rank < 1 || p.Rank >= max(p.Window, 2) {
		fault("rank is %d, use 1 to window-1", p.Rank)
	}
	if p.Krylov <= p.Rank || p.Krylov > p.Window || p.Krylov > MaxKrylov {
		fault("Krylov dimension is %d, use rank+1 to the lesser of window and %d", p.Krylov, MaxKrylov)
	}
	if p.Gamma < 1 || p.Gamma > 1<<16 {
		fault("gamma is %d, use 1 to %d", p.Gamma, 1<<16)
	}
	if p.Steps < 1 || p.Steps > 100 {
		fault("power steps are %d, use 1 to 100", p.Steps)
	}
	if !(p.Epsilon > 0 && p.Epsilon <= 1) {
		fault("epsilon is %v, use a number above 0 up to 1", p.Epsilon)
	}
	return errors.Join(faults...)
}

// Reads returns the number of values that one score reads.
func (p *Params) Reads() int { return 2*p.Window - 1 + p.Gamma }

// About returns the interval of rows that a score covers (see the package
// comment), where newest is the row of the newest value it reads.
func (p *Params) About(newest int) (from, to int) {
	from = newest - p.Gamma + 1
	return from, max(from, newest-2*p.Window+2)
}

// Start returns the unit vector a0 of a seed: w numbers of the sequence splitmix64
// (Steele, Lea and Flood 2014) begun at the seed, as integers around 0,
// normalised.
func Start(seed uint32, w int) []float32 {
	state, a := uint64(seed), make([]float64, w)
	energy := 0.0
	for i := range a {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		a[i] = float64(int64(z^z>>31)) * 0x1p-63
		energy += a[i] * a[i]
	}
	a0 := make([]float32, w)
	for i := range a0 {
		a0[i] = float32(a[i] / math.Sqrt(energy))
	}
	return a0
}
