package detectors

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"odradek/detectors/knn"
)

// Modelled is a Detector whose tasks read a model. Their owner sets Task.Model to the
// Batch.Model of it, and packs rows relative to Origin, not to centers of their own.
type Modelled interface {
	Detector
	Model() *Model
	// Origin has the center of each value of a row; rows of another number of values do
	// not fit the model, and their scores are NaN. The caller must not change it.
	Origin() []float64
}

// KNNReference is what op KNN judges points by on arrival, instead of those before them: a
// golden batch, last week, or the solving set of either, which is much smaller and judges
// alike (Angiulli, Basta and Pizzuti, Distance-based detection and prediction of outliers,
// 2006).
type KNNReference struct {
	Dim    int       // values a row
	Embed  int       // successive rows that make a point; 0 means 1
	Points []float64 // points of Embed rows, one after the other, at least one; all finite
	// Cut is the weight w* of the n-th outlier of the set that the reference stands for: a
	// point of a larger weight is an outlier. 0 or more.
	Cut float64
}

// The words of a model of op KNN, before the origin (a float64 a value) and the points
// (float32s, relative to the origin).
const (
	knnModelDim = iota
	knnModelEmbed
	knnModelPoints
	_            // so that float64s lie at even offsets
	knnModelCut  // a float64
	knnModelHead = knnModelCut + 2
)

// NewKNNModel returns the model of a reference set. Points are kept as float32s relative to
// the mean of their values. The error names every fault of the set.
func NewKNNModel(s KNNReference) (*Model, error) {
	if s.Embed == 0 {
		s.Embed = 1
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(s.Cut >= 0) || math.IsInf(s.Cut, 1) {
		fault("the cut is %v, use 0 or more", s.Cut)
	}
	if s.Dim < 1 || s.Dim > math.MaxUint16 || s.Embed < 1 || s.Embed > knnMaxEmbed {
		fault("points of %d rows of %d values, use 1 to %d rows of 1 to %d", s.Embed, s.Dim, knnMaxEmbed, math.MaxUint16)
		return nil, fmt.Errorf("detectors: knn model: %w", errors.Join(faults...))
	}
	width := s.Dim * s.Embed
	n := len(s.Points) / width
	switch {
	case len(s.Points) == 0:
		fault("the reference set is empty")
	case len(s.Points)%width != 0:
		fault("%d numbers are no points of %d rows of %d values", len(s.Points), s.Embed, s.Dim)
	case n > KNNMaxWindow:
		fault("%d points, use %d at most", n, KNNMaxWindow)
	}
	origin := make([]float64, s.Dim)
	for i, v := range s.Points {
		// Divided first: the sum of large values is finite.
		origin[i%s.Dim] += v / float64(max(1, n*s.Embed))
	}
	w := make(Words, knnModelHead+2*s.Dim+len(s.Points))
	w.SetInt(knnModelDim, s.Dim)
	w.SetInt(knnModelEmbed, s.Embed)
	w.SetInt(knnModelPoints, n)
	w.SetFloat64(knnModelCut, s.Cut)
	for c, v := range origin {
		w.SetFloat64(knnModelHead+2*c, v)
	}
	points := w[knnModelHead+2*s.Dim:].F32()
	for i, v := range s.Points {
		if points[i] = float32(v - origin[i%s.Dim]); spoilt(v) {
			fault("value %d of point %d is %v: leave out points with values that are missing or infinite", i%width, i/width, v)
			break
		}
	}
	if len(faults) == 0 && !knn.Finite(points) {
		fault("values are too far from their mean for float32")
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("detectors: knn model: %w", errors.Join(faults...))
	}
	return NewModel(w), nil
}

// knnModel is the content of a model.
type knnModel struct {
	dim, embed, n int
	cut           float64
	origin        Words     // a float64 a value
	points        []float32 // of dim*embed numbers
}

// readKNNModel reads a model's content; false where it is none of op KNN.
func readKNNModel(w Words) (m knnModel, ok bool) {
	if len(w) < knnModelHead {
		return m, false
	}
	m.dim, m.embed, m.n, m.cut = w.Int(knnModelDim), w.Int(knnModelEmbed), w.Int(knnModelPoints), w.Float64(knnModelCut)
	if m.dim < 1 || m.dim > math.MaxUint16 || m.embed < 1 || m.embed > knnMaxEmbed || m.n < 1 || m.n > KNNMaxWindow ||
		len(w) != knnModelHead+2*m.dim+m.n*m.dim*m.embed {
		return knnModel{}, false
	}
	m.origin, m.points = w[knnModelHead:knnModelHead+2*m.dim], w[knnModelHead+2*m.dim:].F32()
	return m, true
}

// KNNModelParams are the parameters of op KNN with a model; 0 means the default.
type KNNModelParams struct {
	Model       *Model // of NewKNNModel, or one of the same content
	K           int    // neighbours, default 10
	IncludeSelf bool   // a point is its own first neighbour, at distance 0
	Neighbours  bool   // as KNNParams has it: numbers of points of the model, the scored one's after all
}

// KNNModelDetector is the detector of op KNN with a model.
type KNNModelDetector struct {
	knnDetector
	of     *Model
	model  knnModel
	origin []float64
}

// NewKNNByModel returns the detector whose score is the weight of a point among those of a
// model, from its first point on. Where the model has fewer than K points, all are
// neighbours, and the sum of distances is scaled to K. A point with a value that is not
// finite has no score (NaN). The error names every fault of the parameters.
func NewKNNByModel(p KNNModelParams) (*KNNModelDetector, error) {
	if p.K == 0 {
		p.K = 10
	}
	var faults []error
	if p.K < 1 || p.K > knn.MaxK {
		faults = append(faults, fmt.Errorf("k is %d, use 1 to %d", p.K, knn.MaxK))
	}
	d := &KNNModelDetector{of: p.Model}
	if p.Model == nil {
		faults = append(faults, errors.New("there is no model"))
	} else {
		var ok bool
		d.model, ok = readKNNModel(p.Model.Words())
		for c := range d.model.dim {
			d.origin = append(d.origin, d.model.origin.Float64(2*c))
		}
		if !ok || slices.ContainsFunc(d.origin, spoilt) || !knn.Finite(d.model.points) || !(d.model.cut >= 0) {
			faults = append(faults, errors.New("the model's content is not that of a reference set: make it with NewKNNModel"))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("detectors: knn: %w", errors.Join(faults...))
	}
	d.p = KNNParams{K: p.K, Embed: d.model.embed, IncludeSelf: p.IncludeSelf, Neighbours: p.Neighbours}
	d.params = make(Words, knnParamCount)
	d.params.SetInt(knnK, p.K)
	d.params.SetInt(knnPoints, 1) // so that a task that lacks its model has no neighbours
	d.params.SetInt(knnEmbed, d.model.embed)
	d.params.SetBool(knnSelf, p.IncludeSelf)
	d.params.SetBool(knnNeighbours, p.Neighbours)
	return d, nil
}

func spoilt(v float64) bool { return v-v != 0 }

// Model returns the model that tasks read.
func (d *KNNModelDetector) Model() *Model { return d.of }

// Origin returns the center of each value of a row.
func (d *KNNModelDetector) Origin() []float64 { return d.origin }

// Cut returns the weight above which a point is an outlier.
func (d *KNNModelDetector) Cut() float64 { return d.model.cut }

// Window returns the rows of one point.
func (d *KNNModelDetector) Window() int { return d.p.Embed }

// Size is that of a score for each fresh row that completes a point.
func (d *KNNModelDetector) Size(v View) (n Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.p.Embed {
		return Outputs{}, false
	}
	n.Scores = v.Fresh
	if d.p.Neighbours {
		n.Detail = v.Fresh * d.p.K
	}
	return n, true
}

// Explain expects the mean of the last rows of the nearest points of the model. A value's
// share is that in the squared distances to them.
func (d *KNNModelDetector) Explain(r Rows, fresh int, expected, contribution []float64) bool {
	x, width, ok := knnAgainst(nil, &r)
	if !ok || knnSpoilt(x[(d.model.n+fresh)*width:(d.model.n+fresh+1)*width]) {
		return false
	}
	return knnExplain(x, width, r.Dim, d.p, knnQuery(&r, fresh), expected, contribution)
}

// knnAgainst appends the points of the model of r and then those of its fresh rows, width
// numbers each. It returns false where the model does not fit the rows.
func knnAgainst(dst []float32, r *Rows) (x []float32, width int, ok bool) {
	m, ok := readKNNModel(r.Model)
	if !ok || m.dim != r.Dim || m.embed != r.Params.Int(knnEmbed) {
		return dst, 0, false
	}
	x, width = append(dst, m.points...), m.dim*m.embed
	for end := r.Len() - r.Fresh + 1; end <= r.Len(); end++ {
		x = append(x, r.X[(end-m.embed)*m.dim:end*m.dim]...)
	}
	return x, width, true
}

// knnUndefined is the result of a task whose rows do not fit its model.
func knnUndefined(r *Rows) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	for i := range r.Detail {
		r.Detail[i] = NoNeighbour
	}
}

// knnModelCases are tasks with models: reference sets and solving sets of them, of fewer
// points than neighbours, of points on one spot, of a dimension that is not the rows'.
func knnModelCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(points, dim, embed, k, rows int, fresh []int, draw func() float64) {
		s := KNNReference{Dim: dim, Embed: embed, Points: make([]float64, points*dim*embed)}
		for i := range s.Points {
			s.Points[i] = draw()
		}
		m, err := NewKNNModel(s)
		if err != nil {
			panic(err)
		}
		d, err := NewKNNByModel(KNNModelParams{Model: m, K: k, IncludeSelf: rng.IntN(2) == 0, Neighbours: rng.IntN(2) == 0})
		if err != nil {
			panic(err)
		}
		all := signals(rng)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		cases = append(cases, newCase(fmt.Sprintf("a model of %d points of %d rows of %d, k=%d, self %v, neighbours %v",
			points, embed, dim, k, d.p.IncludeSelf, d.p.Neighbours), d, rows, 0, fresh, all...))
	}
	normal := func() float64 { return 30 * rng.NormFloat64() }
	tied := func() float64 { return float64(rng.IntN(4)) }
	for _, draw := range []func() float64{normal, tied, func() float64 { return 5 }} {
		dim, embed := 1+rng.IntN(3), 1+rng.IntN(5)
		add(1+rng.IntN(300), dim, embed, 1+rng.IntN(40), dim, []int{1, 1, 7, 40}, draw)
	}
	add(1, 1, 1, 5, 1, []int{1, 3}, normal)                      // fewer points than neighbours
	add(5000+rng.IntN(100), 2, 1, 1000, 2, []int{90, 1}, normal) // more than are searched at a time
	add(50, 2, 3, 5, 3, []int{2}, normal)                        // another dimension
	return cases
}
