// Package admin has the commands of operators that act on a group from outside: they check whether a worker can start, list, reset
// and repair the group's stored state, and list its dead letters and send them again.
package admin

// This file checks whether a worker can run: its configuration, the brokers, topics, permissions,
// schemas, live records and stored state. `worker check` prints them as a [Report]; run starts only if none
// of them stops it ([Examine]), so the two agree. It also creates missing topics, retries a start that may
// succeed later ([Retry]), and derives the processor's configuration from the worker's.
