package backtest

import (
	"math"

	"odradek/processor/state"
)

// plot holds the curves of a series, its scores and thresholds, in a fixed number of buckets of equal width
// in event time: the lowest and the highest value, and the highest score and threshold. The width doubles
// when the time outgrows the buckets, so that each row is processed once, in a few nanoseconds.
type plot struct {
	start int64 // time of the first bucket
	width uint8 // of a bucket: 1<<width microseconds
	used  bool
	last  int // last bucket that is not empty
	n     int
	dim   int // fields drawn
	base  []float64
	lo    []float32 // by field and bucket, less base; NaN for none
	hi    []float32
	top   []float32 // by detector and bucket: the highest score
	bound []float32 // and the highest threshold that is finite
	heat  []*heat   // by detector, nil for none; nil where none is kept
}

// plotFields is how many fields of a series are drawn.
const plotFields = 6

var nan32 = float32(math.NaN())

func newPlot(n, dim, dets int) *plot {
	dim = min(dim, plotFields)
	p := &plot{n: n, dim: dim, base: make([]float64, dim), lo: make([]float32, n*dim), hi: make([]float32, n*dim),
		top: make([]float32, n*dets), bound: make([]float32, n*dets)}
	for _, list := range [][]float32{p.lo, p.hi, p.top, p.bound} {
		for i := range list {
			list[i] = nan32
		}
	}
	return p
}

// bucket returns the bucket of a time.
func (p *plot) bucket(t int64) int {
	if !p.used {
		p.used, p.start = true, t
	}
	at := (t - p.start) >> p.width
	if at < 0 {
		return 0
	}
	for at >= int64(p.n) {
		if p.last == 0 { // nothing to merge
			p.width++
		} else {
			p.halve()
		}
		at >>= 1
	}
	p.last = max(p.last, int(at))
	return int(at)
}

// halve merges the buckets in pairs.
func (p *plot) halve() {
	p.width++
	p.last /= 2
	merge := func(list []float32, least bool) {
		for from := 0; from < len(list); from += p.n {
			l := list[from : from+p.n]
			for i := range p.n / 2 {
				a, b := l[2*i], l[2*i+1]
				if a != a || b == b && (b < a) == least && b != a {
					a = b
				}
				l[i] = a
			}
			for i := p.n / 2; i < p.n; i++ {
				l[i] = nan32
			}
		}
	}
	merge(p.lo, true)
	merge(p.hi, false)
	merge(p.top, false)
	merge(p.bound, false)
	for _, h := range p.heat {
		if h != nil {
			h.halve()
		}
	}
}

func (p *plot) values(t int64, v []float64) {
	first := !p.used
	at := p.bucket(t)
	for c := range p.dim {
		x := v[c]
		if x-x != 0 {
			continue
		}
		if first {
			p.base[c] = x
		}
		y := float32(x - p.base[c])
		i := c*p.n + at
		if !(p.lo[i] <= y) {
			p.lo[i] = y
		}
		if !(p.hi[i] >= y) {
			p.hi[i] = y
		}
	}
}

func (p *plot) score(d int, r *state.Row) {
	i := d*p.n + p.bucket(r.Time)
	if !(p.top[i] >= r.Judged) {
		p.top[i] = r.Judged
	}
	if b := r.Threshold; b-b == 0 && !(p.bound[i] >= b) {
		p.bound[i] = b
	}
}
