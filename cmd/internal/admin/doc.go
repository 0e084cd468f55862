// Package admin has what operators do to a group from outside: it checks whether a worker can start, reads, resets and repairs
// what the group has stored, and reads its dead letters and sends them again.
package admin

// This file checks whether a worker can run: its configuration, the brokers, topics, permissions,
// schemas, live records and stored state. `worker check` prints them as a [Report]; run starts only if none
// of them stops it ([Examine]), so the two agree. It also creates missing topics, retries a start that may
// succeed later ([Retry]), and derives the processor's configuration from the worker's.
