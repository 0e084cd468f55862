// Package output writes and reads the records of the worker's own topics, scores and
// anomalies, in Avro or JSON, and writes the sensor readings of `worker generate` in each input format.
package output
