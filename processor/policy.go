package processor

import (
	"fmt"
	"strconv"
	"strings"

	"odradek/processor/kafka"
)

// This file defines the decisions that an operator makes by settings, in advance or after a worker has refused to continue.

// OnLoss decides what happens where continuing would lose something silently.
type OnLoss int

const (
	// FailOnLoss stops the worker with a *RefusedError.
	FailOnLoss OnLoss = iota
	// Earliest resumes at the first retained record, with empty state.
	Earliest
	// Latest resumes at the end of the log, with empty state.
	Latest
	// Reset resumes at the committed offset, with empty state.
	Reset
)

// RefusedError reports that continuing would lose or misread something and that
// the operator has to decide. Decide names the command or setting that records the decision.
type RefusedError struct {
	TP     kafka.TP
	Reason string
	Decide string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("processor: %s/%d: %s; to decide: %s", e.TP.Topic, e.TP.Partition, e.Reason, e.Decide)
}

// RefusedErrors are the refusals of all partitions of a worker, which ends with them.
type RefusedErrors []*RefusedError

// Error returns each reason once, after the partitions that it holds for.
func (e RefusedErrors) Error() string {
	type cause struct{ topic, reason, decide string }
	var causes []cause
	partitions := map[cause][]string{}
	for _, r := range e {
		c := cause{r.TP.Topic, r.Reason, r.Decide}
		if partitions[c] == nil {
			causes = append(causes, c)
		}
		partitions[c] = append(partitions[c], strconv.Itoa(int(r.TP.Partition)))
	}
	parts := make([]string, len(causes))
	for i, c := range causes {
		parts[i] = fmt.Sprintf("%s/%s: %s; to decide: %s", c.topic, strings.Join(partitions[c], ","), c.reason, c.decide)
	}
	return "processor: every partition of this worker waits for a decision: " + strings.Join(parts, "; ")
}

// Unwrap returns the refusals.
func (e RefusedErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, r := range e {
		errs[i] = r
	}
	return errs
}
