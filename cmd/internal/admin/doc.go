// Package preflight checks whether a worker can run: its configuration, the brokers, topics, permissions,
// schemas, live records and stored state. `worker check` prints them as a [Report]; run starts only if none
// of them stops it ([Examine]), so the two agree. It also creates missing topics, retries a start that may
// succeed later ([Retry]), and derives the processor's configuration from the worker's.
package admin
