package brokertest

import (
	"slices"
	"testing"

	"odradek/processor/kafkatest"
)

// TestValues: what Write has written is read back, of the partition it was written to.
func TestValues(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	in := k.Topic(t, "in", 2)
	Write(t, Franz(t, k.Brokers), in, 1, 3, 4)
	got := Values(t, k, in, true)
	if len(got[0]) != 0 || len(got[1]) != 4 || !slices.IsSorted(got[1]) {
		t.Errorf("%v", got)
	}
}
