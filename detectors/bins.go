package detectors

import (
	"errors"
	"fmt"
	"math"
)

// This file keeps a binned summary of the points that have left a key's window: Yu,
// GPU-powered outlier detection on stream data, 2017, sections 3.2 and 3.4. Each
// dimension's range is cut into cells; a bin is a cell of all dimensions with
// the count C of the points that fell into it and their mean M. The means serve
// a method as virtual points, weighted by the counts.
//
// It is a fold: the state is a function of the points in their order alone.
//
// # Periods
//
// Points are counted (c, and their mean m) for a period of Period points of the key.
// At its end the period joins the summary; before that it has no effect:
//
//  1. A bin with c below half of the mean c of the bins that have any (c = 0
//     included) is rare: C is multiplied by Decay. (The paper says
//     "significantly smaller".)
//  2. M = (c m + C M) / (c + C), then C = c + C.
//  3. Bins with C below 1 are dropped.
//
// # Ranges
//
// The paper takes the ranges of the whole data; a stream's ranges are not known. The range begins with
// the first point. A point outside widens it to the point and by a quarter of the new width beyond. At
// a period's end, a range of which the bins' means and the period's points cover less than a quarter is
// narrowed to these, with a quarter of their width on either side. Then all bins move to the cells of
// their means, and bins in one cell are merged. In between cells do not change. So one extreme value
// coarsens the cells until its bin is dropped, a period or a few later. (The paper sums a cell's width
// over the dimensions; here each dimension has a separate width.)
//
// With one cell a dimension there is one bin: the mean of the past. A dimension
// that is constant has one cell.
//
// # Use
// The summary remembers states of the key that have left the window: a return to one of them is no
// outlier. TestSummaryKnowsWhatTheWindowForgot (package lof) has a machine that mostly works in one state,
// now and then in another, and whose faults are equally far. Local outlier factors (window 100, k = 10,
// two dimensions, 40 cells) tell faults from returns with an AUROC of 0.58 without the summary and of
// 1.00 with it; at the threshold that finds 9 of 10 faults, 98 % of the returns exceed it without the
// summary, none with it. The state has to occupy about k bins: with 20 cells, where it occupies fewer,
// the AUROC is 0.67. A state that does not return is forgotten: at a decay of 0.98, 600 periods later.
//
// # Bounds
//
// There are never more than Max bins. A further one replaces the bin with the least
// C + c, the oldest of equals.

// rare is the share of the mean count of a period's bins below which a bin is rare.
const rare = 0.5

// BinParams are the parameters of a summary. The zero value of a field after Dim means its default.
type BinParams struct {
	Dim    int     // numbers of a point
	Cells  int     // cells a dimension, 1 to 1024; default 10
	Period int     // points to a period; default 256
	Decay  float64 // 0 < Decay < 1; default 0.9
	Max    int     // bins, 1 to 4096; default 256
}

// Defaults sets the fields that are 0 and reports every fault.
func (p *BinParams) Defaults() error {
	var faults []error
	check := func(name string, v *int, preset, most int) {
		if *v == 0 {
			*v = preset
		}
		if *v < 1 || *v > most {
			faults = append(faults, fmt.Errorf("detectors: bins: %s is %d, use 1 to %d", name, *v, most))
		}
	}
	check("dimension", &p.Dim, 0, 1<<16)
	check("number of cells", &p.Cells, 10, 1<<10)
	check("period", &p.Period, 256, 1<<20)
	check("number of bins", &p.Max, 256, 1<<12)
	if p.Decay == 0 {
		p.Decay = 0.9
	}
	if !(p.Decay > 0 && p.Decay < 1) {
		faults = append(faults, fmt.Errorf("detectors: bins: decay is %v, use a number above 0 and below 1", p.Decay))
	}
	return errors.Join(faults...)
}

// The state is flat: a head, the lower and the upper ends of the ranges, the ends of
// the period's points, and the bins in the order of their creation. An empty slice is
// an empty summary.
const (
	atPoints = 0 // points of this period
	headSize = 1

	atCell    = 0 // the number of the cell
	atCount   = 1 // C
	atPeriod  = 2 // c
	atMean    = 3 // M, and after it m
	binHeader = 3
)

func (p *BinParams) fixed() int  { return headSize + 4*p.Dim }
func (p *BinParams) binLen() int { return binHeader + 2*p.Dim }

// MaxLen is the largest length of a state.
func (p *BinParams) MaxLen() int { return p.fixed() + p.Max*p.binLen() }

// Valid reports whether a state can have this length.
func (p *BinParams) Valid(state []float64) bool {
	n := len(state)
	return n == 0 || n >= p.fixed() && n <= p.MaxLen() && (n-p.fixed())%p.binLen() == 0
}

func (p *BinParams) bins(state []float64) int { return (len(state) - p.fixed()) / p.binLen() }

func (p *BinParams) bin(state []float64, i int) []float64 {
	at := p.fixed() + i*p.binLen()
	return state[at : at+p.binLen()]
}

// Add adds a point of Dim numbers to a state, which is changed in place where it
// has the capacity, and returns it. A point that is not finite is left out.
func (p *BinParams) Add(state, point []float64) []float64 {
	for _, v := range point {
		if v-v != 0 {
			return state
		}
	}
	if len(state) == 0 {
		state = append(state[:0], 0)
		for range 4 {
			state = append(state, point...)
		}
	}
	from, to := p.taken(state)
	for c, v := range point {
		if state[atPoints] == 0 {
			from[c], to[c] = v, v
		}
		from[c], to[c] = min(from[c], v), max(to[c], v)
	}
	state = p.widen(state, point)
	cell := p.cell(state, point)
	i := p.find(state, cell)
	if i < 0 {
		state = p.insert(state, cell)
		i = p.bins(state) - 1
	}
	b := p.bin(state, i)
	b[atPeriod]++
	mean := b[atMean+p.Dim:]
	for c, v := range point {
		mean[c] = towards(mean[c], v, 1/b[atPeriod])
	}
	if state[atPoints]++; int(state[atPoints]) >= p.Period {
		state = p.end(state)
	}
	return state
}

// Count returns the number of virtual points.
func (p *BinParams) Count(state []float64) int {
	n := 0
	for i := range p.count(state) {
		if p.bin(state, i)[atCount] > 0 {
			n++
		}
	}
	return n
}

func (p *BinParams) count(state []float64) int {
	if len(state) == 0 {
		return 0
	}
	return p.bins(state)
}

// Pack puts the virtual points, less centre, into dst, and after them their
// counts: Count(state)*(Dim+1) numbers.
func (p *BinParams) Pack(dst []float32, state, centre []float64) { packBins(p, dst, state, centre) }

// PackF64 is Pack without a centre and without rounding.
func (p *BinParams) PackF64(dst, state []float64) { packBins(p, dst, state, make([]float64, p.Dim)) }

func packBins[F float32 | float64](p *BinParams, dst []F, state, centre []float64) {
	counts := dst[len(dst)/(p.Dim+1)*p.Dim:]
	for i := range p.count(state) {
		b := p.bin(state, i)
		if b[atCount] <= 0 {
			continue
		}
		for c, v := range b[atMean : atMean+p.Dim] {
			dst[c] = F(v - centre[c])
		}
		counts[0] = F(b[atCount])
		dst, counts = dst[p.Dim:], counts[1:]
	}
}

func (p *BinParams) ranges(state []float64) (low, high []float64) {
	return state[headSize : headSize+p.Dim], state[headSize+p.Dim : headSize+2*p.Dim]
}

func (p *BinParams) taken(state []float64) (from, to []float64) {
	at := headSize + 2*p.Dim
	return state[at : at+p.Dim], state[at+p.Dim : at+2*p.Dim]
}

// cell returns the number of a point's cell: a hash of the tuple of its cells, because a
// linear number overflows for many dimensions, cut to what a float64 holds.
func (p *BinParams) cell(state, point []float64) float64 {
	low, high := p.ranges(state)
	h := uint64(0xcbf29ce484222325)
	for c, v := range point {
		h ^= uint64(p.interval(v, low[c], high[c]))
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return float64(h >> 11)
}

// interval returns the number, from 0, of the cell between low and high that contains v.
func (p *BinParams) interval(v, low, high float64) int {
	if !(high > low) {
		return 0
	}
	// Halves, so that a difference does not overflow.
	switch t := (v/2 - low/2) / (high/2 - low/2) * float64(p.Cells); {
	case !(t >= 0):
		return 0
	case t >= float64(p.Cells):
		return p.Cells - 1
	default:
		return int(t)
	}
}

func (p *BinParams) find(state []float64, cell float64) int {
	for at, step := p.fixed()+atCell, p.binLen(); at < len(state); at += step {
		if state[at] == cell {
			return (at - p.fixed()) / step
		}
	}
	return -1
}

// insert adds an empty bin; where there are Max, it replaces the one with the least count.
func (p *BinParams) insert(state []float64, cell float64) []float64 {
	if n := p.bins(state); n == p.Max {
		thinnest, least := 0, math.Inf(1)
		for i := range n {
			b := p.bin(state, i)
			if v := b[atCount] + b[atPeriod]; v < least {
				thinnest, least = i, v
			}
		}
		at := p.fixed() + thinnest*p.binLen()
		copy(state[at:], state[at+p.binLen():])
		state = state[:len(state)-p.binLen()]
	}
	n := len(state)
	for range p.binLen() {
		state = append(state, 0)
	}
	state[n+atCell] = cell
	return state
}

// widen makes the ranges cover a point.
func (p *BinParams) widen(state, point []float64) []float64 {
	low, high := p.ranges(state)
	moved := false
	for c, v := range point {
		switch {
		case v < low[c]:
			low[c] = finite(v - (high[c]/4 - v/4))
			moved = true
		case v > high[c]:
			high[c] = finite(v + (v/4 - low[c]/4))
			moved = true
		}
	}
	if moved {
		state = p.move(state)
	}
	return state
}

func finite(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// end closes a period.
func (p *BinParams) end(state []float64) []float64 {
	state[atPoints] = 0
	total, some := 0.0, 0.0
	for i := range p.bins(state) {
		if c := p.bin(state, i)[atPeriod]; c > 0 {
			total += c
			some++
		}
	}
	kept := state[:p.fixed()]
	for i := range p.bins(state) {
		b := p.bin(state, i)
		if b[atPeriod] < rare*total/some {
			b[atCount] *= p.Decay
		}
		mix(b[atMean:atMean+p.Dim], b[atMean+p.Dim:], b[atCount], b[atPeriod])
		b[atCount] += b[atPeriod]
		b[atPeriod] = 0
		clear(b[atMean+p.Dim:])
		if b[atCount] >= 1 {
			kept = append(kept, b...)
		}
	}
	state = kept
	return p.narrow(state)
}

// mix merges another mean, of weight v, into mean, of weight w.
func mix(mean, other []float64, w, v float64) {
	if v == 0 {
		return
	}
	for c := range mean {
		mean[c] = towards(mean[c], other[c], v/(w+v))
	}
}

// towards returns the point at a share of the way from a to b.
func towards(a, b, share float64) float64 {
	if d := b - a; d-d == 0 {
		return a + d*share
	}
	return a*(1-share) + b*share
}

// narrow fits ranges that have become too wide.
func (p *BinParams) narrow(state []float64) []float64 {
	low, high := p.ranges(state)
	first, last := p.taken(state)
	moved := false
	for c := range p.Dim {
		from, to := first[c], last[c]
		for i := range p.bins(state) {
			v := p.bin(state, i)[atMean+c]
			from, to = min(from, v), max(to, v)
		}
		if from/4 < to/4 && to/4-from/4 < high[c]/16-low[c]/16 {
			low[c], high[c] = finite(from-(to/4-from/4)), finite(to+(to/4-from/4))
			moved = true
		}
	}
	if moved {
		state = p.move(state)
	}
	return state
}

// move puts each bin into the cell of its mean and merges bins of one cell into the first.
func (p *BinParams) move(state []float64) []float64 {
	n := p.bins(state)
	kept := state[:p.fixed()]
	for i := range n {
		b := p.bin(state, i)
		mean, period := b[atMean:atMean+p.Dim], b[atMean+p.Dim:]
		if b[atCount] == 0 {
			mean = period
		}
		cell := p.cell(state, mean)
		if at := p.find(kept, cell); at >= 0 {
			to := p.bin(kept, at)
			mix(to[atMean:atMean+p.Dim], b[atMean:atMean+p.Dim], to[atCount], b[atCount])
			mix(to[atMean+p.Dim:], period, to[atPeriod], b[atPeriod])
			to[atCount] += b[atCount]
			to[atPeriod] += b[atPeriod]
			continue
		}
		b[atCell] = cell
		kept = append(kept, b...)
	}
	return kept
}
