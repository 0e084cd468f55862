package processor

import (
	"time"

	"odradek/processor/cycle"
)

// Step names a moment of a commit.
type Step string

// The steps of a commit, in their order: the first three of ExactlyOnce, the others of AtLeastOnce.
const (
	BeforeSend Step = "before-send" // nothing of the cycle is sent
	BeforeEnd  Step = "before-end"  // outputs, state and offsets are sent, the transaction is open
	AfterEnd   Step = "after-end"   // the transaction is committed

	BeforeChangelog Step = "before-changelog" // the outputs are written
	BeforeOffsets   Step = "before-offsets"   // the outputs and the state are written
)

// Hooks lets a test act within a commit, such as end the process between two
// steps. Its functions run in the goroutine that commits. The zero value does
// nothing; no program sets another.
type Hooks struct {
	// Step is called at each step of the commit of a cycle with the source records that it
	// has consumed: 0 for a cycle that only commits where partitions start; the
	// number of such cycles depends on timing.
	Step func(step Step, records int)
	// BeforeOutputs is called with AtLeastOnce before the outputs of a cycle are
	// written. commitOffsets commits the cycle's source offsets, which breaks the
	// guarantee: it is the negative control that a check of the outputs has to catch.
	// An error fails the commit.
	BeforeOutputs func(records int, commitOffsets func() error) error
	// MetadataInterval is the time between two looks for topics and partitions; 0: kafka.GroupConfig's default.
	MetadataInterval time.Duration
}

// step calls the hook for a step of c's commit.
func (h *Hooks) step(step Step, c *cycle.Cycle[*partition]) {
	if h.Step != nil {
		h.Step(step, c.Records)
	}
}

// beforeOutputs calls the hook of that name for c.
func (h *Hooks) beforeOutputs(c *cycle.Cycle[*partition], commitOffsets func() error) error {
	if h.BeforeOutputs == nil {
		return nil
	}
	return h.BeforeOutputs(c.Records, commitOffsets)
}
