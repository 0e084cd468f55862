package page

import (
	"encoding/hex"
	"testing"

	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

// TestAlarm: a label has the opening of an anomaly from its first record and the peak from its last, and
// nothing where the first was not read.
func TestAlarm(t *testing.T) {
	s := newStore(nil)
	add := func(id byte, revision uint32, peak float64) string {
		a := output.Anomaly{ID: [16]byte{id}, Revision: revision, Key: []byte("pump"), Detector: "d", PeakScore: peak,
			Range: peak / 2, Held: uint32(peak) / 5,
			Expected: []float64{1, 2}, Actual: []float64{2, 1}, Contribution: []float64{0.2, 0.8}}
		s.apply(&a, &record.Record{Key: a.Key}, 0)
		return hex.EncodeToString(a.ID[:])
	}
	id := add(1, 1, 10)
	want := output.Alarm{Detector: "d", Series: "pump", Field: 1, Side: 2, Opened: 10, Peak: 10, First: 1, Apart: 1,
		Initial: 5, Range: 5, Early: 2, Held: 2}
	if a := s.alarm(id); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	add(1, 2, 15)
	add(1, 3, 20)
	want.Peak, want.Range, want.Held = 20, 10, 4
	if a := s.alarm(id); a == nil || *a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
	if a := s.alarm(add(2, 2, 15)); a != nil {
		t.Errorf("%+v of an anomaly whose opening is not known", a)
	}
	if s.alarm("no id") != nil || s.alarm(hex.EncodeToString(make([]byte, 16))) != nil {
		t.Error("something is known of nothing")
	}
}
