// Package registry is the client of a schema registry with the Confluent REST API. It
// caches schemas in memory and on disk, so that an outage of the registry affects new
// schemas only.
package registry
