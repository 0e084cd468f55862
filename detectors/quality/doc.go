// Package quality reads labelled data sets and measures how well scores and
// findings agree with their labels, by the rules that were published for each.
// It is independent of the worker: series come out, scores and findings go in.
package quality
