package sst

import (
	"math"

	"odradek/detectors"
)

// This file says what a change score was computed from: the trajectories of past and present that the singular
// spectrum transformations compare, by either way.

// Compared gives the rows of a change score, in numbers of rows.
type Compared struct {
	detectors.Steady
	Window int
	Gamma  int // from the past's last row to the present's
}

// Wide is a Spec's Wide: past and present each have a level, and few rows of another are their first direction.
func Wide(detectors.Words) detectors.Wide { return detectors.WideCourse }

// Column returns field c of a task's rows in float64.
func Column(r *detectors.Rows, c int) []float64 {
	x := make([]float64, r.Len())
	for i := range x {
		if r.X64 != nil {
			x[i] = r.X64[i*r.Dim+c]
		} else {
			x[i] = float64(r.X[i*r.Dim+c])
		}
	}
	return x
}

// most is the number of directions that Describe returns at least, where there are as many.
const most = 8

// Locate is detectors.Locator's. It reads no rows.
func Locate(s *detectors.Steady, r *detectors.Rows, fresh int, contribution []float64) (p detectors.Location, ok bool) {
	for c := range contribution {
		contribution[c] = math.NaN()
	}
	if len(contribution) == 1 {
		contribution[0] = 1
	}
	row := r.Row(fresh)
	return detectors.Location{Row: row - s.To, From: row - s.From, To: row - s.To}, true
}

// Describe returns past and present of the field with the largest score, the directions of the past, and the shares of the
// present's rows. dissect returns what the score of a row's field was computed from; it is called for each field in turn.
func (c *Compared) Describe(r *detectors.Rows, fresh int, dissect func(field int) Anatomy) detectors.Evidence {
	row := r.Row(fresh)
	present := row - 2*c.Window + 2
	e := detectors.Evidence{From: row - c.From, To: row - c.To, Inputs: []detectors.Input{
		{Role: detectors.Past, From: row + 1 - c.Least, To: row - c.Gamma, Distance: math.NaN()},
		{Role: detectors.Present, From: present, To: row, Distance: math.NaN()}}}
	e.Location = detectors.Location{Row: e.To, From: e.From, To: e.To}
	best, at := Anatomy{Score: math.NaN()}, 0
	for field := range r.Dim {
		if a := dissect(field); a.Score > best.Score || math.IsNaN(best.Score) {
			best, at = a, field
		}
	}
	if math.IsNaN(best.Score) {
		return e
	}
	e.Fields = detectors.OneHot(r.Dim, at)
	e.Measures = []detectors.Measure{{Name: "share of the present that the past's directions do not explain", Field: at, Value: best.Score}}
	for i, v := range best.Strength[:min(len(best.Strength), max(best.Count, most))] {
		e.Directions = append(e.Directions, detectors.Direction{Strength: v, Weight: best.Weight[i], Counts: i < best.Count})
	}
	e.Rows, e.RowsFrom = best.Rows, present
	return e
}
