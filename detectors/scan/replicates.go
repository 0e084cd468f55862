package scan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"odradek/detectors"
)

// DefaultReplicates is the usual number of null maps of a p-value.
const DefaultReplicates = 999

// Replicates draws null maps of a grid: maps of the same baselines and the same total count, in which
// no rectangle differs. For Poisson's model they are multinomial: each count falls into a cell with a
// probability in proportion to its baseline. For Bernoulli's they are hypergeometric: the cases are
// drawn from the trials without replacement.
//
// Up to [MaxCounted] counts are drawn one by one, by integers alone: a random number of 64 bits chooses
// one of the units of all baselines, and with it the cell. For Bernoulli's model, of up to [MaxTrials],
// numbers that choose a trial again are passed over, and where the cases are more than half of the
// trials, the others are drawn. Other maps are drawn by halves: the cells with a baseline are split into
// halves, and these again, and a draw gives the number of a group's counts in its first half ([split]).
// It takes about the time of one draw for each cell, regardless of the total.
//
// Learnt baselines are themselves counts of earlier times, and as uncertain: taken as known, they would make the null maps
// less varied than the counts are. So counts are drawn from an urn with a ball for each unit of the baselines, each returned with
// another of its cell: given their total, counts have this distribution (Pólya's) if their rates are the rates of the earlier counts and
// any rates were equally likely before. One draw in B+j-1, the j-th, repeats one of the draws before it, of which the numbers are
// computed again, so that draws can be made in any order. Above MaxCounted counts learnt baselines are taken as known.
//
// The random numbers are drawn with the grid's own key: the seed and all its counts and baselines. If all grids of a detector had
// the same null maps, the chance of a false alarm would be one for all of them, off by a third of itself with 999 maps at 0.01.
// The series and the time would do as well, but a task does not have them.
//
// A null map is a function of the grid, the seed and its number, to the bit: on all
// processors where counts are drawn one by one, and on processors of one architecture where halves are,
// whose probabilities are rounded to about 1e-15 of each.
type Replicates struct {
	grid    *Grid
	total   Sums
	drawn   int64    // number of counts to draw
	others  bool     // of a Bernoulli model: the others are drawn, not the cases
	limited bool     // a cell has no more than its baseline
	learnt  bool     // the baselines are counts of Poisson's model
	cell    []uint32 // those with a baseline
	before  []int64  // the sum of the baselines of the cells before each of these, and at last of all
	key     uint64
	guide   []uint32 // where counts are drawn one by one: by the first bits of a number, the first cell that it may choose
}

// Limits of maps whose counts are drawn one by one.
const (
	MaxCounted = 1 << 20 // counts
	MaxTrials  = 1 << 23 // trials of Bernoulli's model, each of which is a bit of memory
)

// NewReplicates returns the null maps of a grid that has passed Check; learnt says that its baselines are sums of earlier counts.
// There are none of families other than Poisson and Bernoulli, and Bernoulli's baselines are trials, never learnt.
func NewReplicates(g *Grid, f Family, seed uint64, learnt bool) (*Replicates, error) {
	r := &Replicates{grid: g, total: g.total(), key: g.key(seed)}
	r.drawn = r.total.Count
	switch f.(type) {
	case Poisson:
		r.learnt = learnt
	case Bernoulli:
		r.limited = true
		if others := r.total.Baseline - r.total.Count; others < r.drawn {
			r.drawn, r.others = others, true
		}
	default:
		return nil, fmt.Errorf("scan: there are no null maps of the model %T, use Poisson or Bernoulli", f)
	}
	sum := int64(0)
	for i, b := range g.Baseline {
		if b > 0 {
			r.cell, r.before = append(r.cell, uint32(i)), append(r.before, sum)
			sum += b
		}
	}
	r.before = append(r.before, sum)
	if r.drawn <= MaxCounted && (!r.limited || sum <= MaxTrials) && len(r.cell) > 0 {
		r.guide = make([]uint32, 1<<bits.Len(uint(len(r.cell)-1)))
		cell := 0
		for i := range r.guide {
			unit, _ := bits.Mul64(uint64(i)<<r.unguided(), uint64(sum))
			for uint64(r.before[cell+1]) <= unit {
				cell++
			}
			r.guide[i] = uint32(cell)
		}
	}
	return r, nil
}

// unguided returns the number of bits of a random number that are not in the guide's index.
func (r *Replicates) unguided() int { return 64 - bits.Len(uint(len(r.guide)-1)) }

// Draw sets count to the counts of a null map, by its number.
func (r *Replicates) Draw(count []int64, replicate int) {
	clear(count)
	if r.guide != nil {
		r.choose(count, newRandom(r.key, replicate))
	} else {
		r.share(count, newRandom(r.key, replicate), r.drawn, 0, len(r.cell))
	}
	if r.others {
		for i, b := range r.grid.Baseline {
			count[i] = b - count[i]
		}
	}
}

// choose draws the counts one by one: x chooses the unit x*B/2^64 of the B units of the
// baselines, rounded down.
func (r *Replicates) choose(count []int64, random random) {
	if r.learnt {
		r.repeat(count, random)
		return
	}
	unguided, all, left := r.unguided(), uint64(r.total.Baseline), r.drawn
	var chosen []uint64 // a bit for each trial
	if r.limited {
		chosen = make([]uint64, all/64+1)
	}
	add := func(x uint64) {
		unit, _ := bits.Mul64(x, all)
		if chosen != nil {
			word, bit := &chosen[unit/64], uint64(1)<<(unit%64)
			if *word&bit != 0 {
				return
			}
			*word |= bit
		}
		left--
		count[r.cell[r.after(r.guide[x>>unguided], unit)]]++
	}
	for i := uint64(0); left > 0; i++ {
		x, y := random.draw(i)
		add(x)
		if left > 0 {
			add(y)
		}
	}
}

// after returns the first cell from one on whose units end after a unit.
func (r *Replicates) after(cell uint32, unit uint64) uint32 {
	for uint64(r.before[cell+1]) <= unit {
		cell++
	}
	return cell
}

// repeat draws the counts of a map with learnt baselines: the i-th number x, from 0, chooses the unit x*(B+i)/2^64, of which those
// from B on are the i draws before it.
func (r *Replicates) repeat(count []int64, random random) {
	all := uint64(r.total.Baseline)
	cells := make([]uint32, r.drawn) // of the draws
	add := func(i, x uint64) {
		unit, _ := bits.Mul64(x, all+i)
		if unit >= all {
			cells[i] = cells[unit-all]
		} else {
			high, low := bits.Mul64(unit, uint64(len(r.guide)))
			at, _ := bits.Div64(high, low, all)
			cells[i] = r.after(r.guide[at], unit)
		}
		count[r.cell[cells[i]]]++
	}
	for i := uint64(0); i < uint64(r.drawn); i += 2 {
		x, y := random.draw(i / 2)
		add(i, x)
		if i+1 < uint64(r.drawn) {
			add(i+1, y)
		}
	}
}

// share draws the distribution of n counts among the cells from one to another.
func (r *Replicates) share(count []int64, random random, n int64, from, to int) {
	for n > 0 && to-from > 1 {
		half := (from + to) / 2
		s := newSplit(n, r.before[half]-r.before[from], r.before[to]-r.before[half], r.limited)
		k := s.draw(random, uint32(half))
		r.share(count, random, k, from, half)
		n, from = n-k, half
	}
	if n > 0 {
		count[r.cell[from]] = n
	}
}

// DefinePValues is the definition of p-values of regions that were found with the same family and
// options: for each, the probability of one that is at least as anomalous in a map without any,
// as estimated from n null maps. It is one more than the number of those whose most anomalous
// rectangle, within the limits of o, has at least the region's ratio, divided by n+1 (Dwass,
// Annals of Mathematical Statistics 28, 1957).
func (r *Replicates) DefinePValues(f Family, o Options, found []Region, n int) []float64 {
	p := slices.Repeat([]float64{1}, len(found))
	for replicate := range n {
		g := &Grid{r.grid.Rows, r.grid.Cols, make([]int64, len(r.grid.Count)), r.grid.Baseline}
		r.Draw(g.Count, replicate)
		for _, first := range Define(g, f, Options{MaxRows: o.MaxRows, MaxCols: o.MaxCols, Direction: o.Direction}) {
			for i, region := range found {
				if first.Ratio >= region.Ratio {
					p[i]++
				}
			}
		}
	}
	for i := range p {
		p[i] /= float64(n + 1)
	}
	return p
}

// PValues returns what DefinePValues does, to the bit.
func (r *Replicates) PValues(f Family, o Options, found []Region, n int, parallel detectors.Parallel) []float64 {
	if len(found) == 0 {
		return nil
	}
	level, enough := math.Inf(1), 0.0
	for _, region := range found {
		level, enough = min(level, region.Ratio), max(enough, region.Ratio)
	}
	largest := r.largest(f, o, level, enough, n, parallel)
	p := make([]float64, len(found))
	for i, region := range found {
		reached := 1
		for _, v := range largest {
			if v >= region.Ratio {
				reached++
			}
		}
		p[i] = float64(reached) / float64(n+1)
	}
	return p
}

// largest returns the largest ratio of each of n null maps. Instead of a ratio below level it may
// return any other below it, and instead of one of at least enough any other such.
func (r *Replicates) largest(f Family, o Options, level, enough float64, n int, parallel detectors.Parallel) []float64 {
	observed := newScanner(r.grid, f, o)
	filters := observed.filters(level)
	var memory sync.Pool // of scanners
	largest := make([]float64, n)
	parallel(n, func(i int) {
		s, ok := memory.Get().(*scanner)
		if !ok {
			s = observed.twin()
		}
		r.Draw(s.grid.Count, i)
		s.count()
		largest[i] = s.best(nil, filters, enough, detectors.Sequential).Ratio
		memory.Put(s)
	})
	return largest
}
