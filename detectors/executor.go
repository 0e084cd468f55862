package detectors

import "context"

// Executor runs batches. Several batches may be executed at once; each is used
// by one goroutine at a time.
type Executor interface {
	// Batch returns an empty batch in the executor's own memory.
	Batch() *Batch
	// Execute computes Scores and Next of every task. A task's result depends on
	// that task alone, to the bit, regardless of the rest of the batch. On an error
	// the outputs are undefined and the batch may be executed again.
	Execute(ctx context.Context, b *Batch) error
	// Release returns a batch's memory.
	Release(b *Batch)
	// Close frees what the executor holds; no batch may be in use.
	Close() error
}
