package knn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// Reference is the set by which op KNN judges arriving points, instead of the points before them: a
// golden batch, last week, or the solving set of either, which is much smaller and judges alike
// (Angiulli, Basta and Pizzuti, Distance-based detection and prediction of outliers, 2006).
type Reference struct {
	Dim    int       // values a row
	Embed  int       // successive rows that make a point; 0 means 1
	Points []float64 // points of Embed rows, one after the other, at least one; all finite
	ZNorm  bool      // points are normalised, see Params; Embed must be at least 3
	Wide   bool      // keep points as float64, which far levels need (detectors.ChangesLevel): tasks are wide, and only CPUs score them
	// Cut is the weight w* of the n-th outlier of the set that the reference represents: a point of a
	// larger weight is an outlier. 0 or more.
	Cut float64
}

// The words of a model, before the origin (a float64 a value) and the points: float32s,
// relative to the origin, or float64s as they came; or either, normalised.
const (
	paramModelDim = iota
	paramModelEmbed
	paramModelPoints
	paramModelForm // bits of the next
	paramModelCut  // a float64
	paramModelHead = paramModelCut + 2
)

// Bits of the word paramModelForm.
const (
	formZNorm = 1 << iota
	formWide
)

// NewModel returns the model of a reference set. Unless Wide, points are kept as float32s relative
// to the mean of their values. The error names every fault of the set.
func NewModel(s Reference) (*detectors.Model, error) {
	if s.Embed == 0 {
		s.Embed = 1
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(s.Cut >= 0) || math.IsInf(s.Cut, 1) {
		fault("the cut is %v, use 0 or more", s.Cut)
	}
	if s.Dim < 1 || s.Dim > math.MaxUint16 || s.Embed < 1 || s.Embed > maxEmbed {
		fault("points of %d rows of %d values, use 1 to %d rows of 1 to %d", s.Embed, s.Dim, maxEmbed, math.MaxUint16)
		return nil, fmt.Errorf("knn: model: %w", errors.Join(faults...))
	}
	if s.ZNorm && s.Embed < 3 {
		fault("points of %d rows are all alike when normalised: use an embedding of at least 3", s.Embed)
	}
	width := s.Dim * s.Embed
	n := len(s.Points) / width
	switch {
	case len(s.Points) == 0:
		fault("the reference set is empty")
	case len(s.Points)%width != 0:
		fault("%d numbers are no points of %d rows of %d values", len(s.Points), s.Embed, s.Dim)
	case n > MaxWindow:
		fault("%d points, use %d at most", n, MaxWindow)
	}
	origin := originOf(s.Points, s.Dim)
	at, form, size := paramModelHead+2*s.Dim, 0, 1
	if s.ZNorm {
		form |= formZNorm
	}
	if s.Wide {
		form |= formWide
		size = 2
	}
	w := make(detectors.Words, at+size*len(s.Points))
	w.SetInt(paramModelDim, s.Dim)
	w.SetInt(paramModelEmbed, s.Embed)
	w.SetInt(paramModelPoints, n)
	w.SetInt(paramModelForm, form)
	w.SetFloat64(paramModelCut, s.Cut)
	for c, v := range origin {
		w.SetFloat64(paramModelHead+2*c, v)
	}
	if i := slices.IndexFunc(s.Points, notFinite); i >= 0 {
		fault("value %d of point %d is %v: leave out points with values that are missing or infinite", i%width, i/width, s.Points[i])
	}
	if s.Wide {
		copy(w[at:].F64(), s.Points)
	} else {
		points := w[at:].F32()
		for i, v := range s.Points {
			points[i] = float32(v - origin[i%s.Dim])
		}
		if len(faults) == 0 && !Finite(points) {
			fault("values are too far from their mean for float32")
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("knn: model: %w", errors.Join(faults...))
	}
	if s.ZNorm && s.Wide {
		normalise(w[at:].F64(), width, s.Dim)
	} else if s.ZNorm {
		normalise(w[at:].F32(), width, s.Dim)
	}
	return detectors.NewModel(w), nil
}

// originOf returns the mean of each value of points.
func originOf(points []float64, dim int) []float64 {
	origin, n := make([]float64, dim), float64(max(1, len(points)/dim))
	for i, v := range points {
		origin[i%dim] += v / n // divided first: the sum of large values is finite
	}
	return origin
}

// normalise normalises points of width numbers.
func normalise[F float32 | float64](points []F, width, dim int) {
	for p := range slices.Chunk(points, width) {
		vec.Normalise(p, dim)
	}
}

// newReferred returns the detector that judges by all runs of EMBED rows without a missing value, or
// with outliers above 0 by their solving set and the weight of the last outlier. The search for these
// uses one core: the set, whose content is its identity, is the same on every host.
func newReferred(v detectors.Values, dim int, rows []float64, outliers int) (detectors.Modelled, error) {
	if v.Bool(detectors.TumblingParam) {
		return nil, errors.New("knn: whole windows (TUMBLING) are not judged by a reference set")
	}
	ref := Reference{Dim: dim, Embed: v.Int("EMBED"), ZNorm: v.Bool("ZNORM")}
	width := dim * ref.Embed
	for from := 0; from+width <= len(rows); from += dim {
		if p := rows[from : from+width]; !slices.ContainsFunc(p, notFinite) {
			ref.Points = append(ref.Points, p...)
		}
	}
	n := len(ref.Points) / width
	switch {
	case n == 0:
		return nil, fmt.Errorf("knn: no %d successive rows of the reference set are without missing values", ref.Embed)
	case outliers >= n:
		return nil, fmt.Errorf("knn: %d outliers of a reference set of %d points, use fewer", outliers, n)
	case n > MaxWindow:
		return nil, fmt.Errorf("knn: a reference set of %d points, use %d at most", n, MaxWindow)
	}
	if outliers > 0 {
		algorithm := Algorithms[slices.IndexFunc(Algorithms, func(w Algorithm) bool { return w.Name == "SolvingSet" })]
		x := ref.Points
		if ref.ZNorm {
			x = slices.Clone(x)
			normalise(x, width, dim)
		}
		top, err := algorithm.Find(x, width, TopParams{N: outliers, K: v.Int("K"), Self: v.Bool("INCLUDE_SELF")})
		if err != nil {
			return nil, fmt.Errorf("knn: %w", err)
		}
		ref.Points, ref.Cut = top.Reference(ref.Points, width)
	}
	ref.Wide = changesLevel(rows, dim, originOf(ref.Points, dim))
	m, err := NewModel(ref)
	if err != nil {
		return nil, err
	}
	return NewByModel(ModelParams{Model: m, K: v.Int("K"), IncludeSelf: v.Bool("INCLUDE_SELF")})
}

// changesLevel reports whether float32s relative to an origin have too few digits of points of these rows: the rows change their
// level (detectors.ChangesLevel), or the origin is far from all of them, as where there are spikes in its mean.
func changesLevel(rows []float64, dim int, origin []float64) bool {
	n := len(rows) / dim
	if n == 0 {
		return false
	}
	bits := make([]uint64, n*dim)
	for i := range bits {
		bits[i] = math.Float64bits(rows[i])
	}
	centers, _ := detectors.Centers(nil, bits, nil, dim, 0, n)
	return detectors.ChangesLevel(detectors.WideSet, bits, nil, dim, n, centers) ||
		detectors.ChangesLevel(detectors.WideSet, bits, nil, dim, n, origin)
}

// model is the content of a model.
type model struct {
	dim, embed, n int
	znorm         bool
	cut           float64
	origin        detectors.Words // a float64 a value
	points        []float32       // of dim*embed numbers
	wide          []float64       // in place of points
}

// readModel reads a model's content; false if it is not a model of this op.
func readModel(w detectors.Words) (m model, ok bool) {
	if len(w) < paramModelHead {
		return m, false
	}
	m.dim, m.embed, m.n, m.cut = w.Int(paramModelDim), w.Int(paramModelEmbed), w.Int(paramModelPoints), w.Float64(paramModelCut)
	form, size := w.Int(paramModelForm), 1
	if form&formWide != 0 {
		size = 2
	}
	if m.dim < 1 || m.dim > math.MaxUint16 || m.embed < 1 || m.embed > maxEmbed || m.n < 1 || m.n > MaxWindow ||
		len(w) != paramModelHead+2*m.dim+size*m.n*m.dim*m.embed {
		return model{}, false
	}
	m.znorm = form&formZNorm != 0
	points := w[paramModelHead+2*m.dim:]
	if m.origin = w[paramModelHead : paramModelHead+2*m.dim]; size == 2 {
		m.wide = points.F64()
	} else {
		m.points = points.F32()
	}
	return m, true
}

// ModelParams are the parameters of the op with a model; 0 means the default.
type ModelParams struct {
	Model       *detectors.Model // of NewModel, or one of the same content
	K           int              // neighbours, default 10
	IncludeSelf bool             // a point is its own first neighbour, at distance 0
	Neighbours  bool             // as in Params: numbers of points of the model, the scored point's number after all
}

// ModelDetector is the detector of the op with a model.
type ModelDetector struct {
	detector
	source *detectors.Model
	model  model
	origin []float64
}

// NewByModel returns the detector whose score is the weight of a point among the points of a
// model, from its first point on. Where the model has fewer than K points, all are
// neighbours, and the sum of distances is scaled to K. A point with a value that is not
// finite has no score (NaN). The error names every fault of the parameters.
func NewByModel(p ModelParams) (*ModelDetector, error) {
	if p.K == 0 {
		p.K = 10
	}
	var faults []error
	if p.K < 1 || p.K > MaxK {
		faults = append(faults, fmt.Errorf("k is %d, use 1 to %d", p.K, MaxK))
	}
	d := &ModelDetector{source: p.Model}
	if p.Model == nil {
		faults = append(faults, errors.New("there is no model"))
	} else {
		var ok bool
		d.model, ok = readModel(p.Model.Words())
		for c := range d.model.dim {
			d.origin = append(d.origin, d.model.origin.Float64(2*c))
		}
		finite := Finite(d.model.points) && !slices.ContainsFunc(d.model.wide, notFinite) && !slices.ContainsFunc(d.origin, notFinite)
		if !ok || !finite || !(d.model.cut >= 0) {
			faults = append(faults, errors.New("the model's content is no reference set: make it with NewModel"))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("knn: %w", errors.Join(faults...))
	}
	d.p = Params{K: p.K, Embed: d.model.embed, IncludeSelf: p.IncludeSelf, Neighbours: p.Neighbours, ZNorm: d.model.znorm}
	d.params = make(detectors.Words, paramCount)
	d.params.SetInt(paramK, p.K)
	d.params.SetInt(paramPoints, 1) // so that a task that lacks its model has no neighbours
	d.params.SetInt(paramEmbed, d.model.embed)
	d.params.SetBool(paramSelf, p.IncludeSelf)
	d.params.SetBool(paramNeighbours, p.Neighbours)
	d.params.SetBool(paramZNorm, d.model.znorm)
	return d, nil
}

func notFinite(v float64) bool { return v-v != 0 }

// Model returns the model that tasks read.
func (d *ModelDetector) Model() *detectors.Model { return d.source }

// Origin returns the center of each value of a row.
func (d *ModelDetector) Origin() []float64 { return d.origin }

// Cut returns the weight above which a point is an outlier.
func (d *ModelDetector) Cut() float64 { return d.model.cut }

// Wide returns AlwaysWide for a model of float64. Normalised rows of any level may be near the model's points.
func (d *ModelDetector) Wide() detectors.Wide {
	switch {
	case d.model.wide != nil:
		return detectors.AlwaysWide
	case d.model.znorm:
		return detectors.WideAll
	}
	return detectors.NotWide
}

// Window returns the rows of one point.
func (d *ModelDetector) Window() int { return d.p.Embed }

// Size returns a score for each fresh row that completes a point.
func (d *ModelDetector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.p.Embed {
		return detectors.Outputs{}, false
	}
	n.Scores = v.Fresh
	if d.p.Neighbours {
		n.Detail = v.Fresh * d.p.K
	}
	return n, true
}

// Explain expects the mean of the nearest points of the model. A value's share is its share of the squared distances to them.
func (d *ModelDetector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	x, origin, width, ok := nearRow(&r, fresh)
	if !ok || hasNonFinite(x[(d.model.n+fresh)*width:(d.model.n+fresh+1)*width]) {
		return detectors.Location{}, false
	}
	p, ok := explain(x, width, &r, d.p, query(&r, fresh), fresh, since, expected, contribution)
	for c, v := range origin {
		expected[c] += v
	}
	return p, ok
}

// nearRow is against for a row: of a wide task it makes r one of float32 (Rows.Near), origin is the row, and the points of x are
// relative to it, unless they are normalised.
func nearRow(r *detectors.Rows, fresh int) (x []float32, origin []float64, width int, ok bool) {
	if r.X64 == nil {
		x, width, ok = against(nil, r)
		return x, nil, width, ok
	}
	points, width, ok := againstWide(nil, r)
	*r, origin = r.Near(fresh)
	for i, v := range points {
		if !r.Params.Bool(paramZNorm) {
			v -= origin[i%r.Dim]
		}
		x = append(x, float32(v))
	}
	return x, origin, width, ok
}

// Describe returns the nearest points of the model and their distances, whose sum is the score.
func (d *ModelDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row - d.p.Embed + 1, To: row}
	e.Location, e.Fields = shares(d, r, fresh)
	x, _, width, ok := nearRow(&r, fresh)
	if !ok {
		return e
	}
	q := query(&r, fresh)
	at := x[q.At*width:][:width]
	k := d.p.K
	if d.p.IncludeSelf {
		k--
	}
	for _, i := range nearest(x, width, at, k, q) {
		e.Inputs = append(e.Inputs, detectors.Input{Role: detectors.Reference, From: detectors.Outside, To: detectors.Outside, Number: i,
			Distance: distance(at, x[i*width:])})
	}
	e.Measures = []detectors.Measure{{Name: "points of the reference set", Field: detectors.AllFields, Value: float64(d.model.n)}}
	if d.model.cut > 0 {
		e.Measures = append(e.Measures, detectors.Measure{Name: "cut of the reference set", Field: detectors.AllFields, Value: d.model.cut})
	}
	return e
}

// against appends the points of the model of r and then the points of its fresh rows, width
// numbers each. It returns false where the model does not fit the rows.
func against(dst []float32, r *detectors.Rows) (x []float32, width int, ok bool) {
	m, ok := readModel(r.Model)
	if !ok || m.wide != nil || m.dim != r.Dim || m.embed != r.Params.Int(paramEmbed) {
		return dst, 0, false
	}
	x, width = append(dst, m.points...), m.dim*m.embed
	return vec.Embed(x, r.X[(r.Len()-r.Fresh+1-m.embed)*m.dim:], m.dim, m.embed, m.znorm), width, true
}

// againstWide is against for a wide task.
func againstWide(dst []float64, r *detectors.Rows) (x []float64, width int, ok bool) {
	m, ok := readModel(r.Model)
	if !ok || m.dim != r.Dim || m.embed != r.Params.Int(paramEmbed) {
		return dst, 0, false
	}
	x, width = append(dst, m.wide...), m.dim*m.embed
	for i, v := range m.points {
		x = append(x, float64(v))
		if !m.znorm {
			x[i] += m.origin.Float64(2 * (i % m.dim))
		}
	}
	return vec.Embed(x, r.X64[(r.Len()-r.Fresh+1-m.embed)*m.dim:], m.dim, m.embed, m.znorm), width, true
}

// undefined sets the result of a task whose rows do not fit its model.
func undefined(r *detectors.Rows) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	for i := range r.Detail {
		r.Detail[i] = detectors.NoRow
	}
}

// modelCases are tasks with models: reference sets and solving sets of them, of fewer
// points than neighbours, of points on one spot, of a dimension that is not the rows'.
func modelCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(points, dim, embed, k, rows int, fresh []int, draw func() float64) *detectors.Case {
		s := Reference{Dim: dim, Embed: embed, Points: make([]float64, points*dim*embed), ZNorm: embed > 2 && rng.IntN(2) == 0}
		for i := range s.Points {
			s.Points[i] = draw()
		}
		m, err := NewModel(s)
		if err != nil {
			panic(err)
		}
		d, err := NewByModel(ModelParams{Model: m, K: k, IncludeSelf: rng.IntN(2) == 0, Neighbours: rng.IntN(2) == 0})
		if err != nil {
			panic(err)
		}
		all := detectors.Signals(rng)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		cases = append(cases, detectors.NewCase(fmt.Sprintf("a model of %d points of %d rows of %d, k=%d, self %v, neighbours %v",
			points, embed, dim, k, d.p.IncludeSelf, d.p.Neighbours), d, rows, 0, fresh, all...))
		return &cases[len(cases)-1]
	}
	normal := func() float64 { return 30 * rng.NormFloat64() }
	tied := func() float64 { return float64(rng.IntN(4)) }
	spot := func() float64 { return 5 }
	clusters := func() float64 { return float64(rng.IntN(2)*2e6) + rng.NormFloat64() } // far from their mean
	for _, draw := range []func() float64{normal, tied, spot, clusters} {
		dim, embed := 1+rng.IntN(3), 1+rng.IntN(5)
		add(1+rng.IntN(300), dim, embed, 1+rng.IntN(40), dim, []int{1, 1, 7, 40}, draw)
	}
	add(1, 1, 1, 5, 1, []int{1, 3}, normal)                                 // fewer points than neighbours
	add(5000+rng.IntN(100), 2, 1, 1000, 2, []int{90, 1}, normal).CPU = true // more than are searched at a time
	add(50, 2, 3, 5, 3, []int{2}, normal)                                   // another dimension
	// Sizes at the limits of a kernel's steps, and points of few and many values.
	for _, n := range []int{63, 64, 65, 257, 1024, 1025} {
		dim, embed := 1+rng.IntN(4), 1+rng.IntN(16)
		add(n, dim, embed, 1+rng.IntN(1<<rng.IntN(8)), dim, []int{1 + rng.IntN(20)}, []func() float64{normal, tied, clusters}[rng.IntN(3)])
	}
	// Every point of the set is judged, and each is among its own neighbours, at distance 0.
	own := Reference{Dim: 2, Points: make([]float64, 2*70)}
	for i := range own.Points {
		own.Points[i] = tied()
	}
	m, err := NewModel(own)
	if err != nil {
		panic(err)
	}
	d := detectors.Must(NewByModel(ModelParams{Model: m, K: 4, Neighbours: true}))
	points := 0
	at := func(int, int) float64 { // the first value of each row, then the second
		points++
		return own.Points[(points-1)%70*2+(points-1)/70]
	}
	return append(cases, detectors.NewCase("the points of a model", d, 2, 0, []int{30, 40}, detectors.Signal{Name: "its points", At: at}))
}
