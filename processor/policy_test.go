package processor

import (
	"errors"
	"testing"

	"odradek/processor/kafka"
)

// TestRefusedErrors: the error of a worker all of whose partitions are refused names each of them, and each reason and
// decision once for the partitions that have it.
func TestRefusedErrors(t *testing.T) {
	refusal := func(topic string, partition int32, reason, decide string) *RefusedError {
		return &RefusedError{TP: kafka.TP{Topic: topic, Partition: partition}, Reason: reason, Decide: decide}
	}
	err := error(RefusedErrors{refusal("a", 0, "changed", "change back"), refusal("a", 1, "deleted", "reset"),
		refusal("a", 12, "changed", "change back"), refusal("b", 0, "changed", "change back")})
	const want = "processor: every partition of this worker waits for a decision: a/0,12: changed; to decide: change back; " +
		"a/1: deleted; to decide: reset; b/0: changed; to decide: change back"
	if err.Error() != want {
		t.Errorf("%q\nwant\n%q", err, want)
	}
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.TP.Topic != "a" {
		t.Errorf("it is no refusal: %v", refused)
	}
}
