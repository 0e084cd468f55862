package discord

import (
	"cmp"
	"math"
	"slices"
)

// Interest ranks the discords of all lengths of a series (Zymbler and Kraeva 2023, equation 12): it keeps, of each place, the
// one with the largest normalised distance.
type Interest struct {
	k         int
	distances []float64 // by place; NaN for none
	lengths   []int32
	nearest   []int32
}

// NewInterest returns an empty ranking of a series of n values, of distances to k neighbours.
func NewInterest(n, k int) *Interest {
	in := &Interest{k, make([]float64, n), make([]int32, n), make([]int32, n)}
	for i := range in.distances {
		in.distances[i] = math.NaN()
	}
	return in
}

// at returns the discord kept of a place.
func (in *Interest) at(i int) Discord {
	return Discord{At: i, Length: int(in.lengths[i]), Distance: in.distances[i], Nearest: int(in.nearest[i])}
}

func (in *Interest) normalised(d Discord) float64 { return Normalised(d.Distance, d.Length, in.k) }

// Add adds a discord. Of equal ones of a place the first that is added is kept.
func (in *Interest) Add(d Discord) {
	if old := in.at(d.At); old.Length == 0 || in.normalised(d) > in.normalised(old) {
		in.distances[d.At], in.lengths[d.At], in.nearest[d.At] = d.Distance, int32(d.Length), int32(d.Nearest)
	}
}

// Top returns the n most interesting discords, the first one first, none of which has a value in common with one before; of equal
// ones the first in the series. The paper does not say that they are apart; its picture shows some that are.
func (in *Interest) Top(n int) []Discord {
	var places []int32
	for i, m := range in.lengths {
		if m > 0 {
			places = append(places, int32(i))
		}
	}
	slices.SortStableFunc(places, func(a, b int32) int {
		return cmp.Compare(in.normalised(in.at(int(b))), in.normalised(in.at(int(a))))
	})
	var found []Discord
	for _, i := range places {
		if len(found) == n {
			break
		}
		d := in.at(int(i))
		if !slices.ContainsFunc(found, func(f Discord) bool { return d.At < f.At+f.Length && f.At < d.At+d.Length }) {
			found = append(found, d)
		}
	}
	return found
}
