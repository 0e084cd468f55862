// Package rules has what is decided once, live, and read in every replay: the decisions of a partition's owner, how records are
// read, and by what scores are judged, that is rulings, guards, mutes and the rules that labels have taught.
package rules
