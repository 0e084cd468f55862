package sensors

import (
	"fmt"
	"math"
)

// Spots is the model of counts at places: a region has a site in each cell of a grid, and in a round each
// reports once, cell after cell, how many events it had and how many it usually has, its baseline, from 5 to 20.
// Counts are Poisson. The rounds of a region are cut into slots of SpotEvery. In each slot but the first there is, for
// half of it, a hot spot: a square of 2 x 2 cells with two to three times their events, which moves by a
// cell a round, along an axis and back.
type Spots struct {
	Seed          uint64
	Regions       int
	Columns, Rows int   // cells of a region, at least 2
	SpotEvery     int64 // rounds of a slot, at least 4; 0: there are no hot spots
}

// SpotFields are the names of the values of a report: its place, in cells from 0 on, and its counts.
var SpotFields = [...]string{"x", "y", "events", "usual"}

// SpotKey is the field of the key.
const SpotKey = "region"

// HotSpot is the name of what is planted in regions.
const HotSpot = "hot_spot"

// spotSize is the number of cells of a side of a hot spot.
const spotSize = 2

// Spot is a hot spot in the rounds From to To, both included.
type Spot struct {
	From, To    int64
	Factor      float64 // of the events
	column, row int64   // where it begins
	down        bool    // it moves from row to row; else from column to column
	m           *Spots
}

// Box returns the corners x0, y0, x1, y1 of the spot in a round.
func (s *Spot) Box(round int64) (box [4]float64) {
	column, row := s.column, s.row
	if moved := round - s.From; s.down {
		row = reflect(row+moved, int64(s.m.Rows-spotSize))
	} else {
		column = reflect(column+moved, int64(s.m.Columns-spotSize))
	}
	return [...]float64{float64(column), float64(row), float64(column + spotSize), float64(row + spotSize)}
}

// reflect returns the place after at steps of a walk that starts at 0 and turns at most and at 0.
func reflect(at, most int64) int64 {
	if most == 0 {
		return 0
	}
	if at %= 2 * most; at > most {
		at = 2*most - at
	}
	return at
}

// Keys implements Stream.
func (sp *Spots) Keys() [][]byte {
	keys := make([][]byte, sp.Regions)
	for i := range keys {
		keys[i] = sp.key(i)
	}
	return keys
}

func (sp *Spots) key(region int) []byte { return fmt.Appendf(nil, "region-%02d", region) }

// Round returns the number of steps of a round.
func (sp *Spots) Round() int64 { return int64(sp.Columns * sp.Rows) }

func (sp *Spots) seed(region int) uint64 { return mix(sp.Seed ^ mix(uint64(region)+0x4e91)) }

// SpotOf returns the hot spot of a slot.
func (sp *Spots) SpotOf(region int, slot int64) (s Spot, ok bool) {
	if sp.SpotEvery == 0 || slot < 1 {
		return Spot{}, false
	}
	r := mix(sp.seed(region) ^ mix(uint64(slot)+0x507))
	s = Spot{m: sp, From: slot*sp.SpotEvery + int64(next(&r)%uint64(sp.SpotEvery/4)), Factor: 2 + unit(&r)}
	s.To = s.From + sp.SpotEvery/2 - 1
	s.column = int64(next(&r) % uint64(sp.Columns-spotSize+1))
	s.row = int64(next(&r) % uint64(sp.Rows-spotSize+1))
	s.down = next(&r)&1 == 1
	return s, true
}

// spotAt returns the hot spot of a round.
func (sp *Spots) spotAt(region int, round int64) (s Spot, ok bool) {
	s, ok = sp.SpotOf(region, round/max(1, sp.SpotEvery))
	return s, ok && round >= s.From && round <= s.To
}

// At returns the values of a region's report at a step, in the order of SpotFields.
func (sp *Spots) At(region int, step int64) (values [len(SpotFields)]float64) {
	round, cell := step/sp.Round(), step%sp.Round()
	column, row := cell%int64(sp.Columns), cell/int64(sp.Columns)
	site := mix(sp.seed(region) ^ mix(uint64(cell)+0xce11))
	usual := 5 + float64(next(&site)%16)
	x, y := float64(column)+math.Floor(1000*unit(&site))/1000, float64(row)+math.Floor(1000*unit(&site))/1000
	rate := usual
	if s, ok := sp.spotAt(region, round); ok {
		if box := s.Box(round); x >= box[0] && x < box[2] && y >= box[1] && y < box[3] {
			rate *= s.Factor
		}
	}
	r := mix(sp.seed(region) + uint64(step)*0x9e3779b97f4a7c15)
	return [...]float64{x, y, poisson(&r, rate), usual}
}

// poisson draws a count of a mean up to some hundred (Knuth, TAOCP 2, 3.4.1).
func poisson(r *uint64, mean float64) (count float64) {
	limit := math.Exp(-mean)
	for p := 1 - unit(r); p > limit; p *= 1 - unit(r) {
		count++
	}
	return count
}

// Append implements Stream.
func (sp *Spots) Append(dst []byte, region int, step, time int64) (value []byte, ok bool) {
	values := sp.At(region, step)
	var fields [len(SpotFields)]field
	for i, name := range SpotFields {
		fields[i] = field{name, values[i]}
	}
	return appendRecord(dst, SpotKey, sp.key(region), time, fields[:], step), true
}

// Label implements Stream: there is one for each round of a hot spot.
func (sp *Spots) Label(region int, step int64) (l Label, ok bool) {
	round := step / sp.Round()
	s, ok := sp.spotAt(region, round)
	if !ok {
		return Label{}, false
	}
	box := s.Box(round)
	return Label{Series: string(sp.key(region)), Fault: HotSpot, FromSeq: round * sp.Round(), ToSeq: (round+1)*sp.Round() - 1,
		Size: s.Factor, Box: box[:]}, true
}
