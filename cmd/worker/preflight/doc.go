// Package preflight has the checks that a worker makes before it runs: of its configuration, the
// brokers, topics, permissions, schemas, live records and stored state. `worker check` prints
// them as a [Report]; run starts only if none of them stops it ([Examine]), so the two agree. It
// also creates the topics that are missing, retries a start that may succeed later ([Retry]),
// and makes the processor's configuration of the worker's.
package preflight
