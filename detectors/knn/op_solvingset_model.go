package knn

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// A model is words: the number of its points, 0 or 1, the cut (a float64), the origin (a float64 a value of
// a row), and the points, padded with 0 up to the largest number of points: with 0 float32s, relative to the
// origin; with 1 half as many float64s as they came, where the window changes its level.
const (
	modelPoints = 0
	modelWide   = 1
	modelCut    = 2
	modelOrigin = 4
)

// words returns the size of a model.
func (s *settings) words(dim int) int { return modelOrigin + dim*(2+s.most*s.embed) }

// setModel is the content of a model.
type setModel struct {
	cut    float64
	origin detectors.Words // a float64 a value
	points []float32
	wide   []float64 // in place of points
}

func read(w detectors.Words, dim, width int) setModel {
	at, n := modelOrigin+2*dim, w.Int(modelPoints)*width
	m := setModel{cut: w.Float64(modelCut), origin: w[modelOrigin:at]}
	if !w.Bool(modelWide) {
		m.points = w[at : at+n].F32()
		return m
	}
	m.wide = make([]float64, n)
	for i := range m.wide {
		m.wide[i] = w.Float64(at + 2*i)
	}
	return m
}

// mine sets w to the model of the last points of rows. Without a point that it takes, or once stop
// returns true, it is the empty one.
func (s *settings) mine(w detectors.Words, rows []float64, dim int, stop func() bool, parallel detectors.Parallel) {
	clear(w)
	width := s.embed * dim
	if most := (s.window + s.embed - 1) * dim; len(rows) > most {
		rows = rows[len(rows)-most:]
	}
	x := make([]float64, 0, max(0, len(rows)/dim-s.embed+1)*width)
	x = drop(vec.Embed(x, rows, dim, s.embed, s.znorm), width)
	n := len(x) / width
	if n == 0 {
		return
	}
	origin := originOf(x, dim)
	most := s.most
	wide := !s.znorm && most >= 4*s.k && changesLevel(rows, dim, origin)
	if wide {
		most /= 2
	}
	set, cut, err := Model(x, width, most,
		TopParams{N: s.top, K: s.k, Candidates: max(1, min(100, s.most/16)), Stop: stop}, parallel)
	if err != nil {
		panic(err) // the points are finite, and New has checked the parameters
	}
	w.SetInt(modelPoints, len(set))
	w.SetBool(modelWide, wide)
	w.SetFloat64(modelCut, cut)
	for c, v := range origin {
		w.SetFloat64(modelOrigin+2*c, v)
	}
	to := w[modelOrigin+2*dim:]
	for at, i := range set {
		for c, v := range x[i*width : (i+1)*width] {
			if wide {
				to.SetFloat64(2*(at*width+c), v)
			} else {
				to.SetFloat32(at*width+c, float32(v-origin[c%dim]))
			}
		}
	}
}

// drop removes the points whose values are not all finite, or whose differences may not be in
// float32.
func drop(x []float64, width int) []float64 {
	left := x[:0]
	for p := range slices.Chunk(x, width) {
		if !slices.ContainsFunc(p, func(v float64) bool { return !(math.Abs(v) <= math.MaxFloat32/4) }) {
			left = append(left, p...)
		}
	}
	return left
}

// nearPoint is a point of a model that is near a scored one.
type nearPoint struct {
	number int
	point  []float64 // relative to the origin
	apart  []float64 // the scored point less this one
	weight float64   // the distance as it is in the score: unless the model is wide, of numbers that are rounded to float32
}

// nearest returns the points of the model of a task that are nearest to a fresh row's point, the nearest first. They are
// the score's neighbours: far from the origin, rounding may make others the nearest.
func (s *settings) nearest(r *detectors.Rows, fresh int) (m setModel, points []nearPoint) {
	dim, words := r.Dim-s.timed, r.Carry
	width := s.embed * dim
	if len(words) == 0 {
		words = r.Next
	}
	m = read(words, dim, width)
	at := vec.Embed(nil, s.rows(r, fresh), dim, s.embed, s.znorm)
	for i := range words.Int(modelPoints) {
		n := nearPoint{number: i, point: make([]float64, width), apart: make([]float64, width)}
		for c := range width {
			origin := m.origin.Float64(2 * (c % dim))
			if m.wide != nil {
				n.point[c] = m.wide[i*width+c] - origin
				n.apart[c] = at[c] - m.wide[i*width+c]
				n.weight += float64(n.apart[c] * n.apart[c])
				continue
			}
			n.point[c] = float64(m.points[i*width+c])
			n.apart[c] = at[c] - origin - n.point[c]
			rounded := float64(float32(at[c]-origin)) - n.point[c]
			n.weight += float64(rounded * rounded)
		}
		n.weight = math.Sqrt(n.weight)
		points = append(points, n)
	}
	slices.SortStableFunc(points, func(a, b nearPoint) int { return cmp.Compare(a.weight, b.weight) })
	return m, points[:min(s.k, len(points))]
}

// rows returns the rows of the point of a fresh row, without their times.
func (s *settings) rows(r *detectors.Rows, fresh int) []float64 {
	to := r.Row(fresh) + 1
	values, _ := s.split(new(setMemory), r.X64[(to-s.embed)*r.Dim:to*r.Dim], r.Dim)
	return values
}

// Explain expects the mean of the nearest points of the model. A value's share is its share of the squared distances to them.
func (d *setDetector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	s, dim := &d.set, r.Dim-d.set.timed
	m, points := s.nearest(&r, fresh)
	mean, squares := make([]float64, s.embed*dim), make([]float64, s.embed*dim)
	for c := range mean {
		mean[c] = m.origin.Float64(2 * (c % dim))
	}
	for _, n := range points {
		for c, e := range n.apart {
			squares[c] += e * e
			mean[c] += n.point[c] / float64(len(points))
		}
	}
	if s.znorm {
		return detectors.DeviationOfShape(r.Row(fresh), since, s.rows(&r, fresh), mean, squares, expected, contribution)
	}
	return detectors.Deviation(r.Row(fresh), since, len(points), mean, squares, expected, contribution)
}

// Describe returns the nearest points of the model and their distances, whose sum divided by the cut is the score.
func (d *setDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row - d.set.embed + 1, To: row, Location: detectors.OneRow(row)}
	m, points := d.set.nearest(&r, fresh)
	weight := 0.0
	for _, n := range points {
		weight += n.weight
		e.Inputs = append(e.Inputs, detectors.Input{Role: detectors.Reference, From: detectors.Outside, To: detectors.Outside, Number: n.number,
			Distance: n.weight})
	}
	e.Measures = []detectors.Measure{{Name: "weight", Field: detectors.AllFields, Value: weight},
		{Name: "cut of the model", Field: detectors.AllFields, Value: m.cut}}
	expected, shares := make([]float64, r.Dim-d.set.timed), make([]float64, r.Dim-d.set.timed)
	if p, ok := d.Explain(r, fresh, 0, expected, shares); ok {
		e.Location, e.Fields = p, shares
	}
	return e
}
