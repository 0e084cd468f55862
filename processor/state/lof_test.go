package state

import (
	"context"
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/processor/state/series"
)

// TestLOFWithSummary: scores of op LOF with a summary, through State and executor, are the
// definition's on the rows of the window and the summary of all rows before.
func TestLOFWithSummary(t *testing.T) {
	r := seedtest.New(t)
	for _, p := range []lof.OpParams{
		{Window: 30, K: 4, Cells: 8, Decay: 0.7},
		{Window: 30, K: 4, Cells: 1, Warmup: 12},
		{Window: 24, K: 5, Cells: 6, Tumbling: true},
	} {
		det, err := lof.New(p)
		if err != nil {
			t.Fatal(err)
		}
		stride := 3
		if p.Tumbling {
			stride = p.Window
		}
		cfg := &Config{Dim: 2, Windows: []series.WindowConfig{{Columns: []int{0, 1}, Fingerprint: 1}},
			Detectors: []series.DetectorConfig{{Name: "lof", Detector: det, Stride: stride, Fingerprint: 1}}}
		s, e := New(cfg), detectors.NewCPU(1)
		b := e.Batch()
		var rows, state, want []float64
		summary, left, virtual := det.(detectors.Summarizer).Summary(2), 0, 0
		for i := range int64(400) {
			x := []float64{1e6 + r.NormFloat64(), r.NormFloat64() + float64(i/100)}
			rows = append(rows, x...)
			s.Fold(&Sample{Key: []byte("a"), Time: i, Offset: i, Values: x}, b)
			if len(b.Tasks) == 0 {
				continue
			}
			n := len(rows) / 2
			for ; left < n-p.Window; left++ {
				state = summary.Add(state, rows[2*left:2*left+2])
			}
			want = append(want, define(p, rows[2*max(0, n-p.Window):], stride, summary, state)...)
			virtual += summary.Count(state)
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			s.Apply(b)
			b.Reset()
		}
		at := 0
		for _, row := range s.Rows {
			if row.State != RowScored {
				continue
			}
			if d := math.Abs(float64(row.Score) - want[at]); !(d < 1e-4*want[at]) { // rows are float32, less a center
				t.Fatalf("%+v: score %d is %v, want %v", p, at, row.Score, want[at])
			}
			at++
		}
		if at != len(want) || at == 0 || virtual == 0 {
			t.Fatalf("%+v: %d scores, want %d; %d virtual points", p, at, len(want), virtual)
		}
	}
}

// define is the definition of the last fresh of the rows.
func define(p lof.OpParams, rows []float64, fresh int, summary *detectors.BinParams, state []float64) []float64 {
	n := summary.Count(state)
	packed := make([]float32, 3*n)
	center := []float64{1e6, 0}
	summary.Pack(packed, state, center)
	var points, virtual []float64
	for i, v := range rows {
		points = append(points, v-center[i%2])
	}
	for _, v := range packed {
		virtual = append(virtual, float64(v))
	}
	return lof.Define(&lof.Params{K: p.K}, points, 2, fresh, virtual[:2*n], virtual[2*n:])
}
