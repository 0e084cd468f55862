package threshold

import (
	"math"
	"slices"
	"sync"
)

// A judgement looks at few places of the sorted history: its highest scores, its 0.9 quantile and its median. A state whose threshold
// needs no other place keeps only three parts of the sorted history, its bands, in place of all of it. A band is a row of neighbours
// of the sorted history, and the number of scores before them. A score that is added or goes outside a band changes that number at
// most. Inside it, the band grows or shrinks. At its capacity it loses the end that is farther from the place that it is kept for.
//
// Bands are a cache: a place that no band has any more is selected from the ring, with its neighbours. While scores are exchangeable
// that is once in some thousand scores. So a state needs less memory, and most scores touch a fraction of the memory that a search
// and a move in a sorted history touch.

// The bands: where their four numbers are, in front of the scores of all bands.
const (
	bandStep = 4
	ofMedian = 0            // of the median
	ofNinety = bandStep     // of the 0.9 quantile
	ofTop    = 2 * bandStep // of the highest scores
	negative = 3 * bandStep // number of scores below 0
	far      = negative + 1 // no ceiling is lower, see isFar
	farLeft  = far + 1      // number of scores to come for which far holds
	farOf    = farLeft + 1  // number of spreads above the usual bound that far was computed for, negative if scores are bounded
	bandHead = farOf + 1
)

// The four numbers of a band.
const (
	atBelow  = iota // scores before it in the sorted history
	atLength        // its length; 0: nothing is known, or the history is empty
	atLowest        // its first score
	atHighest
)

// bandLeast is the shortest history with bands.
const bandLeast = 256

// banded reports whether a state keeps only bands of the sorted history.
func (p *Params) banded() bool {
	h := float64(p.History)
	switch {
	case p.History < bandLeast:
	case p.Kind == Fixed, p.Kind == Mean:
		return true
	case p.Kind == Quantile:
		return (1-p.Value)*h+1 <= h/16
	case p.Kind == Conformal:
		return p.Value*(h+1) <= h/16
	}
	return false
}

// bandSizes returns the capacity of the band of the highest scores, and of each of the other two.
func bandSizes(history int) (top, side int) { return 16 + history/10, 32 + history/40 }

// order returns the length of the part of a state that orders the scores of its ring.
func (p *Params) order() int {
	if !p.banded() {
		return p.History
	}
	top, side := bandSizes(p.History)
	return bandHead + top + 2*side
}

// scores is a history in order.
type scores struct {
	n      int
	sorted []float32 // all n; nil where there are bands
	bands  []float32
	side   int       // capacity of the bands but the top one
	ring   []float32 // the n scores, where there are bands
}

// inOrder returns a history of sorted scores.
func inOrder(sorted []float32) scores { return scores{n: len(sorted), sorted: sorted} }

// scores returns the history of a state with n scores.
func (p *Params) scores(state []float32, n int) scores {
	order := state[p.Stored() : len(state)-p.late()]
	if len(order) == p.History {
		return inOrder(order[:n])
	}
	_, side := bandSizes(p.History)
	return scores{n: n, bands: order, side: side, ring: state[head:][:n]}
}

// values returns the memory of a band's scores.
func (s *scores) values(band int) []float32 {
	v := s.bands[bandHead:]
	switch band {
	case ofMedian:
		return v[:s.side]
	case ofNinety:
		return v[s.side : 2*s.side]
	}
	return v[2*s.side:]
}

// at returns the i-th score in order.
func (s *scores) at(i int) float32 {
	if s.bands == nil {
		return s.sorted[i]
	}
	for band := ofTop; band >= 0; band -= bandStep {
		b := s.bands[band:]
		if j := i - int(b[atBelow]); j >= 0 && j < int(b[atLength]) {
			return s.values(band)[j]
		}
	}
	return s.find(i)
}

// top returns the k highest scores in order.
func (s *scores) top(k int) []float32 {
	if s.bands == nil {
		return s.sorted[s.n-k:]
	}
	b := s.bands[ofTop:]
	if int(b[atLength]) < k {
		s.find(s.n - k)
	}
	l := int(b[atLength])
	return s.values(ofTop)[l-k : l]
}

var scratch = sync.Pool{New: func() any { return new([]float32) }}

// find selects the band around the i-th place from the ring, and returns the score at that place.
func (s *scores) find(i int) float32 {
	band := ofMedian
	top := len(s.values(ofTop)) * 3 / 4
	switch {
	case s.n-i <= top:
		band = ofTop
	case i >= s.n*3/4:
		band = ofNinety
	}
	values, first, end := s.values(band), max(0, s.n-top), s.n
	if band != ofTop {
		width := min(s.n, len(values)*3/4)
		first = max(0, min(s.n-width, i-width/2))
		end = first + width
	}
	copied := scratch.Get().(*[]float32)
	defer scratch.Put(copied)
	all := append((*copied)[:0], s.ring...)
	*copied = all
	if first > 0 {
		selectLowest(all, first)
	}
	if end < s.n {
		selectLowest(all[first:], end-first)
	}
	found := all[first:end]
	slices.Sort(found)
	copy(values, found)
	s.describe(band, first, len(found))
	return found[i-first]
}

// describe sets the four numbers of a band.
func (s *scores) describe(band, below, length int) {
	b, v := s.bands[band:], s.values(band)
	if length == 0 {
		clear(b[:bandStep])
		return
	}
	b[atBelow], b[atLength], b[atLowest], b[atHighest] = float32(below), float32(length), v[0], v[length-1]
}

// selectLowest reorders scores so that the k lowest of them come first.
func selectLowest(s []float32, k int) {
	for lo, hi := 0, len(s)-1; lo < hi; {
		a, b, c := s[lo], s[(lo+hi)/2], s[hi]
		x := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for s[i] < x {
				i++
			}
			for s[j] > x {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch { // up to j at most x, from i at least x
		case k <= j:
			hi = j
		case k > i:
			lo = i
		default:
			return
		}
	}
}

// reset forgets what is known of the order of the scores in the ring.
func (s *scores) reset() {
	clear(s.bands)
	for _, x := range s.ring {
		if x < 0 {
			s.bands[negative]++
		}
	}
}

// add adds a score, which the caller writes to the ring.
func (s *scores) add(x float32) {
	if s.bands == nil {
		i := lower(s.sorted, x)
		s.sorted = s.sorted[:s.n+1]
		copy(s.sorted[i+1:], s.sorted[i:])
		s.sorted[i] = x
		s.n++
		return
	}
	s.bands[negative] += float32(sign(x))
	s.bands[farLeft] = max(0, s.bands[farLeft]-1)
	first := ofMedian
	if int(s.bands[ofTop+atLength]) == s.n { // it has every place: the others stay empty
		clear(s.bands[:ofTop])
		first = ofTop
	}
	for band := first; band <= ofTop; band += bandStep {
		s.addTo(band, x)
	}
	s.n++
}

// addTo adds a score to a band.
func (s *scores) addTo(band int, x float32) {
	b := s.bands[band : band+bandStep]
	below, length := int(b[atBelow]), int(b[atLength])
	if x < b[atLowest] && below > 0 {
		b[atBelow]++
		return
	}
	if below+length < s.n && (length == 0 || x > b[atHighest]) {
		return
	}
	v := s.values(band)
	i := lower(v[:length], x)
	switch {
	case length < len(v):
		copy(v[i+1:length+1], v[i:length])
		v[i] = x
		length++
	case band == ofTop || s.place(band)-below > length/2:
		below++
		if i > 0 {
			copy(v[:i-1], v[1:i])
			v[i-1] = x
		}
	case i < length:
		copy(v[i+1:], v[i:length-1])
		v[i] = x
	}
	s.describe(band, below, length)
}

// place returns the place in order that a band is kept for.
func (s *scores) place(band int) int {
	if band == ofMedian {
		return s.n / 2
	}
	return quantileIndex(quarters[0].q, s.n)
}

// remove takes a score away, which the caller takes from the ring.
func (s *scores) remove(x float32) {
	s.n--
	if s.bands == nil {
		i := lower(s.sorted, x)
		copy(s.sorted[i:], s.sorted[i+1:])
		s.sorted[s.n] = 0
		s.sorted = s.sorted[:s.n]
		return
	}
	s.bands[negative] -= float32(sign(x))
	for band := 0; band <= ofTop; band += bandStep {
		s.removeFrom(band, x)
	}
}

// removeFrom takes a score from a band.
func (s *scores) removeFrom(band int, x float32) {
	b := s.bands[band : band+bandStep]
	length := int(b[atLength])
	switch {
	case length == 0 || x > b[atHighest]:
	case x < b[atLowest]:
		b[atBelow]--
	default:
		v := s.values(band)[:length]
		i := lower(v, x)
		copy(v[i:], v[i+1:])
		s.describe(band, int(b[atBelow]), length-1)
	}
}

// exchange puts a score in the place of old, as the caller does in the ring.
func (s *scores) exchange(old, x float32) {
	if s.bands == nil {
		to, from := lowers(s.sorted, x, old)
		replace(s.sorted, from, x, to)
		return
	}
	s.bands[negative] += float32(sign(x) - sign(old))
	if s.bands[farLeft] > 0 {
		s.bands[farLeft]--
	}
	for band := 0; band <= ofTop; band += bandStep {
		b := s.bands[band : band+bandStep]
		lowest, highest := b[atLowest], b[atHighest]
		under, was := sign(x-lowest), sign(old-lowest)
		switch {
		case b[atLength] == 0:
		case under+sign(highest-x) > 0 && was+sign(highest-old) > 0 && b[atBelow] > 0 && (under+was == 2 || band != ofTop && s.inside(b)):
			b[atBelow] += float32(under - was) // both are outside
		case x >= lowest && x <= highest && old >= lowest && old <= highest:
			v := s.values(band)[:int(b[atLength])]
			to, from := lowers(v, x, old)
			replace(v, from, x, to)
			b[atLowest], b[atHighest] = v[0], v[len(v)-1]
		default:
			s.n--
			s.removeFrom(band, old)
			s.addTo(band, x)
			s.n++
		}
	}
}

// inside reports whether a band ends before the highest score.
func (s *scores) inside(b []float32) bool { return int(b[atBelow])+int(b[atLength]) < s.n }

// below returns how many scores are below x.
func (s *scores) below(x float32) int {
	if s.bands == nil {
		return lower(s.sorted, x)
	}
	if b := s.bands[ofTop:]; b[atLength] > 0 && (x > b[atLowest] || b[atBelow] == 0) {
		return int(b[atBelow]) + lower(s.values(ofTop)[:int(b[atLength])], x)
	}
	n := 0
	for _, y := range s.ring {
		n += sign(y - x)
	}
	return n
}

// above returns the scores above x.
func (s *scores) above(x float32) scores {
	over := math.Nextafter32(x, math.MaxFloat32)
	if s.bands == nil {
		return inOrder(s.sorted[lower(s.sorted, over):])
	}
	if b := s.bands[ofTop:]; b[atLength] > 0 && (x >= b[atLowest] || b[atBelow] == 0) {
		v := s.values(ofTop)[:int(b[atLength])]
		return inOrder(v[lower(v, over):])
	}
	var all []float32
	for _, y := range s.ring {
		if y > x {
			all = append(all, y)
		}
	}
	slices.Sort(all)
	return inOrder(all)
}

// hasNegative reports whether a score is below 0.
func (s *scores) hasNegative() bool {
	if s.bands == nil {
		return s.sorted[0] < 0
	}
	return s.bands[negative] > 0
}

// farFor is the largest number of scores for which a bound of ceilings is kept.
const farFor = 16

// isFar reports whether the ceiling of a full history is surely not below x. A score that is added in place of another moves a score of
// the sorted history by one place at most. So while d are exchanged, the median stays below the score that is d places higher, and the
// 0.9 quantile above the one that is d places lower.
func (p *Params) isFar(s *scores, x float32) bool {
	if s.bands == nil || s.n < p.History {
		return false
	}
	above := float32(clearSpreads)
	if p.Margin != 0 {
		above = float32(p.Margin)
	}
	if p.Bounded {
		above = -above
	}
	if (s.bands[farLeft] == 0 || s.bands[farOf] != above) && !p.findFar(s, above) {
		return false
	}
	return x <= s.bands[far]
}

// findFar looks for a bound of the ceilings to come.
func (p *Params) findFar(s *scores, above float32) bool {
	middle, ninety := s.n/2, quantileIndex(quarters[0].q, s.n)
	s.at(middle)
	s.at(ninety)
	low, high := s.bands[ofMedian:], s.bands[ofNinety:]
	if top := s.bands[ofTop:]; ninety >= int(top[atBelow]) {
		high = top // no other band need have the 0.9 quantile
	}
	d := min(farFor, int(low[atBelow])+int(low[atLength])-1-middle, ninety-int(high[atBelow]))
	if d < 1 {
		return false
	}
	m, q := p.open(s.at(middle+d)), p.open(s.at(ninety-d))
	if q <= m {
		return false
	}
	const less = 0.99 // more than the errors of rounding
	s.bands[far] = p.close(m + less*quarters[0].scale*math.Abs(float64(above))*(q-m))
	s.bands[farLeft], s.bands[farOf] = float32(d), above
	return true
}
