// Package policy defines the decisions that an operator makes by settings, in advance or after a worker has refused to continue.
package policy

import (
	"fmt"

	"odradek/processor/kafka"
)

// OnLoss decides what happens where continuing would lose something silently.
type OnLoss int

const (
	// Fail stops the worker with a *RefusedError.
	Fail OnLoss = iota
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
