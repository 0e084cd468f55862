package metrics

import (
	"reflect"
	"testing"

	"odradek/processor/kafka"
	"odradek/processor/state"
)

// TestOutcomes: outcomes of a topic are summed over its partitions, dead letters and skipped records by reason, values and intervals by
// field.
func TestOutcomes(t *testing.T) {
	m := New("scores")
	for p := range int32(2) {
		tp := kafka.TP{Topic: "in", Partition: p}
		var by state.Counts
		by[state.Scored], by[state.Late] = 5, int64(p)
		m.Worked(tp, &Work{Counts: Counts{Consumed: 12, Outcomes: by, Dead: 3, Skipped: Tally{"tombstone": 2},
			Rejected: Tally{"temp": 1}, Fields: FieldCounts{"temp": {Resets: 3, Closed: 4}, "load": {Closed: 4, Empty: 5}}}}, 0, 0, 0)
		m.DeadLetters(tp, "magic", 2)
	}
	m.DeadLetters(kafka.TP{Topic: "in"}, "bad_time", 2)
	m.Worked(kafka.TP{Topic: "a"}, &Work{Counts: Counts{Consumed: 1}}, 0, 0, 0)
	m.Worked(kafka.TP{Topic: "many"}, &Work{Counts: Counts{Consumed: 100, Further: 270, Dead: 10}}, 0, 0, 0) // four samples each
	m.DeadLetters(kafka.TP{Topic: "many"}, "magic", 10)
	want := []Outcome{{Topic: "a", Consumed: 1, Samples: 1}, {Topic: "in", Consumed: 24, Samples: 24,
		Shares: []Share{{"empty intervals: load", 10}, {"scored", 10}, {"closed intervals: load", 8}, {"closed intervals: temp", 8},
			{"resets: temp", 6}, {"dead: magic", 4}, {"skipped: tombstone", 4}, {"dead: bad_time", 2}, {"rejected values: temp", 2}, {"late", 1}}},
		{Topic: "many", Consumed: 100, Samples: 370, Shares: []Share{{"dead: magic", 10}}}}
	if got := m.Outcomes(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
