// Package simple has the ops that need no method of their own: value, the reading itself; zscore, its distance to the mean of
// those before it; flatline, for how long a sensor has not changed.
package simple
