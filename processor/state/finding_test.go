package state

import (
	"reflect"
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
)

// finder is a detector whose findings say what its Explain would.
type finder struct {
	detectors.Detector
	explain detectors.Explainer
}

func (f finder) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	dst = f.Detector.AppendFindings(dst, r)
	for i := range dst {
		expected, contribution := make([]float64, r.Dim), make([]float64, r.Dim)
		if _, ok := f.explain.Explain(r, dst[i].Fresh, 0, expected, contribution); ok {
			dst[i].Expected, dst[i].Contribution = expected, contribution
		}
	}
	return dst
}

// TestFindingSaysWhatWasExpected: an anomaly has it from a finding as it has it from an
// Explainer, with what was measured.
func TestFindingSaysWhatWasExpected(t *testing.T) {
	z, err := simple.NewZScore(5)
	if err != nil {
		t.Fatal(err)
	}
	var want []EventRow
	for _, d := range []detectors.Detector{z, finder{z, z.(detectors.Explainer)}} {
		cfg := watched()
		cfg.Dim, cfg.Windows[0].Columns = 2, []int{0, 1}
		cfg.Detectors[0].Detector, cfg.Detectors[0].Stride = d, 2
		s, b := New(cfg), &detectors.Batch{}
		s.SetSource("in", 3)
		s.Mark(0)
		for i := range int64(14) {
			row := []float64{1e8 + float64(i%2), 0.25}
			if i == 9 {
				row[0] = 7
			}
			s.Fold(&Sample{Key: []byte("a"), Time: i, Offset: i, Values: row}, b)
		}
		for i := range b.Tasks {
			r := b.Rows(i)
			z.Op().Spec().CPU(t.Context(), &r, detectors.Sequential)
		}
		s.Apply(b)
		if len(s.Events) == 0 || s.Events[0].Change.Anomaly.Expected == nil || s.Events[0].Change.Anomaly.Actual[0] != 7 {
			t.Fatalf("%T: changes %+v", d, s.Events)
		}
		for i := range s.Events {
			s.Events[i].Key = nil
		}
		if want == nil {
			want = s.Events
		} else if !reflect.DeepEqual(s.Events, want) {
			t.Errorf("findings lead to changes %+v, an Explainer to %+v", s.Events, want)
		}
	}
}
