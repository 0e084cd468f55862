package anomaly

import (
	"encoding/binary"
	"math"

	"odradek/processor/state/changelog"
)

// Region is a rectangle of a grid that a score is about.
type Region struct {
	// The first and the last of its columns and rows, from 0.
	ColumnFrom, ColumnTo, RowFrom, RowTo int32
	X0, Y0, X1, Y1                       float64 // its corners in the units of the samples
	Observed                             int64   // the count of its cells
	Expected                             float64 // count expected by their baselines
	Ratio                                float64 // log-likelihood ratio
	P                                    float64 // probability of a ratio as high by chance; NaN: unknown
}

// Overlap is the least share of the cells of two regions, of successive windows, that are in both
// (intersection over union), for them to be of one anomaly.
const Overlap = 0.25

// overlap returns the cells that are in both regions, as a share of those in either; 0 of an excess and a deficit.
func (r *Region) overlap(o *Region) float64 {
	if float64(r.Observed) < r.Expected != (float64(o.Observed) < o.Expected) {
		return 0
	}
	both := cells(max(r.ColumnFrom, o.ColumnFrom), min(r.ColumnTo, o.ColumnTo)) * cells(max(r.RowFrom, o.RowFrom), min(r.RowTo, o.RowTo))
	return both / (r.area() + o.area() - both)
}

func (r *Region) area() float64 { return cells(r.ColumnFrom, r.ColumnTo) * cells(r.RowFrom, r.RowTo) }

func cells(from, to int32) float64 { return max(0, float64(to)-float64(from)+1) }

// same reports whether both are of the same cells.
func (r *Region) same(o *Region) bool {
	return r.ColumnFrom == o.ColumnFrom && r.ColumnTo == o.ColumnTo && r.RowFrom == o.RowFrom && r.RowTo == o.RowTo
}

func (r *Region) append(b []byte) []byte {
	for _, v := range [...]int64{int64(r.ColumnFrom), int64(r.ColumnTo), int64(r.RowFrom), int64(r.RowTo), r.Observed} {
		b = binary.AppendVarint(b, v)
	}
	return appendBits(b, r.X0, r.Y0, r.X1, r.Y1, r.Expected, r.Ratio, r.P)
}

func decodeRegion(d *changelog.Decoder) *Region {
	r := new(Region)
	for _, v := range [...]*int32{&r.ColumnFrom, &r.ColumnTo, &r.RowFrom, &r.RowTo} {
		n := d.Int()
		if *v = int32(n); int64(*v) != n {
			d.Fail()
		}
	}
	r.Observed = d.Int()
	for _, v := range [...]*float64{&r.X0, &r.Y0, &r.X1, &r.Y1, &r.Expected, &r.Ratio, &r.P} {
		*v = math.Float64frombits(d.Bits())
	}
	return r
}
