package sst

import (
	"reflect"
	"strings"
	"testing"

	"odradek/detectors"
)

func TestSVDSSTSizes(t *testing.T) {
	d := detectors.Must(NewSVD(SVDOpParams{Window: 100}))
	if got := d.Window(); got != 406 {
		t.Errorf("window of %d rows, want 4w+6 = 406", got)
	}
	if _, ok := d.Size(detectors.View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	size, ok := d.Size(detectors.View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || size != (detectors.Outputs{Scores: 16}) {
		t.Errorf("Size = %+v, %v; want 16 scores, true", size, ok)
	}
	x := make([]float32, 407)
	same := detectors.Must(NewIKA(IKAOpParams{Window: 100})).AppendFindings(nil, detectors.Rows{Dim: 1, Fresh: 2, X: x,
		Scores: []float32{0.25, 0.5}})
	if f := d.AppendFindings(nil, detectors.Rows{Dim: 1, Fresh: 2, X: x, Scores: []float32{0.25, 0.5}}); !reflect.DeepEqual(f, same) {
		t.Errorf("findings %v, ikasst's are %v", f, same)
	}
	_, err := NewSVD(SVDOpParams{Window: 5, Rank: 5, Gamma: -1})
	for _, want := range []string{"rank", "gamma"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}
