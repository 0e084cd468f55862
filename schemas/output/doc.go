// Package output writes and reads the records of the worker's own topics, scores and
// anomalies, and writes the sensor readings of `worker generate`, all of them in Avro.
package output
