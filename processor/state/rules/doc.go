// Package rules has the decisions of a partition's owner: made once, live, and read in every replay. They are evictions and the
// like, how records are read (Reading), and how scores are judged: rulings, guards, mutes and the rules learnt from labels.
package rules
