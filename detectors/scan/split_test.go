package scan

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// splits returns splits of up to most counts, of small and large variances.
func splits(rng *rand.Rand, most int64) []split {
	var all []split
	for _, n := range []int64{1, 2, 1 + rng.Int64N(20), 1 + rng.Int64N(most), most} {
		for _, left := range []int64{1, 1 + rng.Int64N(9), 1 + rng.Int64N(n), n, 1 + rng.Int64N(2*most)} {
			for _, right := range []int64{1, 1 + rng.Int64N(9), 1 + rng.Int64N(n), n, left, 1 + rng.Int64N(2*most)} {
				all = append(all, newSplit(n, left, right, false))
				if n <= left+right {
					all = append(all, newSplit(n, left, right, true))
				}
			}
		}
	}
	return all
}

func (s *split) String() string {
	return fmt.Sprintf("%d of %d+%d, limited %v", s.n, s.left, s.right, s.limited)
}

// TestSplitProbability compares probabilities with the binomial and the hypergeometric
// distribution, in exact fractions.
func TestSplitProbability(t *testing.T) {
	rng := seedtest.New(t)
	binomial := func(n, k int64) *big.Int { return new(big.Int).Binomial(n, k) }
	power := func(a, n int64) *big.Int { return new(big.Int).Exp(big.NewInt(a), big.NewInt(n), nil) }
	product := func(a ...*big.Int) *big.Int {
		p := big.NewInt(1)
		for _, v := range a {
			p.Mul(p, v)
		}
		return p
	}
	for _, s := range splits(rng, 300) {
		all := s.left + s.right
		least, most := s.bounds()
		for range 20 {
			k := least + rng.Int64N(most-least+1)
			above, below := product(binomial(s.n, k), power(s.left, k), power(s.right, s.n-k)), power(all, s.n)
			if s.limited {
				above, below = product(binomial(s.left, k), binomial(s.right, s.n-k)), binomial(all, s.n)
			}
			want, _ := new(big.Rat).SetFrac(above, below).Float64()
			if got := s.probability(k); math.Abs(got-want) > 1e-12*want+1e-290 {
				t.Errorf("%v: %d has the probability %v, want %v", &s, k, got, want)
			}
			if up, down := s.ratio(k); k < most && want > 1e-200 {
				if next := s.probability(k + 1); math.Abs(next-want*up/down) > 1e-12*next {
					t.Errorf("%v: %d has the probability %v, the one before %v times %v/%v", &s, k+1, next, want, up, down)
				}
			}
		}
	}
}

// TestSplitHat requires that the hat covers the probabilities, and its table the numbers under it.
func TestSplitHat(t *testing.T) {
	rng := seedtest.New(t)
	covered := 0
	for _, s := range splits(rng, 20_000) {
		least, most := s.bounds()
		mean := float64(s.mean) + s.fraction
		variance := mean * float64(s.right) / float64(s.left+s.right)
		if s.limited {
			variance *= float64(s.left+s.right-s.n) / float64(s.left+s.right-1)
		}
		if variance <= inverted {
			continue
		}
		covered++
		mode := s.mean
		if up, down := s.ratio(mode); up > down {
			mode++
		}
		largest, width := s.probability(mode), hat(math.Sqrt(variance+0.5))
		for k := least; k <= most; k++ {
			share := s.probability(k) / largest
			off := math.Max(math.Abs(float64(k)-mean-0.5), math.Abs(float64(k)-mean+0.5))
			if share > 1+1e-12 || math.Sqrt(share)*off > width*(1+1e-12) {
				t.Errorf("%v: %d is %v of the largest probability, and %v of the hat", &s, k, share, math.Sqrt(share)*off/width)
			}
		}
	}
	if covered < 10 {
		t.Errorf("only %d splits", covered)
	}
}

// draws returns n draws of a split.
func draws(rng *rand.Rand, s *split, n int) []int64 {
	seed, place := rng.Uint64(), rng.Uint32()
	values := make([]int64, n)
	for i := range values {
		values[i] = s.draw(newRandom(seed, i), place)
	}
	return values
}

// TestSplitDraws compares the distribution of draws with the probabilities, by a chi-square test for
// each split.
func TestSplitDraws(t *testing.T) {
	rng := seedtest.New(t)
	const n = 20_000
	all := splits(rng, 3000)
	for _, limited := range []bool{false, true} { // about the limit of inversion
		all = append(all, newSplit(390, 5000, 5000, limited), newSplit(450, 5000, 5000, limited), newSplit(1e6, 200, 1e6, limited))
	}
	for _, s := range all {
		values := draws(rng, &s, n)
		slices.Sort(values)
		least, most := s.bounds()
		if values[0] < least || values[n-1] > most {
			t.Fatalf("%v: %d to %d, want %d to %d", &s, values[0], values[n-1], least, most)
		}
		chi, bins, expected, drawn, sum := 0.0, 0, 0.0, 0, 0.0
		for k, i := values[0], 0; i < n; k++ {
			p := s.probability(k)
			if k == values[0] { // with what lies below
				for below := k - 1; below >= least && below > k-2000; below-- {
					p += s.probability(below)
				}
			}
			for sum += p; i < n && values[i] == k; i++ {
				drawn++
			}
			if expected += n * p; expected >= 20 || i == n {
				if i == n { // with what lies above
					expected += n * (1 - sum)
				}
				if expected > 5 {
					chi += (float64(drawn) - expected) * (float64(drawn) - expected) / expected
					bins++
				}
				expected, drawn = 0, 0
			}
		}
		if free := float64(bins - 1); free > 0 && chi > free+7*math.Sqrt(2*free)+25 {
			t.Errorf("%v: chi-square %v of %d bins", &s, chi, bins)
		}
	}
}

// TestSplitDrawsLarge requires that draws of the largest totals are normal, by the test of Kolmogorov
// and Smirnov.
func TestSplitDrawsLarge(t *testing.T) {
	rng := seedtest.New(t)
	const n = 20_000
	for _, limited := range []bool{false, true} {
		all := int64(MaxTotal)
		left := all/8 + rng.Int64N(all/2)
		s := newSplit(all/4+rng.Int64N(all/2), left, all-left, limited)
		p := float64(left) / float64(all)
		deviation := math.Sqrt(float64(s.n) * p * (1 - p))
		if limited {
			deviation *= math.Sqrt(float64(all-s.n) / float64(all-1))
		}
		values := draws(rng, &s, n)
		slices.Sort(values)
		off := 0.0
		for i, k := range values {
			share := math.Erfc(-(float64(k-s.mean)-s.fraction)/deviation/math.Sqrt2) / 2
			off = max(off, math.Abs(share-float64(i)/n), math.Abs(share-float64(i+1)/n))
		}
		if off*math.Sqrt(n) > 2.2 { // of probability 1.2e-4
			t.Errorf("%v: the distribution of %d draws is %v off the normal one", &s, n, off)
		}
	}
}
