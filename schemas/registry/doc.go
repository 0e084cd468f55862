// Package registry is the client of a schema registry with the Confluent REST API. It
// keeps what it has seen, in memory and on disk, so that a registry that is down matters
// to new schemas only.
package registry
