// Package registry is the client of a schema registry with the Confluent REST API, or of AWS Glue's, of which it has one call: the
// version of a schema by its UUID. It caches schemas in memory and on disk, so that an outage of the registry affects new
// schemas only.
package registry
